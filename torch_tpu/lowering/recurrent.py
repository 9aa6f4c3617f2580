"""The fused LSTM and GRU cells that aten.lstm and aten.gru are composed of on a device.

The workspaces have the shapes and contents of CUDA PyTorch's: a cell's activated gates side by
side, (N, 4 * hidden) for an LSTM and (N, 5 * hidden), with hx and the new gate's hidden part,
for a GRU.
"""

import jax
import jax.numpy as jnp
import torch

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _biased(gates, bias):
    return gates if bias is None else gates + bias


def _bias_gradient(grad_gates, has_bias):
    return jnp.sum(grad_gates, axis=0) if has_bias else None


def _sigmoid_gradient(grad, activated):
    return grad * activated * (1 - activated)


def _tanh_gradient(grad, activated):
    return grad * (1 - jnp.square(activated))


@lowering(aten._thnn_fused_lstm_cell.default)
def _thnn_fused_lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    input_gates, hidden_gates, cx, input_bias, hidden_bias = promote(
        input_gates, hidden_gates, cx, input_bias, hidden_bias
    )
    gates = _biased(input_gates, input_bias) + _biased(hidden_gates, hidden_bias)
    in_gate, forget_gate, cell_gate, out_gate = jnp.split(gates, 4, axis=1)
    in_gate, forget_gate, out_gate = map(jax.nn.sigmoid, (in_gate, forget_gate, out_gate))
    cell_gate = jnp.tanh(cell_gate)
    cy = forget_gate * cx + in_gate * cell_gate
    workspace = jnp.concatenate((in_gate, forget_gate, cell_gate, out_gate), axis=1)
    return out_gate * jnp.tanh(cy), cy, workspace


@lowering(aten._thnn_fused_lstm_cell_backward_impl.default)
def _thnn_fused_lstm_cell_backward_impl(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    if grad_hy is None and grad_cy is None:
        return None, None, None
    grad_hy, grad_cy, cx, cy, workspace = promote(grad_hy, grad_cy, cx, cy, workspace)
    in_gate, forget_gate, cell_gate, out_gate = jnp.split(workspace, 4, axis=1)
    grad_hy, grad_cy = (jnp.zeros_like(cy) if grad is None else grad for grad in (grad_hy, grad_cy))
    squashed = jnp.tanh(cy)
    grad_cy = grad_cy + _tanh_gradient(grad_hy * out_gate, squashed)
    grad_gates = jnp.concatenate(
        (
            _sigmoid_gradient(grad_cy * cell_gate, in_gate),
            _sigmoid_gradient(grad_cy * cx, forget_gate),
            _tanh_gradient(grad_cy * in_gate, cell_gate),
            _sigmoid_gradient(grad_hy * squashed, out_gate),
        ),
        axis=1,
    )
    return grad_gates, grad_cy * forget_gate, _bias_gradient(grad_gates, has_bias)


@lowering(aten._thnn_fused_gru_cell.default)
def _thnn_fused_gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    input_gates, hidden_gates, hx, input_bias, hidden_bias = promote(
        input_gates, hidden_gates, hx, input_bias, hidden_bias
    )
    from_input = jnp.split(_biased(input_gates, input_bias), 3, axis=1)
    from_hidden = jnp.split(_biased(hidden_gates, hidden_bias), 3, axis=1)
    reset_gate = jax.nn.sigmoid(from_input[0] + from_hidden[0])
    update_gate = jax.nn.sigmoid(from_input[1] + from_hidden[1])
    new_gate = jnp.tanh(from_input[2] + reset_gate * from_hidden[2])
    saved = (reset_gate, update_gate, new_gate, hx, from_hidden[2])
    return new_gate + update_gate * (hx - new_gate), jnp.concatenate(saved, axis=1)


@lowering(aten._thnn_fused_gru_cell_backward.default)
def _thnn_fused_gru_cell_backward(grad_hy, workspace, has_bias):
    grad_hy, workspace = promote(grad_hy, workspace)
    reset_gate, update_gate, new_gate, hx, hidden_new = jnp.split(workspace, 5, axis=1)
    grad_update = _sigmoid_gradient(grad_hy * (hx - new_gate), update_gate)
    grad_new = _tanh_gradient(grad_hy * (1 - update_gate), new_gate)
    grad_reset = _sigmoid_gradient(grad_new * hidden_new, reset_gate)
    grad_input = jnp.concatenate((grad_reset, grad_update, grad_new), axis=1)
    grad_hidden = jnp.concatenate((grad_reset, grad_update, grad_new * reset_gate), axis=1)
    return (
        grad_input,
        grad_hidden,
        grad_hy * update_gate,
        _bias_gradient(grad_input, has_bias),
        _bias_gradient(grad_hidden, has_bias),
    )
