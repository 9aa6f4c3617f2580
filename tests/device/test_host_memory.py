"""Pinned memory, data loaders, and what sharing a device tensor between processes refuses."""

from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.multiprocessing  # teaches ForkingPickler about tensors
from torch.utils.data import DataLoader, TensorDataset


class Six(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return {"x": torch.full((3,), float(index)), "y": index}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_pins_its_batches(workers):
    loader = DataLoader(Six(), batch_size=4, pin_memory=True, num_workers=workers)
    seen = []
    for batch in loader:
        assert batch["x"].is_pinned() and batch["y"].is_pinned()
        moved = batch["x"].to("tpu", non_blocking=True)
        seen += (moved[:, 0] + batch["y"].to("tpu", non_blocking=True)).tolist()
    assert seen == [0, 2, 4, 6, 8, 10]


def test_a_loader_of_device_tensors():
    loader = DataLoader(TensorDataset(torch.arange(4.0, device="tpu")), batch_size=2)
    assert [batch[0].tolist() for batch in loader] == [[0, 1], [2, 3]]


@pytest.mark.filterwarnings("ignore:The argument 'device'")
def test_pinning():
    x = torch.arange(4.0)
    for pinned in (x.pin_memory(), x.pin_memory("tpu"), torch.empty(4, pin_memory=True).copy_(x)):
        assert pinned.is_pinned() and pinned.device.type == "cpu" and torch.equal(pinned, x)
    assert not x.is_pinned() and not x.to("tpu").is_pinned()
    assert x.pin_memory()[1:].is_pinned()
    assert x.pin_memory().untyped_storage().is_pinned()


def test_device_tensors_don_t_cross_processes_by_sharing():
    x = torch.ones(2, device="tpu")
    assert x.share_memory_() is x and x.tolist() == [1, 1]  # nothing to do, as on CUDA
    with pytest.raises(RuntimeError, match="only available on CPU"):
        ForkingPickler.dumps(x)


def test_dlpack_stays_within_torch():
    x = torch.arange(3.0, device="tpu")
    again = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    again += 1
    assert again.device == x.device and x.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="Unknown device type tpu"):
        torch.from_dlpack(x)
    numpy = pytest.importorskip("numpy")
    with pytest.raises((RuntimeError, BufferError, ValueError)):
        numpy.from_dlpack(x)
