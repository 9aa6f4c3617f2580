"""What torch.func is asked to transform: the same in eager mode and in compiled functions."""

import torch
from torch import func


def _energy(x, w):
    return (torch.tanh(x @ w) * torch.softmax(x, -1).sum()).square().mean()


# Name -> a transform of functions of two matrices.
TRANSFORMS = {
    "grad": lambda x, w: func.grad(_energy, argnums=(0, 1))(x, w),
    "grad and value": lambda x, w: func.grad_and_value(_energy)(x, w),
    "grad of grad": lambda x, w: func.grad(lambda a: func.grad(_energy)(a, w).sin().sum())(x),
    "vjp": lambda x, w: func.vjp(_energy, x, w)[1](torch.ones((), device=x.device)),
    "jvp": lambda x, w: func.jvp(_energy, (x, w), (torch.ones_like(x), w)),
    "jacrev": lambda x, w: func.jacrev(lambda a: torch.sin(a @ w))(x),
    "jacfwd": lambda x, w: func.jacfwd(lambda a: torch.sin(a @ w))(x),
    "hessian": lambda x, w: func.hessian(lambda a: _energy(a, w))(x),
    "linearize": lambda x, w: func.linearize(lambda a: _energy(a, w), x)[1](torch.ones_like(x)),
    "vmap": lambda x, w: func.vmap(lambda row: torch.softmax(row @ w, -1).max())(x),
    "vmap of grad": lambda x, w: func.vmap(func.grad(_energy), (0, None))(x[:, None], w),
    "vmap over a column": lambda x, w: func.vmap(torch.cumsum, (1, None), 1)(x, 0),
    "vmap in chunks": lambda x, w: func.vmap(lambda row: row @ w, chunk_size=2)(x),
}


def per_sample_gradients(model, weights, inputs):
    """The gradients of each row's loss by every weight."""

    def loss(weights, row):
        return func.functional_call(model, weights, (row[None],)).square().sum()

    return func.vmap(func.grad(loss), (None, 0))(weights, inputs)
