"""Generators: seeding, saving and restoring state, forking."""

import pytest
import torch


def draw(device="tpu", generator=None):
    return torch.rand(8, device=device, generator=generator).cpu()


def test_seeding_repeats():
    torch.manual_seed(3)
    first = draw()
    assert torch.tpu.initial_seed() == 3
    assert not torch.equal(first, draw())
    torch.manual_seed(3)
    assert torch.equal(first, draw())
    torch.tpu.manual_seed(4)
    assert not torch.equal(first, draw())


def test_every_device_is_seeded():
    torch.tpu.manual_seed_all(5)
    assert [generator.initial_seed() for generator in torch.tpu.default_generators] == [5, 5]
    torch.tpu.manual_seed(6)
    assert [generator.initial_seed() for generator in torch.tpu.default_generators] == [6, 5]
    torch.tpu.seed_all()
    seeds = {generator.initial_seed() for generator in torch.tpu.default_generators}
    assert len(seeds) == 1 and seeds != {5}


def test_state_is_restored():
    torch.manual_seed(0)
    draw()
    state = torch.tpu.get_rng_state()
    assert state.device.type == "cpu" and state.dtype == torch.uint8
    expected = draw()
    torch.tpu.set_rng_state(state)
    assert torch.equal(draw(), expected)
    states = torch.tpu.get_rng_state_all()
    assert len(states) == torch.tpu.device_count()
    expected = draw("tpu:1")
    torch.tpu.set_rng_state_all(states)
    assert torch.equal(draw("tpu:1"), expected)


@pytest.mark.parametrize("device", [1, "tpu:1", torch.device("tpu:1")])
def test_state_of_one_device(device):
    state = torch.tpu.get_rng_state(device)
    expected = draw("tpu:1")
    torch.tpu.set_rng_state(state, device)
    assert torch.equal(draw("tpu:1"), expected)


def test_fork_rng():
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=range(2), device_type="tpu"):
        expected = draw()
        torch.manual_seed(2)
    assert torch.equal(draw(), expected)


def test_generator_of_its_own():
    generator = torch.Generator("tpu").manual_seed(9)
    untouched = torch.tpu.get_rng_state()
    first = draw(generator=generator)
    assert torch.equal(torch.tpu.get_rng_state(), untouched)
    assert torch.equal(draw(generator=torch.Generator("tpu").manual_seed(9)), first)
    with pytest.raises(IndexError, match="tpu:2"):
        torch.tpu.default_generators[2]


def test_modes_draw_the_same_numbers():
    torch.manual_seed(0)
    expected = draw()
    torch.manual_seed(0)
    with torch.tpu.set_eager_mode("debug"):
        assert torch.equal(draw(), expected)


def test_checkpoint_keeps_dropout():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    x = torch.ones(64, device="tpu", requires_grad=True)
    dropped = checkpoint(lambda x: torch.nn.functional.dropout(x, 0.5), x, use_reentrant=False)
    dropped.sum().backward()
    assert torch.equal(x.grad.cpu(), dropped.detach().cpu())


def test_seeding_does_not_load_the_plugin(run_python):
    code = """
import torch
torch.manual_seed(7)
print(torch.tpu.is_initialized())
first = torch.rand(4, device="tpu").cpu()
torch.manual_seed(7)
print(torch.equal(first, torch.rand(4, device="tpu").cpu()))
"""
    assert run_python(code) == "False\nTrue"
