"""torch.use_deterministic_algorithms: programs repeat their results, so that nothing is refused."""

import pytest
import torch

DEVICE = "tpu"
PLACES = torch.tensor([0, 2, 2, 1, 2])


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def put(device):
    x = torch.zeros(3, device=device)
    return x.put_(PLACES.to(device), torch.arange(5.0, device=device))


def unpool(device):
    x, places = torch.ones(1, 1, 2, device=device), torch.tensor([[[0, 2]]], device=device)
    return torch.nn.functional.max_unpool1d(x, places, 2)


@pytest.mark.parametrize("function", [put, unpool])
def test_what_the_cpu_refuses_runs_on_the_device(function, deterministic):
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        function("cpu")
    first = function(DEVICE)
    assert torch.equal(first, function(DEVICE))
    assert torch.are_deterministic_algorithms_enabled()


def test_a_fallback_is_refused_as_on_the_cpu(deterministic):
    """What runs on the CPU obeys the CPU's rules."""
    library = torch.library.Library("determinism", "FRAGMENT")
    library.define("put(Tensor x, Tensor places) -> Tensor")
    library.impl("put", lambda x, places: x.clone().put_(places, x), "CPU")
    x, places = torch.zeros(3, device=DEVICE), torch.tensor([0, 1, 2], device=DEVICE)
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        torch.ops.determinism.put(x, places)


def test_the_mode_that_warns_stays_one(deterministic):
    torch.use_deterministic_algorithms(True, warn_only=True)
    put(DEVICE)
    assert torch.is_deterministic_algorithms_warn_only_enabled()


def test_sums_into_the_same_place_repeat_bit_for_bit():
    torch.manual_seed(0)
    places = torch.randint(0, 7, (10_000,), device=DEVICE)
    values = torch.randn(10_000, device=DEVICE)
    sums = [torch.zeros(7, device=DEVICE).index_add(0, places, values) for _ in range(5)]
    assert all(torch.equal(each, sums[0]) for each in sums)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
def test_memory_that_nobody_wrote_reads_as_zeros(dtype):
    for made in (
        torch.empty(3, dtype=dtype, device=DEVICE),
        torch.empty_strided((2, 2), (1, 2), dtype=dtype, device=DEVICE),
    ):
        assert torch.equal(made, torch.zeros_like(made))
    grown = torch.ones(2, dtype=dtype, device=DEVICE).resize_(4)
    assert grown.tolist() == [1, 1, 0, 0]
