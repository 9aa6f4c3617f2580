"""torch.func.vmap over fused attention: values and gradients as on the CPU."""

import pytest
import torch
from torch.func import grad, vmap
from torch.nn.functional import scaled_dot_product_attention as attend
from torch.testing import assert_close

# The CPU has no rules of its own, and says that it is slow.
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")

SHAPES = {"with heads": (2, 4), "without heads": (2,)}


def _inputs(leading):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(5, *leading, n, 8, generator=generator) for n in (3, 6, 6)]


def _assert_as_on_cpu(function, *inputs):
    want = function(*inputs)
    have = function(*(t.to("tpu") for t in inputs))
    assert_close(torch.utils._pytree.tree_map(torch.Tensor.cpu, have), want)


@pytest.mark.parametrize("leading", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("in_dims", [0, (0, None, None), (None, 0, 0)])
def test_mapped_attention_agrees_with_the_cpu(leading, in_dims):
    places = in_dims if isinstance(in_dims, tuple) else (0, 0, 0)
    inputs = [t if at == 0 else t[0] for t, at in zip(_inputs(leading), places, strict=True)]
    _assert_as_on_cpu(vmap(attend, in_dims), *inputs)


@pytest.mark.parametrize("leading", SHAPES.values(), ids=SHAPES)
def test_gradients_per_sample_agree_with_the_cpu(leading):
    def loss(query, key, value):
        return attend(query, key, value, is_causal=True).square().sum()

    _assert_as_on_cpu(vmap(grad(loss, (0, 1, 2)), (0, 0, 0)), *_inputs(leading))


def _plain(query, key, value, mask):
    """Attention without its op, of which the CPU's has no gradient for some masks."""
    scores = query @ key.mT / query.shape[-1] ** 0.5 + mask
    return scores.softmax(-1) @ value


@pytest.mark.parametrize("shape", [(3, 6), (5, 3, 6), (5, 2, 1, 3, 6), (5, 1, 4, 1, 6)])
def test_gradients_of_mapped_masks_are_those_of_plain_attention(shape):
    inputs = [*_inputs((2, 4)), torch.randn(shape, generator=torch.Generator().manual_seed(1))]
    in_dims = (0, 0, 0, 0 if shape[0] == 5 else None)

    def gradients(attention, *inputs):
        mapped = vmap(attention, in_dims)
        return grad(lambda *inputs: mapped(*inputs).sin().sum(), (0, 1, 2, 3))(*inputs)

    have = gradients(lambda *inputs: attend(*inputs), *(t.to("tpu") for t in inputs))
    for got, expected in zip(have, gradients(_plain, *inputs), strict=True):
        assert_close(got.cpu(), expected)


def test_dropout_under_vmap_wants_to_be_told_of_randomness():
    inputs = [t.to("tpu") for t in _inputs((2, 4))]
    dropped = vmap(lambda q, k, v: attend(q, k, v, dropout_p=0.5))
    with pytest.raises(RuntimeError, match="randomness error mode"):
        dropped(*inputs)
    different = vmap(lambda q, k, v: attend(q, k, v, dropout_p=0.5), randomness="different")
    first, second = different(*(t[:1].expand(2, *t.shape[1:]) for t in inputs))
    assert not torch.equal(first.cpu(), second.cpu())
