"""Programs that are loaded before they are asked for."""

import pytest

from torch_tpu.compiler.ahead import Ahead


class Entries(dict):
    """A compile cache of bare entries."""

    def get(self, key):
        found = super().get(key)
        return None if found is None else (found, "disk")

    def put(self, key, payload, label):
        self[key] = payload


@pytest.fixture
def entries():
    return Entries()


@pytest.fixture
def compiled(entries):
    """What a first process leaves behind that compiled two programs."""
    first = Ahead(entries, load=None)
    first.compiled(b"one")
    first.compiled(b"two")
    return entries


def loading(entries):
    asked = []

    def load(key):
        asked.append(key)
        return key.upper()

    return Ahead(entries, load), asked


def test_what_followed_a_program_is_loaded_once_that_one_was_found(compiled):
    ahead, asked = loading(compiled)
    ahead.found(b"one")
    assert ahead.take(b"two") == b"TWO"
    assert asked == [b"two"]


def test_what_a_script_began_with_is_loaded_when_it_begins_again(compiled):
    ahead, asked = loading(compiled)
    ahead.begin()
    assert ahead.take(b"one") == b"ONE"
    assert asked == [b"one"]


def test_another_script_loads_nothing(compiled, monkeypatch):
    monkeypatch.setattr("sys.argv", ["another.py"])
    ahead, asked = loading(compiled)
    ahead.begin()
    assert ahead.take(b"one") is None
    assert asked == []


def test_what_was_taken_is_not_kept(compiled):
    ahead, _ = loading(compiled)
    ahead.found(b"one")
    assert ahead.take(b"two") == b"TWO"
    assert ahead.take(b"two") is None
    assert ahead.coming == {}


def test_the_end_of_what_is_known_loads_nothing(compiled):
    ahead, asked = loading(compiled)
    ahead.found(b"two")
    assert ahead.coming == {}
    assert asked == []
