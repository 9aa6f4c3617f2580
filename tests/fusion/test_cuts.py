"""A loop is cut at the same ops each time: after its second iteration it makes no new program."""

import pytest
import torch
from architectures import mlp
from counting import DEVICE, growth, programs
from torch import nn

from torch_tpu.diagnostics import counters

CLASSES = 5


class Training:
    """An MLP and its step; ``batch`` rows come from a fixed pool."""

    def __init__(self, optimizer=torch.optim.AdamW):
        torch.manual_seed(0)
        self.model = mlp().to(DEVICE)
        self.optimizer = optimizer(self.model.parameters(), lr=1e-3)
        self.rows = torch.randn(64, 12).to(DEVICE)
        self.classes = (torch.arange(64) % CLASSES).to(DEVICE)

    def loss(self, batch=8):
        return nn.functional.cross_entropy(self.model(self.rows[:batch]), self.classes[:batch])

    def backward(self, batch=8):
        loss = self.loss(batch)
        loss.backward()
        return loss.detach()

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def step(self, batch=8):
        loss = self.backward(batch)
        self.update()
        return loss

    @torch.no_grad()
    def accuracy(self):
        self.model.eval()
        right = (self.model(self.rows).argmax(-1) == self.classes).float().mean()
        self.model.train()
        return right.item()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_a_training_step_makes_no_program_after_the_second(kind):
    training = Training(kind)
    assert growth(lambda _: training.step(), warm=2, more=20) == 0


def test_a_step_whose_learning_rate_changes_makes_no_program_after_the_second():
    training = Training()
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(training.optimizer, 100)

    def iteration(_):
        training.step()
        scheduler.step()

    assert growth(iteration, warm=2, more=20) == 0


def test_logging_the_loss_every_few_steps_makes_no_program_after_its_second_time():
    training, losses = Training(), []

    def epoch(_):
        for number in range(7):
            loss = training.step()
            if number % 3 == 0:
                losses.append(loss.item())

    assert growth(epoch, warm=2, more=4) == 0
    assert losses[-1] < losses[0]


def test_a_running_sum_of_losses_makes_no_program_after_its_second_time():
    training, means = Training(), []

    def epoch(_):
        total = torch.zeros((), device=DEVICE)
        for _ in range(5):
            total += training.step()
        means.append(total.item() / 5)

    assert growth(epoch, warm=2, more=4) == 0
    assert means[-1] < means[0]


def test_evaluation_every_few_steps_makes_no_program_after_its_second_time():
    training, seen = Training(), []

    def epoch(_):
        for _ in range(5):
            training.step()
        seen.append(training.accuracy())

    assert growth(epoch, warm=2, more=4) == 0
    assert seen[-1] >= seen[0]


@pytest.mark.parametrize("parts", [2, 5])
def test_gradient_accumulation_makes_no_program_after_its_second_update(parts):
    training = Training()

    def iteration(_):
        for _ in range(parts):
            training.backward()
        training.update()

    assert growth(iteration, warm=2, more=6) == 0


def test_an_uneven_last_batch_makes_no_program_after_the_second_epoch():
    training = Training()

    def epoch(_):
        for batch in (8, 8, 8, 3):
            training.step(batch)

    assert growth(epoch, warm=2, more=4) == 0


def test_clipping_and_scaling_gradients_make_no_program_after_the_second_step():
    training = Training()
    scaler = torch.amp.GradScaler(DEVICE)

    def iteration(_):
        scaler.scale(training.loss()).backward()
        scaler.unscale_(training.optimizer)
        nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        scaler.step(training.optimizer)
        scaler.update()
        training.optimizer.zero_grad()

    assert growth(iteration, warm=2, more=6) == 0


def test_a_step_runs_as_a_few_programs():
    training = Training()
    for _ in range(3):
        training.step()
    torch.tpu.synchronize()
    before = counters()
    for _ in range(10):
        training.step()
    torch.tpu.synchronize()
    after = counters()
    assert after["executions"] - before["executions"] <= 20
    assert after["ops"] - before["ops"] >= 200


def body_of(length):
    """An iteration of this many ops, all alike in shape and unlike in kind."""
    kinds = [torch.sin, torch.cos, torch.tanh, torch.neg, torch.sigmoid, torch.abs, torch.atan]

    def body(x):
        for place in range(length):
            x = kinds[(place * place + place // 7) % 7](x)
        return x

    return body


@pytest.mark.parametrize("length", [10, 100, 300])
def test_iterations_without_any_sync_make_no_program_once_they_repeat(length):
    body, x = body_of(length), torch.rand(4, device=DEVICE)
    for _ in range(3000 // length):
        x = body(x)
    before = programs()
    for _ in range(6000 // length):
        x = body(x)
    assert programs() - before == 0


def test_an_iteration_a_little_longer_than_a_chunk_makes_no_program_once_it_repeats():
    length, x = 257, torch.eye(4, device=DEVICE)
    factors = torch.eye(4, device=DEVICE).repeat(length, 1, 1)

    def body(x):
        for place in range(length):
            x = x @ factors[place]  # each a call of its own kind: another offset
        return x

    for _ in range(12):
        x = body(x)
    before = programs()
    for _ in range(24):
        x = body(x)
    assert programs() - before == 0
    assert torch.equal(x.cpu(), torch.eye(4))


def test_ten_thousand_ops_without_a_sync_make_few_programs_and_are_right():
    def work(x):
        for _ in range(2000):
            x = (x * 1.5 + 0.25).sin() - 0.125
            x = x.abs()
        return x

    x = torch.linspace(0, 1, 8)
    before = programs()
    result = work(x.to(DEVICE))
    torch.testing.assert_close(result.cpu(), work(x))
    made = programs() - before
    assert made <= 12
    before = programs()
    work(x.to(DEVICE)).cpu()
    assert programs() - before == 0
