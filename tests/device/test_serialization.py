"""Saving, loading, pickling and copying tensors and modules, onto any device."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn


def saved(content, **options):
    file = io.BytesIO()
    torch.save(content, file, **options)
    file.seek(0)
    return file


def sample():
    x = torch.arange(6.0).reshape(2, 3).to("tpu")
    return {"whole": x, "row": x[1], "column": x[:, 1], "half": x.bfloat16()}


PLACES = {
    "as saved": (None, "tpu:0"),
    "cpu": ("cpu", "cpu"),
    "tpu": ("tpu", "tpu:0"),
    "another": ("tpu:1", "tpu:1"),
    "device": (torch.device("tpu", 1), "tpu:1"),
    "table": ({"tpu:0": "cpu"}, "cpu"),
    "table of devices": ({"tpu:0": "tpu:1"}, "tpu:1"),
    "function": (lambda storage, location: storage.tpu(1), "tpu:1"),
    "function that leaves": (lambda storage, location: storage, "cpu"),
}


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_load_puts_tensors_where_it_is_told(place, weights_only):
    location, device = PLACES[place]
    loaded = torch.load(saved(sample()), map_location=location, weights_only=weights_only)
    for name, tensor in sample().items():
        assert str(loaded[name].device) == device
        assert torch.equal(loaded[name].cpu(), tensor.cpu())
        assert loaded[name].stride() == tensor.stride()
    assert loaded["row"].data_ptr() == loaded["whole"][1].data_ptr()


@pytest.mark.parametrize("zipped", [True, False])
def test_what_the_cpu_saved_loads_onto_the_device(zipped):
    x = torch.arange(3.0)
    file = saved(x, _use_new_zipfile_serialization=zipped)
    assert torch.equal(torch.load(file, map_location="tpu").cpu(), x)


def test_mapped_files_load(tmp_path):
    torch.save(torch.arange(3.0), tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt", mmap=True, map_location="tpu")
    assert loaded.is_tpu and loaded.tolist() == [0, 1, 2]


def test_load_within_a_device_context():
    with torch.device("tpu"):
        assert torch.load(saved(torch.ones(2))).is_tpu
    file = saved(torch.ones(2, device="tpu"))
    with torch.tpu.device(1):
        assert torch.load(file, map_location="tpu").device == torch.device("tpu", 1)


def test_whole_modules():
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to("tpu")
    loaded = torch.load(saved(model), map_location="cpu", weights_only=False)
    again = pickle.loads(pickle.dumps(model))
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.cpu())
        assert again.state_dict()[name].device == tensor.device
    assert isinstance(again[0].weight, nn.Parameter)


def test_optimizer_states():
    model = nn.Linear(2, 2).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2, device="tpu")).sum().backward()
    optimizer.step()
    loaded = torch.load(saved(optimizer.state_dict()), map_location="cpu")
    other = torch.optim.AdamW(nn.Linear(2, 2).to("tpu").parameters())
    other.load_state_dict(loaded)
    state = other.state_dict()["state"][0]
    assert state["exp_avg"].is_tpu and state["step"].item() == 1


def test_pickle_keeps_layout_and_flags():
    x = torch.arange(6.0, device="tpu").reshape(2, 3).t().requires_grad_()
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad and y.stride() == x.stride() and torch.equal(y.cpu(), x.cpu())
    z = torch.tensor([1j], device="tpu").conj()
    assert pickle.loads(pickle.dumps(z)).is_conj()


def test_deepcopy_keeps_sharing_and_leaves_the_original():
    tensors = sample()
    copies = copy.deepcopy(tensors)
    copies["whole"][1] = 9
    assert copies["row"].tolist() == [9, 9, 9] and tensors["row"].tolist() == [3, 4, 5]
    assert type(copy.deepcopy(nn.Parameter(tensors["row"]))) is nn.Parameter
    leaf = torch.ones(2, device="tpu", requires_grad=True)
    leaf.grad = torch.ones(2, device="tpu")
    copied = copy.deepcopy(leaf)
    assert copied.grad.tolist() == [1, 1] and copied.grad is not leaf.grad


def test_generators_pickle():
    generator = torch.Generator("tpu").manual_seed(3)
    state = generator.get_state()
    first = torch.rand(2, device="tpu", generator=generator)
    generator.set_state(pickle.loads(pickle.dumps(state)))
    assert torch.equal(first, torch.rand(2, device="tpu", generator=generator))
