"""Storages and views: who shares what, and what resizing and re-pointing do."""

import pytest
import torch

from torch_tpu import diagnostics


def matrix():
    return torch.arange(12.0).reshape(3, 4)


def test_views_share_a_storage():
    x = matrix().to("tpu")
    storage = x.untyped_storage().data_ptr()
    views = [
        x[1],
        x.t(),
        x.view(12),
        x.view(torch.int32),
        x.diagonal(),
        x.detach(),
        x.unfold(0, 2, 1),
    ]
    assert all(view.untyped_storage().data_ptr() == storage for view in views)
    assert x[1].data_ptr() - x.data_ptr() == 16 and x.data_ptr() == storage
    assert x.is_set_to(x.view(3, 4)) and not x.is_set_to(x.t())
    assert x.clone().untyped_storage().data_ptr() != storage
    assert x[1]._base is x and x.untyped_storage().nbytes() == 48


# Each changes its argument through a view.
WRITES = {
    "row": lambda x: x[1].fill_(9),
    "column": lambda x: x[:, 1].mul_(2),
    "step": lambda x: x[::2, 1::2].zero_(),
    "transposed": lambda x: x.t()[1].add_(1),
    "diagonal": lambda x: x.diagonal().neg_(),
    "as_strided": lambda x: x.as_strided((2, 2), (5, 2), 1).fill_(7),
    "as_strided over all": lambda x: torch.as_strided(x, (12,), (1,)).cumsum_(0),
    "view of another dtype": lambda x: x.view(torch.int32)[0, 1:3].fill_(0),
    "narrower dtype": lambda x: x.view(torch.uint8)[:, 3].fill_(64),
    "unfold": lambda x: x.view(12).unfold(0, 4, 4)[1].fill_(5),
    "mask": lambda x: x[:, torch.tensor([True, False, True, False])].zero_(),
    "assignment by mask": lambda x: x.__setitem__(x > 4, -1.0),
    "assignment by index": lambda x: x.__setitem__((slice(None), [0, 2]), 8.0),
    "complex": lambda x: torch.view_as_complex(x.view(6, 2)).mul_(1j),
    "select of select": lambda x: x[2][1:][0].fill_(3),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_through_views_reach_the_base(name):
    expected, x = matrix(), matrix().to("tpu")
    alias = x.view(12)
    WRITES[name](expected)
    WRITES[name](x)
    assert torch.equal(x.cpu(), expected) and torch.equal(alias.cpu(), expected.view(12))


def test_views_between_real_and_complex():
    z = torch.tensor([1 + 2j, 3 + 4j]).to("tpu")
    pairs = torch.view_as_real(z)
    pairs[0, 1] = 9
    z.real[1] = 7
    assert z.tolist() == [1 + 9j, 7 + 4j]
    assert torch.view_as_complex(pairs).data_ptr() == z.data_ptr()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64, torch.complex64])
def test_bits_are_seen_in_another_dtype(dtype):
    x = matrix()
    assert torch.equal(x.to("tpu").view(dtype).cpu(), x.view(dtype))


def test_resize_keeps_the_elements():
    x = torch.arange(4.0, device="tpu")
    pointer = x.untyped_storage().data_ptr()
    x.resize_(2, 3)
    assert x.shape == (2, 3) and x.view(6)[:4].tolist() == [0, 1, 2, 3]
    assert x.untyped_storage().data_ptr() == pointer and x.untyped_storage().nbytes() == 24
    x.resize_(3)
    assert x.tolist() == [0, 1, 2] and x.untyped_storage().nbytes() == 24


@pytest.mark.usefixtures("strict")
def test_a_storage_is_freed_and_filled_again():
    x = torch.ones(1024, device="tpu")
    view, before = x[:2], diagnostics.counters()["bytes_in_use"]
    x.untyped_storage().resize_(0)
    assert diagnostics.counters()["bytes_in_use"] <= before - 4096
    with pytest.raises(RuntimeError, match="its data is not allocated yet"):
        view + 1
    x.untyped_storage().resize_(4096)
    x.copy_(torch.full((1024,), 2.0))
    assert view.tolist() == [2, 2]


READS = {
    "cpu": lambda x: x.cpu(),
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "print": repr,
    "numpy": lambda x: x.numpy(force=True),
    "copy_": lambda x: torch.zeros(1).copy_(x),
    "to another device": lambda x: x.to("tpu:1"),
}


@pytest.mark.parametrize("name", READS)
def test_a_freed_storage_is_not_read(name):
    x = torch.ones(1, device="tpu")
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="its data is not allocated yet"):
        READS[name](x)


def test_a_tensor_of_no_elements_is_read_from_a_freed_storage():
    x = torch.ones(0, 2, device="tpu")
    x.untyped_storage().resize_(0)
    assert x.cpu().shape == (0, 2)


def test_set_():
    x, y = matrix().to("tpu"), torch.ones(1, device="tpu")
    y.set_(x.untyped_storage(), 1, (2, 2), (4, 1))
    y.fill_(0)
    assert x[:2].tolist() == [[0, 0, 0, 3], [4, 0, 0, 7]]
    assert y.set_(x).is_set_to(x) and y.set_().shape == (0,)
    assert y.set_(x.untyped_storage()).shape == (12,)


def test_data_is_another_storage_of_the_same_tensor():
    x, y = torch.ones(2, device="tpu", requires_grad=True), torch.zeros(3, device="tpu")
    version = x._version
    x.data = y
    assert x.shape == (3,) and x.data_ptr() == y.data_ptr() and x._version == version
    x.data.add_(1)
    assert y.tolist() == [1, 1, 1] and x.requires_grad and x.is_leaf


def test_detach_in_place():
    y = torch.ones(2, device="tpu", requires_grad=True) * 2
    assert y.detach_() is y and not y.requires_grad and y.is_leaf


def test_storages_move_and_copy():
    storage = torch.tensor([1.0, 2.0], device="tpu").untyped_storage()
    assert storage.cpu().tolist() == storage.tolist() == storage.clone().tolist()
    assert storage.clone().device == storage.device == torch.device("tpu", 0)
    assert storage.tpu(1).device == torch.device("tpu", 1)
    assert torch.UntypedStorage(8, device="tpu").nbytes() == 8
    storage.fill_(0)
    assert storage.tolist() == [0] * 8


def test_swapping_tensors():
    x, y = torch.ones(2, device="tpu"), torch.zeros(3)
    torch.utils.swap_tensors(x, y)
    assert y.is_tpu and x.shape == (3,) and not x.is_tpu


def test_a_result_whose_length_values_decide_has_no_more_storage_than_on_the_cpu():
    def sizes(device):
        x = torch.arange(100.0, device=device)
        results = (x[x > 45], x.masked_select(x > 45), x.nonzero(), (x % 60).unique())
        return [each.untyped_storage().nbytes() for each in results]

    assert sizes("tpu") == sizes("cpu")
