"""Ops with a bounded form give what PyTorch gives for the true sizes, whatever padding holds."""

import bounded_cases_extremes  # noqa: F401  # adds to CASES
import bounded_cases_places  # noqa: F401  # adds to CASES
import jax
import jax.numpy as jnp
import pytest
import torch
from beside import Arguments, Call, compare
from bounded_cases import CASES, REFERENCES
from elementwise_cases import elementwise_case

from torch_tpu.lowering import bounded, registry, sizes

aten = torch.ops.aten

# What draws is compared with eager mode, which gives the same numbers: test_compiled_random.py.
REST = [
    overload
    for overload in bounded.table()
    if overload not in CASES and overload not in bounded.DRAWING
]


@pytest.mark.parametrize("overload", CASES, ids=str)
def test_padding_never_reaches_a_result(overload):
    compare([Call(overload, case, REFERENCES.get(overload)) for case in CASES[overload]])


def _module(overload):
    return registry.find(overload).function.__module__.rpartition(".")[2]


@pytest.mark.parametrize("module", sorted({_module(overload) for overload in REST}))
def test_every_other_op_of_the_table_works_element_by_element(module):
    cases = {each: elementwise_case(each, Arguments) for each in REST if _module(each) == module}
    assert None not in cases.values(), "an op of the table without a case"
    compare([Call(overload, case) for overload, case in cases.items()])


@pytest.mark.parametrize(
    ("overload", "call"),
    [
        (aten.nonzero.default, lambda x, s: (x,)),
        (aten.unbind.int, lambda x, s: (x, 0)),
        (aten.split.Tensor, lambda x, s: (x, 4)),
        (aten.glu.default, lambda x, s: (x, 0)),
        (aten.topk.default, lambda x, s: (x, s)),
        (aten.pow.Tensor_Scalar, lambda x, s: (x, s)),
        (aten.index.Tensor, lambda x, s: (x, [x > 0])),
        (aten.linalg_vector_norm.default, lambda x, s: (x, -1)),
        (aten.constant_pad_nd.default, lambda x, s: (x, [s, 0])),
        (aten.max_pool2d_with_indices.default, lambda x, s: (x[None, None], [2, 2])),
        (aten.as_strided.default, lambda x, s: (x, [s], [1])),
    ],
)
def test_calls_that_sizes_decide_are_not_served(overload, call):
    def served(s):
        with sizes.bounded_trace():
            s = sizes.Size(16, s)
            x = sizes.sized(jnp.ones((16, 4)), (s, 4))
            args = call(x, s)
            if overload is aten.max_pool2d_with_indices.default:
                args = (sizes.sized(args[0], (1, 1, s, 4)), *args[1:])
            answers.append(bounded.serves(overload, args, {}))
        return 0

    answers = []
    jax.eval_shape(served, jax.ShapeDtypeStruct((), jnp.int32))
    assert answers == [False]
