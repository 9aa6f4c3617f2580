"""Activation functions and their gradients."""

import jax
import jax.numpy as jnp
import torch

from torch_tpu.lowering.promotion import promote
from torch_tpu.lowering.registry import lowering

aten = torch.ops.aten


def _gradient(slope):
    """The rule of a backward (grad_output, self, *numbers): ``slope(self, *numbers)`` scaled."""

    def rule(grad_output, self, *numbers):
        grad_output, self, *numbers = promote(grad_output, self, *numbers)
        return grad_output * slope(self, *numbers)

    return rule


def _gradient_where(passes):
    """The rule of a backward that lets the gradient through where ``passes(self, *numbers)``.

    Selected, not multiplied: an infinite gradient that does not pass is 0, not NaN.
    """

    def rule(grad_output, self, *numbers):
        grad_output, self, *numbers = promote(grad_output, self, *numbers)
        return jnp.where(passes(self, *numbers), grad_output, 0)

    return rule


@lowering(aten.relu.default)
def relu(self):
    return jnp.maximum(self, 0)


@lowering(aten.threshold.default)
def threshold(self, threshold, value):
    self, threshold, value = promote(self, threshold, value)
    return jnp.where(self <= threshold, value, self)


lowering(aten.threshold_backward.default)(
    _gradient_where(lambda self, threshold: ~(self <= threshold))
)


@lowering(aten.hardtanh.default)
def hardtanh(self, min_val=-1, max_val=1):
    self, min_val, max_val = promote(self, min_val, max_val)
    return jnp.minimum(jnp.maximum(self, min_val), max_val)


lowering(aten.hardtanh_backward.default)(
    _gradient_where(lambda self, min_val, max_val: ~((self <= min_val) | (self >= max_val)))
)


@lowering(aten.hardsigmoid.default)
def hardsigmoid(self):
    (self,) = promote(self)
    return jnp.clip(self + 3, 0, 6) / 6


@lowering(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(grad_output, self):
    grad_output, self = promote(grad_output, self)
    return jnp.where((self > -3) & (self < 3), grad_output / 6, 0)


@lowering(aten.hardswish.default)
def hardswish(self):
    (self,) = promote(self)
    return self * jnp.clip(self + 3, 0, 6) / 6


@lowering(aten.hardswish_backward.default)
def hardswish_backward(grad_output, self):
    grad_output, self = promote(grad_output, self)
    inner = jnp.where(self >= 3, grad_output, grad_output * (self / 3 + 0.5))
    return jnp.where(self <= -3, 0, inner)


@lowering(aten.hardshrink.default)
def hardshrink(self, lambd=0.5):
    self, lambd = promote(self, lambd)
    return jnp.where(jnp.abs(self) <= lambd, 0, self)


@lowering(aten.softshrink.default)
def softshrink(self, lambd=0.5):
    self, lambd = promote(self, lambd)
    shrunk = jnp.where(self > lambd, self - lambd, self + lambd)
    return jnp.where(jnp.abs(self) <= lambd, 0, shrunk)


lowering(aten.hardshrink_backward.default, aten.softshrink_backward.default)(
    _gradient_where(lambda self, lambd: ~(jnp.abs(self) <= lambd))
)


@lowering(aten.leaky_relu.default)
def leaky_relu(self, negative_slope=0.01):
    self, negative_slope = promote(self, negative_slope)
    return jnp.where(self > 0, self, self * negative_slope)


@lowering(aten.leaky_relu_backward.default)
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    # A positive slope keeps the sign, so the result serves as well as the input.
    grad_output, self, negative_slope = promote(grad_output, self, negative_slope)
    return jnp.where(self > 0, grad_output, grad_output * negative_slope)


@lowering(aten.rrelu_with_noise_backward.default)
def rrelu_with_noise_backward(grad_output, self, noise, lower, upper, training, self_is_result):
    if training:
        grad_output, noise = promote(grad_output, noise)
        return grad_output * noise
    return leaky_relu_backward(grad_output, self, (lower + upper) / 2, self_is_result)


@lowering(aten._prelu_kernel.default)
def _prelu_kernel(self, weight):
    self, weight = promote(self, weight)
    return jnp.where(self > 0, self, weight * self)


@lowering(aten._prelu_kernel_backward.default)
def _prelu_kernel_backward(grad_output, self, weight):
    grad_output, self, weight = promote(grad_output, self, weight)
    grad_self = jnp.where(self > 0, grad_output, weight * grad_output)
    return grad_self, jnp.where(self > 0, 0, self * grad_output)


@lowering(aten.elu.default)
def elu(self, alpha=1, scale=1, input_scale=1):
    self, alpha, scale, input_scale = promote(self, alpha, scale, input_scale)
    below = jnp.expm1(self * input_scale) * alpha * scale
    return jnp.where(self < 0, below, self * scale)


@lowering(aten.celu.default)
def celu(self, alpha=1.0):
    return elu(self, alpha, 1.0, 1.0 / alpha)


@lowering(aten.elu_backward.default)
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    grad_output, x, alpha, scale, input_scale = promote(
        grad_output, self_or_result, alpha, scale, input_scale
    )
    amplitude = alpha * scale
    below = x + amplitude if is_result else amplitude * jnp.exp(x * input_scale)
    return grad_output * jnp.where(x <= 0, input_scale * below, scale)


@lowering(aten.silu.default)
def silu(self):
    (self,) = promote(self)
    return self * jax.nn.sigmoid(self)


@lowering(aten.silu_backward.default)
@_gradient
def silu_backward(self):
    sigmoid = jax.nn.sigmoid(self)
    return sigmoid * (1 + self * (1 - sigmoid))


def _softplus(x):
    return jnp.logaddexp(x, 0)


@lowering(aten.mish.default)
def mish(self):
    (self,) = promote(self)
    return self * jnp.tanh(_softplus(self))


@lowering(aten.mish_backward.default)
@_gradient
def mish_backward(self):
    tanh = jnp.tanh(_softplus(self))
    return tanh + self * jax.nn.sigmoid(self) * (1 - tanh * tanh)


@lowering(aten.gelu.default)
def gelu(self, *, approximate="none"):
    return jax.nn.gelu(*promote(self), approximate=approximate == "tanh")


@lowering(aten.gelu_backward.default)
def gelu_backward(grad_output, self, *, approximate="none"):
    grad_output, self = promote(grad_output, self)
    if approximate == "none":
        cumulative = 0.5 * (1 + jax.lax.erf(self * 0.5**0.5))
        density = jnp.exp(-0.5 * self * self) / (2 * jnp.pi) ** 0.5
        return grad_output * (cumulative + self * density)
    scale, cubic = (2 / jnp.pi) ** 0.5, 0.044715
    tanh = jnp.tanh(scale * (self + cubic * self * self * self))
    inner_slope = scale * (1 + 3 * cubic * self * self)
    return grad_output * 0.5 * (1 + tanh + self * (1 - tanh * tanh) * inner_slope)


@lowering(aten.softplus.default)
def softplus(self, beta=1, threshold=20):
    self, beta, threshold = promote(self, beta, threshold)
    scaled = self * beta
    return jnp.where(scaled > threshold, self, jnp.log1p(jnp.exp(scaled)) / beta)


@lowering(aten.softplus_backward.default)
@_gradient
def softplus_backward(self, beta, threshold):
    scaled = self * beta
    return jnp.where(scaled > threshold, 1, jax.nn.sigmoid(scaled))


@lowering(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(self):
    (self,) = promote(self)
    buffer = jnp.exp(-jnp.abs(self))
    return jnp.minimum(self, 0) - jnp.log1p(buffer), buffer


@lowering(aten.log_sigmoid_backward.default)
def log_sigmoid_backward(grad_output, self, buffer):
    # Not from the buffer, so that nothing keeps the forward's second output alive.
    grad_output, self = promote(grad_output, self)
    return grad_output * jax.nn.sigmoid(-self)


def _glu(self, dim):
    value, gate = jnp.split(self, 2, dim)
    return value * jax.nn.sigmoid(gate)


@lowering(aten.glu.default)
def glu(self, dim=-1):
    return _glu(*promote(self), dim)


def _glu_backward(grad_output, self, dim):
    value, gate = jnp.split(self, 2, dim)
    sigmoid = jax.nn.sigmoid(gate)
    grad_gate = grad_output * value * sigmoid * (1 - sigmoid)
    return jnp.concatenate([grad_output * sigmoid, grad_gate], dim)


@lowering(aten.glu_backward.default)
def glu_backward(grad_output, self, dim):
    return _glu_backward(*promote(grad_output, self), dim)


@lowering(aten.glu_jvp.default)
def glu_jvp(glu, x, dx, dim):
    x, dx = promote(x, dx)
    return jax.jvp(lambda x: _glu(x, dim), (x,), (dx,))[1]


@lowering(aten.glu_backward_jvp.default)
def glu_backward_jvp(grad_x, grad_glu, x, dgrad_glu, dx, dim):
    grad_glu, x, dgrad_glu, dx = promote(grad_glu, x, dgrad_glu, dx)
    primals, tangents = (grad_glu, x), (dgrad_glu, dx)
    return jax.jvp(lambda grad, x: _glu_backward(grad, x, dim), primals, tangents)[1]
