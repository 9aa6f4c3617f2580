"""Tensors from Python and NumPy, to Python and NumPy, and what tests make and compare."""

import numpy as np
import pytest
import torch

SOURCES = {
    "number": 1.5,
    "bool": True,
    "list": [[1, 2], [3, 4]],
    "floats": [0.5, 1.5],
    "complex": [1j],
    "empty": [],
    "array": np.arange(6.0).reshape(2, 3),
    "strided array": np.arange(12, dtype=np.int16).reshape(3, 4)[:, ::2],
    "array's number": np.float32(2.5),
    "list of arrays' numbers": [np.int64(3), np.int64(4)],
    "bools": np.array([True, False]),
}


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor], ids=["tensor", "as_tensor"])
@pytest.mark.parametrize("name", SOURCES)
def test_values_and_dtypes_are_the_cpu_s(name, make):
    made, expected = make(SOURCES[name], device="tpu"), make(SOURCES[name])
    assert made.is_tpu and made.dtype == expected.dtype and torch.equal(made.cpu(), expected)
    assert made.tolist() == expected.tolist()


def test_device_numbers_in_lists():
    one = torch.ones((), device="tpu")
    assert torch.tensor([one, 2.0], device="tpu").tolist() == [1, 2]
    assert torch.tensor([one, 2.0]).tolist() == [1, 2]
    assert [0, 5, 6][torch.tensor(1, device="tpu")] == 5
    assert list(range(torch.tensor(2, device="tpu"))) == [0, 1]


def test_numpy():
    array = np.arange(3.0)
    x = torch.from_numpy(array).to("tpu")
    array[0] = 9
    assert x.tolist() == [0, 1, 2]
    assert np.array_equal(x.numpy(force=True), [0, 1, 2])
    assert np.array_equal(x.cpu().numpy(), [0, 1, 2])


def test_numbers_leave():
    x = torch.tensor([2.5], device="tpu")
    assert x.item() == 2.5 and float(x) == 2.5 and int(x) == 2 and bool(x) is True
    assert complex(x) == 2.5 + 0j and x.bool().item() is True and x.long().item() == 2
    assert [float(each) for each in torch.arange(3.0, device="tpu")] == [0, 1, 2]


def test_new_tensors_follow_their_device():
    x = torch.ones(2, device="tpu:1", dtype=torch.float64)
    made = [x.new_zeros(2), x.new_tensor([1, 2]), x.new_full((1,), 3), torch.zeros_like(x)]
    assert all(each.device == x.device and each.dtype == x.dtype for each in made)


def test_default_device():
    torch.set_default_device("tpu")
    try:
        made = [torch.ones(1), torch.tensor([1]), torch.arange(2), torch.nn.Linear(1, 1).weight]
        assert all(each.is_tpu for each in made)
        assert torch.get_default_device() == torch.device("tpu", 0)
        assert sorted(torch.randperm(3).tolist()) == [0, 1, 2]
        assert torch.ones(1, device="cpu").device.type == "cpu"
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.complex64])
def test_make_tensor(dtype):
    x = torch.testing.make_tensor(3, 4, device="tpu", dtype=dtype, low=0, high=2)
    assert x.is_tpu and x.dtype == dtype and x.shape == (3, 4)
    strided = torch.testing.make_tensor(4, 4, device="tpu", dtype=dtype, noncontiguous=True)
    assert not strided.is_contiguous()


def test_assert_close():
    x = torch.tensor([1.0, float("nan")], device="tpu")
    torch.testing.assert_close(x, x.clone(), equal_nan=True)
    torch.testing.assert_close(x, x.cpu(), equal_nan=True, check_device=False)
    torch.testing.assert_close({"a": x[:1]}, {"a": x[:1] + 1e-7})
    with pytest.raises(AssertionError, match="attribute 'device' do not match: tpu:0 != cpu"):
        torch.testing.assert_close(x, x.cpu())
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 1"):
        torch.testing.assert_close(x[:1], x[:1] + 1)


def test_masks_after_whole_dims():
    x = torch.arange(24.0).reshape(2, 3, 4)
    mask = torch.tensor([True, False, True, True])
    assert torch.equal(x.to("tpu")[:, :, mask.to("tpu")].cpu(), x[:, :, mask])
    assert torch.equal(x.to("tpu")[:, :, mask].cpu(), x[:, :, mask])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiling_for_the_cpu_is_unaffected(backend):
    compiled = torch.compile(lambda x: (x * 2).sin() + 1, backend=backend)
    x = torch.ones(3, requires_grad=True)
    compiled(x).sum().backward()
    assert torch.allclose(x.grad, 2 * torch.cos(torch.full((3,), 2.0)))
