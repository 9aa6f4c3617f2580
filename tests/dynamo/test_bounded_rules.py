"""Ops with a bounded form give what PyTorch gives for the true sizes, whatever padding holds."""

import bounded_cases_extremes  # noqa: F401  # adds to CASES
import bounded_cases_places  # noqa: F401  # adds to CASES
import jax
import jax.numpy as jnp
import pytest
import torch
from beside import Arguments, compare
from bounded_cases import CASES, REFERENCES
from elementwise_cases import elementwise_case

from torch_tpu.lowering import bounded, sizes

aten = torch.ops.aten

NUMBERED = [(op, number) for op, cases in CASES.items() for number in range(len(cases))]
# What draws is compared with eager mode, which gives the same numbers: test_compiled_random.py.
REST = [
    overload
    for overload in bounded.table()
    if overload not in CASES and overload not in bounded.DRAWING
]


@pytest.mark.parametrize(
    ("overload", "number"), NUMBERED, ids=[f"{op}-{number}" for op, number in NUMBERED]
)
def test_padding_never_reaches_a_result(overload, number):
    compare(overload, CASES[overload][number], REFERENCES.get(overload))


@pytest.mark.parametrize("overload", REST, ids=str)
def test_every_other_op_of_the_table_works_element_by_element(overload):
    case = elementwise_case(overload, Arguments)
    assert case is not None, "an op of the table without a case"
    compare(overload, case)


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
