"""The fused LSTM and GRU cells, which CPU PyTorch lacks, beside its unfused ones."""

import pytest
import torch
from shadow import run_rule, to_tensor

aten = torch.ops.aten
BATCH, HIDDEN = 3, 4


def _run(overload, *args):
    results = run_rule(overload, args, {})
    return [None if x is None else to_tensor(x, torch.float32) for x in results]


def _leaves(gates, has_bias):
    shapes = [(BATCH, gates * HIDDEN)] * 2 + [(BATCH, HIDDEN)]
    shapes += [(gates * HIDDEN,)] * 2 if has_bias else []
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    return leaves, [leaf.detach() for leaf in leaves] + [None] * (5 - len(leaves))


def _gates(leaves):
    bias = leaves[3:] or (0, 0)
    return leaves[0] + bias[0], leaves[1] + bias[1]


@pytest.mark.parametrize("has_bias", [True, False])
def test_lstm_cell(has_bias):
    leaves, args = _leaves(4, has_bias)
    i, f, g, o = sum(_gates(leaves)).chunk(4, 1)
    cy = f.sigmoid() * leaves[2] + i.sigmoid() * g.tanh()
    hy = o.sigmoid() * cy.tanh()
    got = _run(aten._thnn_fused_lstm_cell.default, *args)
    torch.testing.assert_close(got[:2], [hy, cy], check_stride=False)
    assert got[2].shape == (BATCH, 4 * HIDDEN)

    grads = torch.randn_like(hy), torch.randn_like(cy)
    for used in ((0, 1), (0,), (1,)):
        given = [grads[n] if n in used else None for n in (0, 1)]
        back = _run(
            aten._thnn_fused_lstm_cell_backward_impl.default, *given, args[2], *got[1:], has_bias
        )
        want = torch.autograd.grad(
            [(hy, cy)[n] for n in used],
            leaves,
            [grads[n] for n in used],
            retain_graph=True,
        )
        torch.testing.assert_close(back[:2], [want[0], want[2]])
        assert (back[2] is not None) == has_bias
        if has_bias:
            torch.testing.assert_close(back[2], want[3])


@pytest.mark.parametrize("has_bias", [True, False])
def test_gru_cell(has_bias):
    leaves, args = _leaves(3, has_bias)
    inputs, hiddens = (gates.chunk(3, 1) for gates in _gates(leaves))
    reset, update = ((inputs[n] + hiddens[n]).sigmoid() for n in (0, 1))
    new = (inputs[2] + reset * hiddens[2]).tanh()
    hy = new + update * (leaves[2] - new)
    got = _run(aten._thnn_fused_gru_cell.default, *args)
    torch.testing.assert_close(got[0], hy)
    assert got[1].shape == (BATCH, 5 * HIDDEN)

    grad = torch.randn_like(hy)
    back = _run(aten._thnn_fused_gru_cell_backward.default, grad, got[1], has_bias)
    want = torch.autograd.grad(hy, leaves, grad)
    for have, expected in zip(back, [*want, None, None][:5], strict=True):
        assert (have is None) == (expected is None)
        if have is not None:
            torch.testing.assert_close(have, expected)
