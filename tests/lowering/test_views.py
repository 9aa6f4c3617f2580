"""View specs read and written beside torch.as_strided and real view chains."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tests.lowering.shadow import to_array, to_tensor
from torch_tpu.lowering import views
from torch_tpu.lowering.views import ViewSpec


def spec_of(view: torch.Tensor) -> ViewSpec:
    return ViewSpec(
        tuple(view.shape),
        view.stride(),
        view.storage_offset(),
        view.dtype,
        view.is_conj(),
        view.is_neg(),
    )


def check(base: torch.Tensor, view: torch.Tensor, written: bool = True) -> None:
    """Compare read and write through ``view``, a real view of the contiguous ``base``."""
    spec = spec_of(view)
    with jax.enable_x64(True):
        array = jnp.asarray(to_array(base))
        assert_close(
            to_tensor(views.read(array, spec), view.dtype), view.resolve_conj().resolve_neg()
        )
        if not written:
            return
        value = torch.testing.make_tensor(view.shape, dtype=view.dtype, device="cpu")
        new = views.write(array, spec, jnp.asarray(to_array(value)))
    view.copy_(value)
    assert new.shape == base.shape
    assert_close(to_tensor(new, base.dtype), base, equal_nan=True)


def numbered(*dims: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(int(np.prod(dims)), dtype=torch.float32).reshape(dims).to(dtype)


CHAINS = {
    "identity": lambda x: x,
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "row": lambda x: x[1],
    "column": lambda x: x[:, :, 2],
    "last": lambda x: x[-1, -1, -1],
    "slice": lambda x: x[1:3, :, 2:5],
    "steps": lambda x: x[::2, 1::3, ::4],
    "merge": lambda x: x.view(24, 6),
    "merge all": lambda x: x.view(-1),
    "split": lambda x: x.view(4, 2, 3, 2, 3),
    "regroup": lambda x: x.view(9, 16),
    "regroup slice": lambda x: x.view(9, 16)[2:5, 3:7],
    "slice then split": lambda x: x.view(-1)[5:65].view(3, 20),
    "odd window": lambda x: x.view(-1)[7:107].view(10, 10)[:, 1:4],
    "unsqueeze": lambda x: x.unsqueeze(1).unsqueeze(-1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "flat diagonal": lambda x: x.view(12, 12).diagonal(),
    "unfold": lambda x: x.unfold(2, 2, 2),
    "unfold gaps": lambda x: x.unfold(2, 2, 3),
    "heads": lambda x: x.view(4, 6, 3, 2).transpose(1, 2)[:, 1],
    "split qkv": lambda x: x.view(4, 6, 6).split(2, -1)[1].transpose(-1, -2),
    "stride 5": lambda x: x.view(-1)[3::5],
    "as_strided": lambda x: x.as_strided((3, 4), (40, 7), 11),
    "empty": lambda x: x[:, 2:2],
    "int32": lambda x: x.view(torch.int32)[1],
    "int16": lambda x: x.view(torch.int16).transpose(0, 2)[1:4],
    "float64": lambda x: x.view(torch.float64)[:, 1],
    "complex": lambda x: torch.view_as_complex(x.view(4, 6, 3, 2)),
    "imag": lambda x: torch.view_as_complex(x.view(4, 6, 3, 2)).imag,
    "neg": lambda x: torch.view_as_complex(x.view(4, 6, 3, 2)).conj().imag[2],
    "conj": lambda x: torch.view_as_complex(x.view(4, 6, 3, 2)).conj().transpose(0, 1),
    "bytes": lambda x: x.view(torch.uint8)[..., 3::4],
}


@pytest.mark.parametrize("name", CHAINS)
def test_chain(name):
    base = numbered(4, 6, 6)
    check(base, CHAINS[name](base))


COMPLEX_CHAINS = {
    "as real": torch.view_as_real,
    "real": lambda x: x.real,
    "imag": lambda x: x.imag[:, 1],
    "conj": lambda x: x.conj().t(),
    "conj imag": lambda x: x.conj().imag,
    "float64": lambda x: x.view(torch.float64),
    "complex128": lambda x: x.view(torch.complex128),
    "int64": lambda x: x.view(torch.int64),
    "float pairs": lambda x: x.view(torch.float32)[:, 1::2],
}


@pytest.mark.parametrize("name", COMPLEX_CHAINS)
def test_complex_chain(name):
    base = torch.complex(numbered(3, 4), numbered(3, 4) + 0.5)
    check(base, COMPLEX_CHAINS[name](base))


@pytest.mark.parametrize("name", ["expand", "expand middle", "unfold", "unfold step", "overlap"])
def test_overlapping_read(name):
    base = numbered(4, 6)
    view = {
        "expand": lambda: base[:, None].expand(4, 3, 6),
        "expand middle": lambda: base[2:3].expand(5, 6),
        "unfold": lambda: base.unfold(1, 3, 1),
        "unfold step": lambda: base.unfold(0, 3, 1).transpose(0, 2),
        "overlap": lambda: base.as_strided((3, 3, 2), (3, 3, 5), 1),
    }[name]()
    check(base, view, written=False)


def test_zero_dim_and_empty_storages():
    scalar = torch.tensor(3.0)
    check(scalar, scalar)
    check(scalar, scalar.view(1, 1))
    check(scalar, scalar.expand(2, 3), written=False)
    one = torch.ones(1, 1, 1)
    check(one, one[0].t().unsqueeze(0))
    empty = torch.empty(3, 0)
    check(empty, empty.t())
    ragged = numbered(6, 5)
    check(ragged, ragged.unfold(1, 2, 3))
    odd = numbered(5)
    check(odd, odd[:4].view(torch.float64))
    flags = torch.tensor([[True, False], [False, True]])
    check(flags, flags.t())
    check(flags, flags.view(torch.uint8), written=False)


def test_random_strided_views_match_as_strided():
    generator = random.Random(0)
    for _ in range(60):
        dims = tuple(generator.randint(1, 5) for _ in range(generator.randint(1, 3)))
        base = numbered(*dims)
        room, sizes, strides = base.numel() - 1, [], []
        offset = generator.randint(0, room)
        room -= offset
        for _ in range(generator.randint(0, 3)):
            stride = generator.randint(0, 7)
            size = generator.randint(1, 1 + (min(3, room // stride) if stride else 2))
            room -= (size - 1) * stride
            sizes.append(size)
            strides.append(stride)
        check(base, base.as_strided(sizes, strides, offset), written=False)


def random_step(generator: random.Random, x: torch.Tensor) -> torch.Tensor:
    if x.dim() == 0:
        return x.unsqueeze(0)
    dim = generator.randrange(x.dim())
    kind = generator.choice(["transpose", "slice", "select", "unsqueeze", "flatten", "unflatten"])
    if kind == "transpose":
        return x.transpose(dim, generator.randrange(x.dim()))
    if kind == "slice":
        start = generator.randrange(x.shape[dim])
        step = generator.randint(1, 3)
        return x[(slice(None),) * dim + (slice(start, None, step),)]
    if kind == "select" and x.dim() > 1:
        return x.select(dim, generator.randrange(x.shape[dim]))
    if kind == "unflatten" and x.shape[dim] % 2 == 0:
        return x.unflatten(dim, (2, -1))
    if kind == "flatten":
        try:
            return x.view(-1)
        except RuntimeError:
            return x
    return x.unsqueeze(dim)


def test_random_view_chains():
    generator = random.Random(1)
    for _ in range(50):
        base = numbered(*generator.choice([(4, 6), (2, 3, 4), (12,), (1, 8, 1, 3)]))
        view = base
        for _ in range(generator.randint(1, 6)):
            view = random_step(generator, view)
        check(base, view)


def primitives(function, *arguments) -> list[str]:
    return [str(eqn.primitive) for eqn in jax.make_jaxpr(function)(*arguments).eqns]


def test_common_views_take_few_ops():
    base = numbered(4, 6)
    array = jnp.asarray(to_array(base))

    def reading(view):
        return primitives(lambda x: views.read(x, spec_of(view)), array)

    def writing(view):
        value = jnp.zeros(tuple(view.shape), jnp.float32)
        return primitives(lambda x, v: views.write(x, spec_of(view), v), array, value)

    assert reading(base) == [] and writing(base) == []
    assert reading(base.t()) == ["transpose"] and writing(base.t()) == ["transpose"]
    assert reading(base.view(-1)) == ["reshape"] and writing(base.view(-1)) == ["reshape"]
    assert reading(base[1:3]) == ["slice"] and writing(base[1:3]) == ["dynamic_update_slice"]
    assert reading(base[1]) == ["slice", "reshape"]
    assert writing(base[1]) == ["reshape", "dynamic_update_slice"]
    assert reading(base[:, None].expand(4, 3, 6)) == ["broadcast_in_dim"]


def test_a_full_write_does_not_read_the_base():
    base = numbered(4, 6)

    def reads_base(view):
        value = jnp.asarray(to_array(torch.zeros_like(view, memory_format=torch.contiguous_format)))
        traced = jax.make_jaxpr(lambda x, v: views.write(x, spec_of(view), v))(
            to_array(base), value
        )
        return any(traced.jaxpr.invars[0] in equation.invars for equation in traced.eqns)

    for view in (base, base.t(), base.view(2, 12), base.view(3, 8).t(), base.view(torch.int32)):
        assert not reads_base(view)
    for view in (base[1:], base[:, ::2], base[0], base.diagonal()):
        assert reads_base(view)
