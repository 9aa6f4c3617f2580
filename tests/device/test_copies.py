"""Copies between the host and devices keep every bit, whatever lies at either end."""

import pytest
import torch

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16,
    torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
]  # fmt: skip

COMPLEX = torch.tensor([1 + 2j, 3 - 4j, -5j])

# How a tensor may lie in its storage.
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "with gaps": lambda x: x[:, ::2],
    "from an offset": lambda x: x[1:, 1:],
    "reversed twice": lambda x: x.flip(0).flip(1),
    "one column": lambda x: x[:, 1:2],
    "diagonal": lambda x: x.diagonal(),
    "nothing": lambda x: x[:0],
    "a number": lambda x: x[2, 1],
    "permuted": lambda x: x.reshape(2, 2, 6).permute(2, 0, 1),
}


def table():
    return torch.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_round_trip_over_two_devices_keeps_every_bit(dtype):
    x = torch.arange(64).to(dtype)
    moved = x.to("tpu").to("tpu:1").to("tpu:0").cpu()
    assert moved.dtype == dtype
    assert torch.equal(moved.view(torch.uint8), x.view(torch.uint8))


def test_special_values_survive():
    x = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45, 3.4e38])
    assert torch.equal(x.tpu().cpu().view(torch.int32), x.view(torch.int32))


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_view_on_the_host_arrives(name):
    source = LAYOUTS[name](table())
    moved = source.to("tpu")
    assert torch.equal(moved.cpu(), source) and moved.stride() == source.clone().stride()


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("device", ["cpu", "tpu:1"])
def test_a_view_on_the_device_leaves(name, device):
    source = LAYOUTS[name](table().to("tpu"))
    assert torch.equal(source.to(device).cpu(), LAYOUTS[name](table()))


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(("source", "target"), [("cpu", "tpu"), ("tpu", "cpu"), ("tpu", "tpu:1")])
def test_a_copy_into_a_view_leaves_the_rest(name, source, target):
    expected, base = torch.zeros(4, 6), torch.zeros(4, 6, device=target)
    values = LAYOUTS[name](table()) + 1
    if name != "reversed twice":  # flips copy
        LAYOUTS[name](expected).copy_(values)
    LAYOUTS[name](base).copy_(values.to(source))
    assert torch.equal(base.cpu(), expected)


@pytest.mark.parametrize("device", ["tpu", "tpu:1", "cpu"])
def test_expanded_sources_are_read_and_smaller_ones_broadcast(device):
    row = torch.arange(3.0, device="tpu")
    assert torch.equal(row.expand(2, 3).to(device).cpu(), torch.arange(3.0).expand(2, 3))
    target = torch.zeros(2, 3, device=device)
    assert torch.equal(target.copy_(row).cpu(), torch.arange(3.0).expand(2, 3))


@pytest.mark.parametrize("device", ["cpu", "tpu", "tpu:1"])
def test_conjugate_and_negative_views_are_read(device):
    x = COMPLEX.to("tpu")
    assert torch.equal(x.conj().to(device).cpu(), COMPLEX.conj().resolve_conj())
    assert torch.equal(x.conj().imag.to(device).cpu(), COMPLEX.conj().imag.resolve_neg())
    assert torch.equal(COMPLEX.conj().to("tpu").cpu(), COMPLEX.conj().resolve_conj())
    assert torch.equal(COMPLEX.conj().imag.to("tpu").cpu(), -COMPLEX.imag)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_conjugate_and_negative_views_are_written(device):
    x = torch.zeros(3, dtype=torch.complex64, device="tpu")
    x.conj().copy_(COMPLEX.to(device))
    assert torch.equal(x.cpu(), COMPLEX.conj().resolve_conj())
    x.conj().imag.copy_(torch.ones(3, device=device))
    assert torch.equal(x.cpu().imag, -torch.ones(3))


@pytest.mark.parametrize("source", [torch.float32, torch.int32, torch.bool, torch.bfloat16])
@pytest.mark.parametrize("target", [torch.float64, torch.int8, torch.bool, torch.complex64])
def test_copies_change_dtypes_as_on_the_cpu(source, target):
    x = torch.tensor([0.0, 1.0, 2.7, -3.2]).to(source)
    assert torch.equal(x.to("tpu", target).cpu(), x.to(target))
    assert torch.equal(x.tpu().to("cpu", target), x.to(target))
    assert torch.equal(torch.zeros(4, dtype=target, device="tpu").copy_(x).cpu(), x.to(target))
    assert torch.equal(torch.zeros(4, dtype=target).copy_(x.tpu()), x.to(target))


def test_not_blocking_gives_the_same_values():
    x = torch.randn(256, 256)
    moved = x.to("tpu", non_blocking=True)
    x_before = x.clone()
    x.zero_()  # the source is the caller's again once to() returns
    assert torch.equal(moved.cpu(), x_before)
    host = moved.to("cpu", non_blocking=True)
    torch.tpu.synchronize()
    assert torch.equal(host, x_before)
    assert torch.equal(x.pin_memory().to("tpu", non_blocking=True).cpu(), x)


def test_moves_keep_channels_last():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for moved in (x.to("tpu"), x.to("tpu").cpu(), x.to("tpu").to("tpu:1")):
        assert moved.stride() == x.stride() and torch.equal(moved.cpu(), x)
    moved = x.contiguous().to("tpu", memory_format=torch.channels_last)
    assert moved.stride() == x.stride() and torch.equal(moved.cpu(), x)


def test_every_way_to_name_a_device():
    x = torch.ones(2)
    first, second = torch.device("tpu", 0), torch.device("tpu", 1)
    assert x.to(0).device == x.to("tpu").device == x.tpu().device == x.to(first).device == first
    assert x.to(1).device == x.to("tpu:1").device == x.tpu(1).device == second
    assert x.tpu(second).device == second and x.to(1).to("tpu").device == first
    with torch.tpu.device(1):
        assert x.to("tpu").device == torch.ones(1, device="tpu").device == second
    moved = x.tpu()
    assert moved.to("tpu") is moved and moved.to(0) is moved and moved.tpu() is moved
    assert moved.to("tpu", copy=True) is not moved


def test_gradients_flow_through_moves():
    x = torch.ones(2, requires_grad=True)
    (x.to("tpu").to("tpu:1").cpu() * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_copy_that_does_not_fit_is_refused():
    with pytest.raises(RuntimeError, match=r"must match the existing size \(2\)"):
        torch.zeros(3, device="tpu").copy_(torch.ones(2))
