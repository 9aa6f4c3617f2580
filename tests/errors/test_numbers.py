"""Numbers out of an op's range are refused at the call in CPU PyTorch's words."""

import pytest
import torch
import torch.nn.functional as F
from comparison import assert_same_refusal, raised


def ones(device, dtype=torch.float32):
    return torch.ones(2, 3, dtype=dtype, device=device)


# An op, a number that it takes and numbers that it refuses. The taken one comes first, so that
# the op has a program that would run for the refused ones too.
DISTRIBUTIONS = {
    "randint": (lambda d, n: torch.randint(3, n, (2,), device=d), 4, [3, 2]),
    "randint of int8": (lambda d, n: torch.randint(n, (2,), dtype=torch.int8, device=d), 9, [300]),
    "randint_like": (lambda d, n: torch.randint_like(ones(d, torch.int8), n), 9, [0, 129]),
    "random_ to": (lambda d, n: ones(d, torch.int8).random_(n), 128, [0, -1, 129]),
    "random_ to of half": (lambda d, n: ones(d, torch.half).random_(n), 5, [0, 70000]),
    "random_ to of bool": (lambda d, n: ones(d, torch.bool).random_(n), 2, [0, 3]),
    "random_ to of uint16": (lambda d, n: ones(d, torch.uint16).random_(n), 65536, [-1, 65537]),
    "random_ from": (lambda d, n: ones(d, torch.int8).random_(n, None), 5, [-129, 128]),
    "random_ from of half": (lambda d, n: ones(d, torch.half).random_(n, None), 5, [2048, 70000]),
    "random_ from to": (lambda d, n: ones(d).random_(n, 10), 5, [10, 11]),
    "uniform_ from": (lambda d, n: ones(d).uniform_(n, 1), 0.5, [2, 1e300, float("nan")]),
    "uniform_ to": (lambda d, n: ones(d).uniform_(-n, n), 1.0, [3e38, -1, float("inf")]),
    "uniform_ of half": (lambda d, n: ones(d, torch.half).uniform_(0, n), 1.0, [1e6, -1]),
    "uniform_ of complex": (lambda d, n: ones(d, torch.complex64).uniform_(0, n), 1.0, [-1]),
    "normal_": (lambda d, n: ones(d).normal_(0, n), 0.0, [-1, float("nan")]),
    "normal_ of complex": (lambda d, n: ones(d, torch.complex64).normal_(0, n), 0.0, [-1]),
    "normal of a mean": (lambda d, n: torch.normal(ones(d), n), 0.5, [-1, float("nan")]),
    "normal of a mean, out": (lambda d, n: torch.normal(ones(d), n, out=ones(d)), 0.5, [-1]),
    "normal of deviations": (lambda d, n: torch.normal(0.0, n * ones(d)), 0.5, [-1, float("nan")]),
    "normal of both": (lambda d, n: torch.normal(ones(d), n * ones(d)), 0.5, [-1]),
    "normal of a size": (lambda d, n: torch.normal(0.0, n, (2,), device=d), 0.5, [-1]),
    "bernoulli": (lambda d, n: torch.bernoulli(ones(d), n), 1.0, [1.5, -0.5, float("nan")]),
    "bernoulli_": (lambda d, n: ones(d).bernoulli_(n), 0.0, [1.5, -0.5, float("nan")]),
    "bernoulli of a tensor": (lambda d, n: torch.bernoulli(n * ones(d)), 0.5, [1.5, -0.5]),
    "bernoulli_ of a tensor": (lambda d, n: ones(d).bernoulli_(n * ones(d)), 0.5, [1.5]),
    "exponential_": (lambda d, n: ones(d).exponential_(n), 0.5, [0, -1, float("nan")]),
    "exponential_ of nothing": (lambda d, n: ones(d)[:0].exponential_(n), 0.5, [0]),
    "geometric_": (lambda d, n: ones(d).geometric_(n), 0.5, [0, 1, 2]),
    "cauchy_": (lambda d, n: ones(d).cauchy_(0, n), 0.5, [0, -1]),
    "log_normal_": (lambda d, n: ones(d).log_normal_(0, n), 0.5, [0, -1]),
    "native_dropout": (lambda d, n: torch.native_dropout(ones(d), n, True), 0.5, [1.5, -0.5]),
}

WRITTEN = {
    "fill_": (lambda d, n: ones(d, torch.uint8).fill_(n), 255, [256, -256, 2**40]),
    "fill_ of half": (lambda d, n: ones(d, torch.half).fill_(n), 1.0, [1e6]),
    "fill_ of an int": (lambda d, n: ones(d, torch.int32).fill_(n), 1.0, [1e20, float("nan")]),
    "full": (lambda d, n: torch.full((2,), n, dtype=torch.int8, device=d), 127, [128]),
    "full_like": (lambda d, n: torch.full_like(ones(d, torch.int8), n), 127, [128]),
    "new_full": (lambda d, n: ones(d, torch.int8).new_full((2,), n), 127, [128]),
    "linspace": (lambda d, n: torch.linspace(0, n, 3, dtype=torch.int8, device=d), 4, [300]),
    "masked_fill": (lambda d, n: ones(d, torch.half).masked_fill(ones(d) > 2, n), 1.0, [-1e9]),
    "masked_fill_": (lambda d, n: ones(d, torch.int8).masked_fill_(ones(d) > 2, n), 1, [300]),
    "index_fill": (
        lambda d, n: ones(d, torch.int8).index_fill(0, torch.tensor([1]).to(d), n),
        1,
        [300],
    ),
    "assignment": (lambda d, n: ones(d, torch.int8).__setitem__(1, n), 1, [300]),
    "scatter": (
        lambda d, n: ones(d, torch.int8).scatter(0, torch.tensor([[1]]).to(d), n),
        1,
        [300],
    ),
    "pad": (lambda d, n: F.pad(ones(d, torch.int8), (1, 1), value=n), 1, [300]),
    "clamp": (lambda d, n: ones(d, torch.int8).clamp(0, n), 5, [300]),
    "clamp_min": (lambda d, n: ones(d, torch.int8).clamp_min(n), 5, [-300]),
    "threshold": (lambda d, n: F.threshold(ones(d), 1, n), 1.0, [1e300]),
    "hardtanh": (lambda d, n: F.hardtanh(ones(d, torch.uint8), n, 3), 1, [-4]),
}

PARAMETERS = {
    "smooth_l1_loss": (lambda d, n: F.smooth_l1_loss(ones(d), ones(d), beta=n), 1.0, [-1]),
    "huber_loss": (lambda d, n: F.huber_loss(ones(d), ones(d), delta=n), 1.0, [-1, 0]),
    "softshrink": (lambda d, n: F.softshrink(ones(d), n), 0.5, [-1, float("nan")]),
    "softshrink of half": (lambda d, n: F.softshrink(ones(d, torch.half), n), 0.5, [1e6]),
    "histc": (lambda d, n: torch.histc(ones(d), 4, n, 3), 1, [4, float("inf"), float("nan")]),
    "fake_quantize": (
        lambda d, n: torch.fake_quantize_per_tensor_affine(ones(d), 0.1, n, 0, 255),
        3,
        [300, -1],
    ),
    "renorm": (lambda d, n: torch.renorm(ones(d), 2, 0, n), 1.0, [-1]),
    "leaky_relu_backward": (
        lambda d, n: torch.ops.aten.leaky_relu_backward(ones(d), ones(d), n, True),
        0.5,
        [-1.0],
    ),
    "elu_backward": (
        lambda d, n: torch.ops.aten.elu_backward(ones(d), n, 1, 1, True, ones(d)),
        0.5,
        [-1.0],
    ),
}

CASES = [
    pytest.param(*case, id=name)
    for name, case in {**DISTRIBUTIONS, **WRITTEN, **PARAMETERS}.items()
]


@pytest.mark.parametrize(("op", "taken", "refused"), CASES)
def test_refused_as_on_the_cpu(op, taken, refused):
    assert raised(lambda d: op(d, taken), "cpu") is None
    assert raised(lambda d: op(d, taken), "tpu") is None
    for number in refused:
        assert_same_refusal(lambda d, number=number: op(d, number))


def test_numbers_come_before_the_dtype():
    """A number is refused even where the op doesn't take the tensor's dtype either."""
    assert_same_refusal(lambda d: ones(d, torch.int32).normal_(0, -1))
    assert_same_refusal(lambda d: ones(d, torch.int32).cauchy_(0, -1))
    assert_same_refusal(lambda d: ones(d, torch.int32).uniform_(0, 1))


def test_dropout_of_an_expanded_tensor_is_no_write_to_it():
    x = torch.ones(1, device="tpu").expand(4)
    assert torch.native_dropout(x, 0.0, True)[0].tolist() == [1, 1, 1, 1]


def test_binomial_clips_its_numbers():
    count, probability = torch.tensor([3.0, 3.0, -3.0, 3.0]), torch.tensor([-1.0, 2.0, 0.5, -0.0])
    assert torch.binomial(count.to("tpu"), probability.to("tpu")).tolist() == [0, 3, 0, 0]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.uint8, 300),
        (torch.int8, -1e9),
        (torch.int64, float("inf")),
        (torch.int32, 2**40),
        (torch.float16, 70000.0),
        (torch.float32, 1j),
    ],
)
def test_a_mask_fills_with_what_its_tensor_holds(dtype, value):
    mask = torch.tensor([True, False])
    for given in (value, torch.tensor(value)):
        assert_same_refusal(
            lambda device, given=given: torch.ones(2, dtype=dtype, device=device).masked_fill(
                mask.to(device), given.to(device) if isinstance(given, torch.Tensor) else given
            )
        )


def test_lengths_of_segments_add_up_to_the_rows():
    for lengths in ([1, 1], [-1, 4]):
        assert_same_refusal(
            lambda device, lengths=lengths: torch.segment_reduce(
                torch.ones(3, device=device), "sum", lengths=torch.tensor(lengths, device=device)
            )
        )
