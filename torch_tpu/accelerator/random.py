"""Random numbers: one generator per device, whose state (seed, offset) lives on the host."""

from collections.abc import Iterable, Iterator

import torch

from torch_tpu import _C
from torch_tpu.accelerator.devices import DeviceLike, device_count, ordinal


class _DefaultGenerators:
    """The devices' generators, as a tuple that is read when it is used."""

    def __len__(self) -> int:
        return device_count()

    def __getitem__(self, number: int) -> torch.Generator:
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no tpu:{number}")
        return _C.default_generator(number % len(self))

    def __iter__(self) -> Iterator[torch.Generator]:
        return (self[number] for number in range(len(self)))


default_generators = _DefaultGenerators()


def get_rng_state(device: DeviceLike = "tpu") -> torch.Tensor:
    """The state of a device's generator, a ByteTensor on the CPU."""
    return default_generators[ordinal(device)].get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [generator.get_state() for generator in default_generators]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "tpu") -> None:
    default_generators[ordinal(device)].set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator. Does nothing where there is no device."""
    if device_count():
        default_generators[ordinal()].manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator; torch.manual_seed calls this."""
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator with a random number."""
    default_generators[ordinal()].seed()


def seed_all() -> None:
    """Seeds every device's generator with the same random number."""
    seed()
    manual_seed_all(initial_seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return default_generators[ordinal()].initial_seed()
