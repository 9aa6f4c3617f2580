"""Tensors of several devices, and devices that don't exist, are refused as CUDA's are."""

import io
import re

import pytest
import torch
from torch import nn

TPU_AND_CPU = "Expected all tensors to be on the same device, but found at least two devices, " + (
    "tpu:0 and cpu!"
)
TWO_TPUS = TPU_AND_CPU.replace("and cpu", "and tpu:1")
NO_DEVICE = "invalid device ordinal 7"


def tpu(*sizes, device="tpu"):
    return torch.ones(sizes or (3, 3), device=device)


def cpu(*sizes):
    return torch.ones(sizes or (3, 3))


def other(*sizes):
    return tpu(*sizes, device="tpu:1")


def saved(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return file


MIXED = {
    "add": (lambda: tpu() + cpu(), TPU_AND_CPU),
    "add the other way": (lambda: cpu() + tpu(), TPU_AND_CPU),
    "add in place": (lambda: tpu().add_(cpu()), TPU_AND_CPU),
    "add to the cpu in place": (lambda: cpu().add_(tpu()), TPU_AND_CPU),
    "add a device's number to a cpu tensor": (lambda: cpu() + tpu()[0, 0], TPU_AND_CPU),
    "mm": (lambda: tpu() @ cpu(), TPU_AND_CPU),
    "mm of two": (lambda: tpu() @ other(), TWO_TPUS),
    "add of two": (lambda: tpu() + other(), TWO_TPUS),
    "numbers of two": (lambda: tpu() + other()[0, 0], TWO_TPUS),
    "out= on the cpu": (lambda: torch.add(tpu(), 1, out=cpu()), TPU_AND_CPU),
    "out= on another": (lambda: torch.add(tpu(), 1, out=other()), TWO_TPUS),
    "out= of the cpu": (lambda: torch.add(cpu(), 1, out=tpu()), TPU_AND_CPU),
    "cat": (lambda: torch.cat([tpu(), cpu()]), TPU_AND_CPU),
    "stack": (lambda: torch.stack([cpu(), tpu()]), TPU_AND_CPU),
    "where": (lambda: torch.where(tpu() > 0, tpu(), cpu()), TPU_AND_CPU),
    "linear": (lambda: nn.Linear(3, 3)(tpu()), TPU_AND_CPU),
    "linear on the cpu's input": (lambda: nn.Linear(3, 3, device="tpu")(cpu()), TPU_AND_CPU),
    "conv2d": (lambda: nn.Conv2d(1, 1, 1)(tpu(1, 1, 3, 3)), TPU_AND_CPU),
    "layer_norm": (lambda: nn.LayerNorm(3)(tpu()), TPU_AND_CPU),
    "cross_entropy": (
        lambda: nn.functional.cross_entropy(tpu(), torch.zeros(3, dtype=torch.long)),
        TPU_AND_CPU,
    ),
    "gather": (lambda: tpu().gather(0, torch.zeros(1, 3, dtype=torch.long)), TPU_AND_CPU),
    "index of the cpu by a device": (lambda: cpu()[tpu().long()], TPU_AND_CPU),
    "allclose": (lambda: torch.allclose(tpu(), cpu()), TPU_AND_CPU),
    "equal": (
        lambda: torch.equal(tpu(), cpu()),
        "Cannot compare two tensors on different devices. Got: tpu:0 and cpu",
    ),
    "data": (lambda: setattr(tpu(), "data", cpu()), "incompatible tensor type"),
    "grad": (
        lambda: setattr(tpu().requires_grad_(), "grad", cpu()),
        "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'tpu'",
    ),
    "set_ on the cpu": (lambda: cpu().set_(tpu()), "Attempted to set the storage of a tensor"),
    "set_ to the cpu's": (lambda: tpu().set_(cpu().untyped_storage()), "Expected a tpu storage"),
    "set_ of another dtype": (
        lambda: tpu().set_(tpu().double()),
        "Could not set tensor of type double to a tensor of type float",
    ),
    "a generator of the cpu": (
        lambda: torch.rand(2, device="tpu", generator=torch.Generator()),
        "Expected a 'tpu' device type for generator but found 'cpu'",
    ),
    "a device that is not there": (lambda: tpu(device="tpu:7"), NO_DEVICE),
    "a move to what is not there": (lambda: cpu().to("tpu:7"), NO_DEVICE),
    "a current device that is not there": (lambda: torch.tpu.set_device(7), NO_DEVICE),
    "a stream on what is not there": (lambda: torch.tpu.Stream("tpu:7"), NO_DEVICE),
    "load to what is not there": (
        lambda: torch.load(saved(tpu()), map_location="tpu:7"),
        "Attempting to deserialize object on TPU device 7 but torch.tpu.device_count() is 2",
    ),
    "load to a place without a name": (
        lambda: torch.load(saved(tpu()), map_location="nowhere"),
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with",
    ),
    "load to CUDA": (
        lambda: torch.load(saved(tpu()), map_location="cuda"),
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False",
    ),
    "pinning": (lambda: tpu().pin_memory(), "only dense CPU tensors can be pinned"),
    "pinned factories": (
        lambda: torch.empty(2, device="tpu", pin_memory=True),
        "Only dense CPU tensors can be pinned",
    ),
    "freed storage": (
        lambda: ((x := tpu()).untyped_storage().resize_(0), x + 1),
        "The tensor has a non-zero number of elements, but its data is not allocated yet",
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_refused_with_the_devices_named(name):
    mistake, message = MIXED[name]
    with pytest.raises(RuntimeError, match=re.escape(message)):
        mistake()


NUMPY = (
    "can't convert tpu:0 device type tensor to numpy. "
    "Use Tensor.cpu() to copy the tensor to host memory first."
)
UNSUPPORTED = {
    "numpy": (lambda: tpu().numpy(), TypeError, NUMPY),
    "array": (lambda: __import__("numpy").asarray(tpu()), TypeError, NUMPY),
    "complex32": (
        lambda: torch.ones(2, dtype=torch.complex32, device="tpu"),
        TypeError,
        "tpu tensors can't hold",
    ),
    "complex32 from the cpu": (
        lambda: torch.ones(2, dtype=torch.complex32).to("tpu"),
        TypeError,
        "tpu tensors can't hold",
    ),
    "sparse": (lambda: tpu().to_sparse(), NotImplementedError, "tpu tensors are dense"),
    "sparse from the cpu": (
        lambda: cpu().to_sparse().to("tpu"),
        NotImplementedError,
        "make it dense with to_dense()",
    ),
    "compressed": (
        lambda: tpu().to_sparse_csr().to_dense(),
        NotImplementedError,
        "tpu tensors are dense",
    ),
    "the gradient of a sparse embedding": (
        lambda: nn.Embedding(2, 3, sparse=True).to("tpu")(tpu(2).long() - 1).sum().backward(),
        NotImplementedError,
        "dense with sparse=False",
    ),
    "quantized": (
        lambda: torch.quantize_per_tensor(tpu(), 0.1, 0, torch.qint8),
        NotImplementedError,
        "a quantized tensor can't be on tpu",
    ),
    "nested and strided": (
        lambda: torch.nested.nested_tensor([tpu(2, 3), tpu(1, 3)], device="tpu").sum(-1),
        NotImplementedError,
        "make them with layout=torch.jagged",
    ),
    "mkldnn": (lambda: tpu().to_mkldnn(), NotImplementedError, "Unsupported device type"),
    "dlpack's device": (lambda: tpu().__dlpack_device__(), ValueError, "Unknown device type tpu"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
@pytest.mark.filterwarnings("ignore")
def test_what_a_tpu_tensor_can_not_be_is_refused(name):
    attempt, kind, message = UNSUPPORTED[name]
    with pytest.raises(kind, match=re.escape(message)):
        attempt()


def test_numbers_on_the_cpu_mix_with_device_tensors():
    number = torch.tensor(2.0)
    assert (tpu(2) * number).tolist() == (number * tpu(2)).tolist() == [2, 2]
    assert torch.where(tpu(2) > 0, number, tpu(2)).tolist() == [2, 2]


def test_indices_on_the_cpu_reach_device_tensors():
    x = torch.arange(3.0, device="tpu")
    assert x[torch.tensor([2, 0])].tolist() == [2, 0]
    assert x[torch.tensor([True, False, True])].tolist() == [0, 2]
