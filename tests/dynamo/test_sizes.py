"""Sizes known at run time: their arithmetic, reshapes, and flat arrays at the edge of a program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from torch_tpu.lowering import sizes
from torch_tpu.lowering.sizes import Size


def traced(function, *numbers, bounds=(16, 8)):
    def run(*numbers):
        with sizes.bounded_trace():
            return function(*map(Size, bounds, numbers))

    return jax.jit(run)(*map(np.int32, numbers))


def text(function, bounds=(16, 8)):
    def run(*numbers):
        with sizes.bounded_trace():
            return function(*map(Size, bounds, numbers))

    return jax.jit(run).lower(*map(np.int32, bounds)).as_text()


@pytest.mark.parametrize(
    "function",
    [
        lambda s, t: 3 * s * t + 2,
        lambda s, t: s - t,
        lambda s, t: 20 - s,
        lambda s, t: (s + 1) // 2,
        lambda s, t: 6 * s * t // (3 * t),
        lambda s, t: 64 // t,
        lambda s, t: s % t,
        lambda s, t: (s.maximum(t) if isinstance(s, Size) else max(s, t)) * 2,
        lambda s, t: s.minimum(6) if isinstance(s, Size) else min(s, 6),
    ],
)
def test_arithmetic_keeps_the_value_and_a_bound_above_it(function):
    def values(s, t):
        result = function(s, t)
        return result.value, result.bound

    for true in ((11, 5), (16, 8), (1, 1), (7, 8)):
        value, bound = traced(values, *true)
        assert int(value) == function(*true)
        assert int(bound) >= int(value)


def test_sizes_made_in_the_same_way_are_the_same():
    def same(s, t):
        equal = sizes.same(((s + 1) // 2 * t, s - t, 4), (t * ((s + 1) // 2), s - t, 4))
        different = sizes.same((s + 1,), (t + 1,)) or sizes.same((s,), (16,))
        return equal, different

    assert tuple(map(bool, traced(same, 11, 5))) == (True, False)


def test_a_quotient_of_a_product_is_a_plain_number_where_nothing_is_left():
    assert int(traced(lambda s, t: 6 * s * t // (s * t * 2), 3, 3)) == 3


@pytest.mark.parametrize("true", [(11, 5), (16, 8), (1, 1)])
@pytest.mark.parametrize(
    "shape", [lambda s, t: (s, 3), lambda s, t: (2, s, 3), lambda s, t: (s, t), lambda s, t: (3, t)]
)
def test_packing_is_row_major_and_unpacking_undoes_it(shape, true):
    def packed_and_unpacked(s, t):
        bounds = tuple(map(int, map(Size.__index__, [x if isinstance(x, Size) else Size(x, 0)
                                                     for x in shape(s, t)])))  # fmt: skip
        places = jnp.arange(np.prod(bounds)).reshape(bounds)
        flat = sizes.pack(places, shape(s, t))
        return places, flat, sizes.unpack(flat, shape(s, t))

    places, flat, unpacked = traced(packed_and_unpacked, *true)
    part = tuple(slice(0, size) for size in shape(*true))
    expected = np.asarray(places)[part]
    assert flat.shape == (places.size,)
    np.testing.assert_array_equal(flat[: expected.size], expected.reshape(-1))
    np.testing.assert_array_equal(unpacked[part], expected)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (lambda s, t: (s, 4, 6), lambda s, t: (4 * s, 6)),
        (lambda s, t: (3, s, 4), lambda s, t: (3, 4 * s)),
        (lambda s, t: (2, 4, s, 3), lambda s, t: (8, s, 3)),
        (lambda s, t: (s * t, 6), lambda s, t: (s * t, 2, 3)),
        (lambda s, t: (s, t, 6), lambda s, t: (s, t, 1, 6)),
    ],
)
def test_a_reshape_that_keeps_padding_behind_moves_nothing(source, target):
    def reshaped(s, t):
        bounds = tuple(size if isinstance(size, int) else size.bound for size in source(s, t))
        array = sizes.sized(jnp.zeros(bounds), source(s, t))
        return sizes.reshape(array, target(s, t))

    assert "gather" not in text(reshaped)


def test_a_reshape_that_merges_behind_a_dimension_gathers_whole_rows():
    def merged(s, t):
        array = sizes.sized(jnp.zeros((4, 16, 6, 5)), (4, s, 6, 5))
        return sizes.reshape(array, (4 * s, 30))

    assert "slice_sizes = array<i64: 1, 30>" in text(merged)


def test_one_array_may_be_declared_twice():
    def declared(s, t):
        array = jnp.ones(16)
        first, second = sizes.sized(array, (s,)), sizes.sized(array, (s - 1,))
        return sizes.size(first, 0), sizes.size(second, 0)

    assert tuple(map(int, traced(declared, 11, 5))) == (11, 10)


def test_sizes_need_a_bounded_trace():
    with pytest.raises(RuntimeError, match="outside of bounded_trace"):
        sizes.sized(jnp.ones(4), (Size(4, jnp.int32(3)),))


def test_a_static_trace_has_python_sizes():
    array = jnp.ones((4, 3))
    assert sizes.sized(array, (4, 3)) is array
    assert sizes.filled(array, 0) is array
    assert (sizes.size(array, 0), sizes.count(array), sizes.sizes_of(array)) == (4, 12, (4, 3))
