"""Modules, functions and optimizers whose captured graphs are whole programs."""

import copy

import pytest
import torch
import torch.nn.functional as F
from captured import compiled, host_nodes, nothing_on_host
from torch import nn
from torch.utils._pytree import tree_leaves

from torch_tpu.dynamo.compiled import CompiledGraph
from torch_tpu.dynamo.graph import TensorMeta


def rows(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


MODULES = {
    "batch norm": (lambda: nn.BatchNorm2d(3), (4, 3, 5, 5)),
    "cumulative batch norm": (lambda: nn.BatchNorm1d(3, affine=False), (4, 3)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 5, 5)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 5)),
    "layer norm": (lambda: nn.LayerNorm(5), (3, 5)),
    "rms norm": (lambda: nn.RMSNorm(5), (3, 5)),
    "local response norm": (lambda: nn.LocalResponseNorm(2), (2, 4, 5)),
    "convolution": (lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2), (2, 4, 7, 7)),
    "transposed convolution": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2), (2, 3, 5, 5)),
    "reflected padding": (lambda: nn.Conv1d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 7)),
    "max pooling": (lambda: nn.MaxPool2d(2), (2, 3, 6, 6)),
    "average pooling": (lambda: nn.AvgPool2d(3, stride=2, padding=1), (2, 3, 7, 7)),
    "adaptive pooling": (lambda: nn.AdaptiveAvgPool2d((3, 2)), (2, 3, 7, 5)),
    "lp pooling": (lambda: nn.LPPool1d(2, 3), (2, 3, 9)),
    "upsampling": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 4, 4)),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), (1, 8, 3, 3)),
    "fold": (lambda: nn.Unfold(3), (1, 2, 6, 6)),
    "lstm": (lambda: nn.LSTM(4, 3, bidirectional=True), (5, 2, 4)),
    "gru": (lambda: nn.GRU(4, 3, num_layers=2), (5, 2, 4)),
    "attention": (lambda: SelfAttention(), (2, 5, 8)),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        (2, 5, 8),
    ),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), (2, 4)),
    "bilinear": (lambda: Twice(nn.Bilinear(4, 4, 3)), (2, 4)),
    "cosine similarity": (lambda: Twice(nn.CosineSimilarity()), (3, 4)),
    "pairwise distance": (lambda: Twice(nn.PairwiseDistance()), (3, 4)),
    "glu": (lambda: nn.GLU(), (3, 4)),
    "prelu": (lambda: nn.PReLU(), (3, 4)),
    "softmax": (lambda: nn.Softmax2d(), (2, 3, 4, 4)),
}


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


class Twice(nn.Module):
    """A module of two inputs, with one for both."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x, x.flip(0))


@pytest.mark.parametrize("name", MODULES)
@torch._dynamo.config.patch(allow_rnn=True)
def test_a_module_trains_in_whole_programs(name):
    build, shape = MODULES[name]
    torch.manual_seed(0)
    model = build()
    twin, results = copy.deepcopy(model).to("tpu"), []
    for module, device in ((model, "cpu"), (twin, "tpu")):
        x = rows(*shape).to(device).requires_grad_()
        with nothing_on_host():
            out = (module if device == "cpu" else compiled(module))(x)
            out = out[0] if isinstance(out, tuple) else out
            (out * torch.linspace(0, 1, out.numel()).reshape(out.shape).to(device)).sum().backward()
        grads = [each.grad for each in module.parameters()]
        results.append([out, x.grad, *grads, *module.buffers()])
    for one, other in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(one.cpu(), other)


LOSSES = {
    "cross entropy": lambda x: F.cross_entropy(x, x.argmax(1), label_smoothing=0.1),
    "weighted cross entropy": lambda x: F.cross_entropy(
        x, x.argmin(1), weight=torch.arange(1.0, 6.0, device=x.device), ignore_index=2
    ),
    "binary cross entropy": lambda x: F.binary_cross_entropy_with_logits(x, x.sigmoid().round()),
    "kl divergence": lambda x: F.kl_div(x.log_softmax(1), x.flip(0).softmax(1), reduction="sum"),
    "huber": lambda x: F.huber_loss(x, x.flip(0), delta=0.5),
    "smooth l1": lambda x: F.smooth_l1_loss(x, x.flip(0)),
    "poisson": lambda x: F.poisson_nll_loss(x, x.flip(0).abs(), full=True),
    "hinge": lambda x: F.hinge_embedding_loss(x, x.sign()),
    "margins": lambda x: F.multi_margin_loss(x, x.argmax(1)),
    "triplets": lambda x: F.triplet_margin_loss(x, x.flip(0), x.flip(1)),
    "cosines": lambda x: F.cosine_embedding_loss(x, x.flip(0), x.sum(1).sign()),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_and_its_gradient_are_whole_programs(name):
    results = []
    for device in ("cpu", "tpu"):
        x = rows(4, 5).to(device).requires_grad_()
        with nothing_on_host():
            loss = (LOSSES[name] if device == "cpu" else compiled(LOSSES[name]))(x)
            loss.backward()
        results.append((loss, x.grad))
    for one, other in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(one.cpu(), other)


TABLES = {
    "bartlett": lambda device: torch.bartlett_window(9, device=device),
    "blackman": lambda device: torch.blackman_window(8, periodic=False, device=device),
    "hamming": lambda device: torch.hamming_window(8, True, 0.5, 0.4, device=device),
    "hann": lambda device: torch.hann_window(8, device=device),
    "kaiser": lambda device: torch.kaiser_window(8, True, 10.0, device=device),
    "frequencies": lambda device: torch.fft.fftfreq(9, 0.5, device=device),
    "real frequencies": lambda device: torch.fft.rfftfreq(8, device=device),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_numbers_are_part_of_programs(name):
    found = compiled(lambda x: x * TABLES[name](x.device))(torch.ones(1, device="tpu"))
    torch.testing.assert_close(found.cpu(), TABLES[name]("cpu"))


DRAWS = {
    "rand": lambda x: torch.rand(5, 7, device=x.device),
    "randn": lambda x: torch.randn(5, 7, device=x.device, dtype=torch.float64),
    "randint": lambda x: torch.randint(-3, 100, (5, 7), device=x.device),
    "randint from zero": lambda x: torch.randint(9, (5, 7), device=x.device, dtype=torch.int32),
    "rand_like": torch.rand_like,
    "randn_like": lambda x: torch.randn_like(x, dtype=torch.bfloat16),
    "randint_like": lambda x: torch.randint_like(x, 3, 50),
    "normal": lambda x: torch.normal(2.0, 3.0, (5, 7), device=x.device),
    "randperm": lambda x: torch.randperm(12, device=x.device),
    "dropout": lambda x: F.dropout(x, 0.3),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "exponential": lambda x: torch.empty_like(x).exponential_(2.0),
}


@pytest.mark.parametrize("name", DRAWS)
def test_compiled_code_draws_what_eager_code_draws(name):
    x = rows(5, 7).to("tpu")
    torch.manual_seed(3)
    expected = DRAWS[name](x)
    torch.manual_seed(3)
    found = compiled(DRAWS[name])(x)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found.cpu(), expected.cpu())


def test_assertions_on_metadata_and_values_are_part_of_programs():
    def function(x):
        torch.ops.aten._assert_async.msg((x > 0).all(), "all must be positive")
        return x.log()

    log = compiled(function)
    torch.testing.assert_close(log(torch.ones(3, device="tpu")).cpu(), torch.zeros(3))
    with pytest.raises(RuntimeError, match="all must be positive"):
        log(torch.tensor([1.0, -1.0, 2.0], device="tpu")).cpu()


OPTIMIZERS = {
    "Adadelta": {},
    "Adafactor": {},
    "Adagrad": {},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {},
    "Adamax": {},
    "ASGD": {},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Rprop": {},
    "SGD": {"momentum": 0.9, "nesterov": True},
}
FORMS = [(name, form) for name in OPTIMIZERS for form in ("foreach", "single")]
FORMS += [(name, "fused") for name in ("Adagrad", "Adam", "AdamW", "SGD")]


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_of_an_optimizer_step_the_host_runs_counts_alone(name, form, monkeypatch):
    """The step counts that PyTorch keeps on the CPU are its; all else is part of programs."""
    on_host, prepare = [], CompiledGraph._prepare

    def recorded(graph):
        on_host.extend(host_nodes(graph))
        prepare(graph)

    monkeypatch.setattr(CompiledGraph, "_prepare", recorded)
    options = {**OPTIMIZERS[name], "foreach": form == "foreach", "lr": 0.01}
    options |= {"fused": True} if form == "fused" else {}
    results = []
    for device in ("cpu", "tpu"):
        parameters = [rows(3, 2).to(device), rows(4, seed=1).to(device)]
        optimizer = getattr(torch.optim, name)(parameters, **options)
        torch._dynamo.reset()
        step = optimizer.step if device == "cpu" else torch.compile(optimizer.step, backend="tpu")
        for turn in range(3):
            for parameter in parameters:
                parameter.grad = (parameter * (turn + 1)).sin()
            step()
        results.append(parameters)
    for one, other in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(one.cpu(), other)
    for node in on_host:
        tensors = [leaf for leaf in tree_leaves(node.meta) if isinstance(leaf, TensorMeta)]
        assert all(meta.device == "cpu" and not meta.sizes for meta in tensors), node.target
