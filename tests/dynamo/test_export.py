"""Exported programs: as StableHLO that JAX runs, and on tpu as any module."""

import io

import jax
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from jax import export as jax_export
from torch import nn

import torch_tpu.export


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, images):
        hidden = F.max_pool2d(F.gelu(self.norm(self.convolution(images))), 2)
        return F.softmax(self.head(hidden.mean((2, 3))), dim=-1)


class Running(nn.Module):
    """Changes a buffer; has a constant and a buffer that state_dict leaves out."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("scale", torch.full((3,), 2.0), persistent=False)
        self.constant = torch.arange(3.0)

    def forward(self, x):
        self.total.add_(x.sum(0))
        return (x * self.scale + self.constant, self.total * 1.0)


def as_jax(artifact, *arrays):
    """What JAX gives for an artifact, as tensors."""
    with jax.enable_x64(True):
        results = artifact.exported.call(*arrays)
        return [torch.from_numpy(np.array(each)) for each in results]


@pytest.fixture
def images():
    return torch.randn(2, 3, 8, 8)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_jax_computes_what_eager_mode_does(images, device):
    model = Classifier().eval()
    expected = model(images)
    program = torch.export.export(model.to(device), (images.to(device),))
    artifact = torch_tpu.export.stablehlo(program)
    assert len(artifact.inputs) == 1
    torch.testing.assert_close(as_jax(artifact, images.numpy()), [expected])


def test_a_saved_file_is_what_jax_reads(images, tmp_path):
    pytest.importorskip("flatbuffers", reason="jax.export writes and reads with it")
    model = Classifier().eval()
    program = torch.export.export(model, (images,))
    torch_tpu.export.stablehlo(program).save(tmp_path / "model.jax")
    loaded = jax_export.deserialize(bytearray((tmp_path / "model.jax").read_bytes()))
    result = torch.from_numpy(np.array(loaded.call(images.numpy())[0]))
    torch.testing.assert_close(result, model(images))


def test_the_module_is_stablehlo_text_and_portable_bytecode(images):
    artifact = torch_tpu.export.stablehlo(torch.export.export(Classifier().eval(), (images,)))
    assert "stablehlo.convolution" in artifact.text
    assert artifact.bytecode.startswith(b"ML\xefR\rStableHLO_v")


def test_weights_are_named_arguments_on_request(images):
    model = Classifier().eval()
    program = torch.export.export(model, (images,))
    artifact = torch_tpu.export.stablehlo(program, weights=False)
    state = model.state_dict()
    assert artifact.inputs[-1] == "images" and set(artifact.inputs[:-1]) == set(state)
    halved = {
        name: value / 2 if value.is_floating_point() else value for name, value in state.items()
    }
    arrays = [halved[name].numpy() for name in artifact.inputs[:-1]]
    expected = torch.func.functional_call(model, halved, (images,))
    torch.testing.assert_close(as_jax(artifact, *arrays, images.numpy()), [expected])


def test_changed_buffers_are_further_outputs():
    x = torch.randn(4, 3)
    artifact = torch_tpu.export.stablehlo(torch.export.export(Running(), (x,)))
    assert artifact.inputs == ("x",) and artifact.outputs[-1] == "total"
    model = Running()
    expected = [*model(x), model.total]
    torch.testing.assert_close(as_jax(artifact, x.numpy()), expected)


def test_changed_inputs_are_further_outputs():
    class Adds(nn.Module):
        def forward(self, x, y):
            x.add_(y)
            return x * y

    x, y = torch.randn(3), torch.randn(3)
    artifact = torch_tpu.export.stablehlo(torch.export.export(Adds(), (x, y)))
    assert artifact.outputs[-1] == "x"
    torch.testing.assert_close(as_jax(artifact, x.numpy(), y.numpy()), [(x + y) * y, x + y])


def test_arguments_are_those_of_the_flattened_call():
    class Nested(nn.Module):
        def forward(self, pair, *, scale, flag):
            return {"sum": pair[0] + pair[1], "scaled": pair[0] * scale if flag else pair[0]}

    first, second, scale = torch.randn(2), torch.randn(2), torch.randn(())
    keywords = {"scale": scale, "flag": True}
    program = torch.export.export(Nested(), ((first, second),), keywords)
    artifact = torch_tpu.export.stablehlo(program)
    results = as_jax(artifact, first.numpy(), second.numpy(), scale.numpy())
    torch.testing.assert_close(results, [first + second, first * scale])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64])
def test_constants_of_every_width_keep_their_values(dtype):
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", torch.tensor([[1.5, -2], [3, 100]]).to(dtype))

        def forward(self, x):
            return (x * self.held).to(torch.float64)

    x = torch.ones(2, 2)
    artifact = torch_tpu.export.stablehlo(torch.export.export(Holds(), (x,)))
    torch.testing.assert_close(as_jax(artifact, x.numpy()), [Holds()(x)])


class Mixes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x, y):
        flat = self.linear(torch.cat([x, y], dim=1)).reshape(-1)
        return flat, x.sum(0) / x.shape[0]


class Attends(nn.Module):
    """Open in two places; merges and splits open dimensions."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, y):
        mixed, _ = self.attention(x, x, x, need_weights=False)
        return mixed[:, 0] + y[:, None, :].expand(-1, 2, -1)[:, 1], mixed.transpose(0, 1).squeeze(
            -2
        )


CASES = {
    "dense": (Mixes, lambda batch, _: (torch.randn(batch, 4), torch.randn(batch, 2)), (0,)),
    "attention": (
        Attends,
        lambda batch, length: (torch.randn(batch, length, 8), torch.randn(batch, 8)),
        (0, 1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_open_sizes_stay_open(case):
    make, arguments, places = CASES[case]
    model = make()
    dims = [torch.export.Dim(name, min=2, max=64) for name in ("batch", "length")]
    shapes = (dict(zip(places, dims, strict=False)), {0: dims[0]})
    program = torch.export.export(model, arguments(3, 5), dynamic_shapes=shapes)
    artifact = torch_tpu.export.stablehlo(program)
    for sizes in ((2, 9), (7, 2), (64, 3)):
        x, y = arguments(*sizes)
        torch.testing.assert_close(as_jax(artifact, x.numpy(), y.numpy()), list(model(x, y)))


def test_a_size_outside_of_its_range_is_refused_by_jax():
    batch = torch.export.Dim("batch", min=2, max=8)
    x = torch.randn(3, 4)
    program = torch.export.export(nn.Linear(4, 4), (x,), dynamic_shapes=({0: batch},))
    artifact = torch_tpu.export.stablehlo(program)
    with pytest.raises(ValueError, match="<= 8"):
        as_jax(artifact, np.zeros((9, 4), np.float32))


def test_random_programs_take_a_seed():
    class Noise(nn.Module):
        def forward(self, x):
            return F.dropout(x, 0.25, training=True)

    x = torch.ones(4096)
    artifact = torch_tpu.export.stablehlo(torch.export.export(Noise(), (x,)))
    assert artifact.inputs == ("x", "seed")
    first, same, other = (
        as_jax(artifact, x.numpy(), np.array([seed, 0], np.int64))[0] for seed in (1, 1, 2)
    )
    assert torch.equal(first, same) and not torch.equal(first, other)
    assert set(first.unique().tolist()) == {0.0, float(torch.tensor(1 / 0.75))}
    assert 0.70 < (first > 0).float().mean() < 0.80


def test_several_platforms_share_one_artifact(images):
    program = torch.export.export(Classifier().eval(), (images,))
    artifact = torch_tpu.export.stablehlo(program, platforms=("cpu", "tpu"))
    assert artifact.exported.platforms == ("cpu", "tpu")


def test_an_op_that_cannot_be_lowered_is_named_with_its_line():
    class Finds(nn.Module):
        def forward(self, x):
            return torch.nonzero(x)

    program = torch.export.export(Finds(), (torch.ones(3),))
    with pytest.raises(
        RuntimeError, match=r"aten::nonzero at .*test_export\.py:\d+ \(return torch"
    ):
        torch_tpu.export.stablehlo(program)


@pytest.mark.parametrize("compiled", [False, True])
def test_exported_modules_run_on_tpu(images, compiled):
    model = Classifier().eval()
    module = torch.export.export(model, (images,)).module().to("tpu")
    run = torch.compile(module, backend="tpu") if compiled else module
    torch.testing.assert_close(run(images.to("tpu")).cpu(), model(images))


def test_programs_exported_on_tpu_run_there(images):
    model = Classifier().eval()
    expected = model(images)
    on_tpu = images.to("tpu")
    module = torch.export.export(model.to("tpu"), (on_tpu,)).module()
    torch.testing.assert_close(module(on_tpu).cpu(), expected)


def test_saved_programs_run_on_tpu_after_loading(images):
    model = Classifier().eval()
    expected = model(images)
    on_tpu = images.to("tpu")
    file = io.BytesIO()
    torch.export.save(torch.export.export(model.to("tpu"), (on_tpu,)), file)
    file.seek(0)
    loaded = torch.export.load(file)
    torch.testing.assert_close(loaded.module()(on_tpu).cpu(), expected)
    artifact = torch_tpu.export.stablehlo(loaded)
    torch.testing.assert_close(as_jax(artifact, images.numpy()), [expected])
