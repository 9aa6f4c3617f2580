"""Models that are trained compiled: outputs, gradients, buffers and parameters are the CPU's."""

import pytest
import torch
from architectures import ARCHITECTURES, assert_trains_as_on_the_cpu, mlp
from compiling import assert_trains, compiled, graphs, randn
from quick import quick_ones
from torch import nn
from torch.nn import functional as F
from twins import DEVICE, assert_same, gradients, state, to, twins

# Recurrent layers break the graph under every backend, and packed sequences are not traced.
BREAKS = ("lstm", "gru")


@pytest.mark.parametrize("name", quick_ones(ARCHITECTURES, "gpt", "resnet"))
def test_every_architecture_trains_three_steps_as_on_the_cpu(name):
    fullgraph = name not in BREAKS
    assert_trains_as_on_the_cpu(name, run=lambda model: compiled(model, fullgraph=fullgraph))


def test_batch_norm_updates_its_buffers_and_stops_in_eval():
    models = twins(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()))
    calls = models[0], compiled(models[1])
    for training in (True, True, False):
        for model in models:
            model.train(training)
        x = randn(4, 3, 6, 6)
        assert_same(calls[1](x.to(DEVICE)).detach(), calls[0](x).detach())
        assert_same(state(models[1]), state(models[0]))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.embedding(tokens)))


def test_tied_weights_stay_one_parameter_with_one_gradient():
    models = twins(Tied)
    tokens = torch.tensor([[1, 2, 3], [3, 3, 9]])
    for call, inputs in ((models[0], tokens), (compiled(models[1]), tokens.to(DEVICE))):
        call(inputs).square().sum().backward()
    assert models[1].head.weight is models[1].embedding.weight
    assert_same(gradients(models[1]), gradients(models[0]))


def test_a_weight_that_is_changed_outside_is_seen_without_recompiling():
    models = twins(mlp)
    run, x = compiled(models[1]), randn(4, 12)
    run(x.to(DEVICE))
    with torch.no_grad():
        for model in models:
            model[0].weight.mul_(2)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert_same(run(x.to(DEVICE)).detach(), models[0](x).detach())


def test_frozen_parameters_get_no_gradient():
    models = twins(mlp)
    for model in models:
        model[0].requires_grad_(False)
    for call, x in ((models[0], randn(4, 12)), (compiled(models[1]), randn(4, 12).to(DEVICE))):
        call(x).sum().backward()
    assert models[1][0].weight.grad is None
    trained = [[p.grad for p in model[2:].parameters()] for model in models]
    assert_same(trained[1], trained[0])


def test_gradients_accumulate_over_calls():
    models, x = twins(mlp), randn(4, 12)
    for call, inputs in ((models[0], x), (compiled(models[1]), x.to(DEVICE))):
        for scale in (1, 2, 3):
            call(inputs * scale).square().mean().backward()
    assert_same(gradients(models[1]), gradients(models[0]))


def test_a_graph_is_kept_for_a_second_backward():
    x = randn(3, 4, device=DEVICE).requires_grad_()
    y = compiled(lambda x: (x.sin() * x).sum())(x)
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    assert_same(x.grad.cpu().to(DEVICE), (first * 2).cpu())


def test_two_forward_calls_before_their_backwards():
    def loss(x):
        return (x.exp() * x).sum()

    run, x = compiled(loss), randn(3, 4)
    inputs = [x.clone().requires_grad_(), (x * 2).clone().requires_grad_()]
    on_device = [each.detach().to(DEVICE).requires_grad_() for each in inputs]
    losses, expected = [run(each) for each in on_device], [loss(each) for each in inputs]
    for each in (*reversed(losses), *reversed(expected)):
        each.backward()
    assert_same([each.grad for each in on_device], [each.grad for each in inputs])


def test_only_some_outputs_are_differentiated():
    def function(x, w):
        return x @ w, (x * 2).detach(), x.argmax(-1)

    assert_trains(function, randn(3, 4).requires_grad_(), randn(4, 2, seed=2).requires_grad_())


def test_gradients_of_inputs_that_are_not_contiguous():
    def function(x):
        return torch.tanh(x.mT @ x)[:, ::2]

    assert_trains(function, randn(4, 3).T.requires_grad_())


def test_a_loss_inside_the_compiled_step():
    models = twins(mlp)
    x, classes = randn(8, 12), torch.arange(8) % 5

    def step(model, x, classes):
        return F.cross_entropy(model(x), classes)

    run = compiled(step)
    for _ in range(2):
        expected, got = step(models[0], x, classes), run(models[1], *to(DEVICE, x, classes))
        expected.backward()
        got.backward()
        assert_same(got.detach(), expected.detach())
        assert_same(gradients(models[1]), gradients(models[0]))


def test_hooks_of_tensors_and_modules_run():
    seen = []

    def function(x):
        y = x.sin()
        y.register_hook(lambda g: g * 2)
        return y

    assert_trains(function, randn(3).requires_grad_())
    models, x = twins(mlp), randn(4, 12)
    for model in models:
        model[1].register_forward_hook(lambda module, inputs, output: output * 3)
        model[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.device.type))
    for call, inputs in ((models[0], x), (compiled(models[1]), x.to(DEVICE))):
        call(inputs).sum().backward()
    assert seen == ["cpu", DEVICE]
    assert_same(gradients(models[1]), gradients(models[0]))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * 2


def test_a_custom_autograd_function_keeps_its_own_backward():
    assert_trains(lambda x: Doubled.apply(x).exp(), randn(3, 4).requires_grad_())


def test_a_graph_break_between_two_differentiable_parts():
    def function(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.exp()

    assert_trains(function, randn(3, 4).requires_grad_(), fullgraph=False)
    assert graphs() == 2


def test_a_model_compiled_in_place_keeps_its_state_dict_names():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to(DEVICE)
    names = list(model.state_dict())
    model.compile(backend=compiled.__globals__["BACKEND"])
    model(randn(4, 3, device=DEVICE))
    assert list(model.state_dict()) == names
    assert model[1].num_batches_tracked.item() == 1
