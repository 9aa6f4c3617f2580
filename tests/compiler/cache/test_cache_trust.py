"""Loading a program runs it: what others could have written is refused, with the reason."""

import os
import re

import pytest
from caches import cache_at, only_file

SOMEONE = 54321


@pytest.fixture
def give_away(monkeypatch):
    """Makes a file belong to another user; this one changes where it may not do that."""

    def give(path):
        if os.geteuid() == 0:
            os.chown(path, SOMEONE, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: SOMEONE)

    return give


def refused(cache, reason):
    """Checks that nothing is read or written, with one warning that gives the reason."""
    with pytest.warns(UserWarning, match=re.escape(reason)) as caught:
        for _ in range(2):
            assert cache.get(b"key") is None
            with cache.compiling(b"key"):
                cache.put(b"key", b"other", "program")
    assert len(caught) == 1, [str(each.message) for each in caught]
    assert cache.statistics()["writes"] == 0


@pytest.mark.parametrize("tier", ["disk", "shared"])
def test_a_directory_that_everyone_can_write_to(tmp_path, tier):
    root = tmp_path / "cache"
    cache_at(**{tier: root}).put(b"key", b"payload", "program")
    root.chmod(0o777)
    refused(cache_at(**{tier: root}), f"{root} can be written by other users (mode 777)")
    root.chmod(0o1777)  # the sticky bit protects the files there, not against new ones
    refused(cache_at(**{tier: root}), f"{root} can be written by other users")


@pytest.mark.parametrize("tier", ["disk", "shared"])
def test_a_directory_of_another_user(tmp_path, tier, give_away):
    root = tmp_path / "cache"
    cache_at(**{tier: root}).put(b"key", b"payload", "program")
    give_away(root)
    refused(cache_at(**{tier: root}), f"{root} belongs to ")


def test_a_directory_that_anyone_could_put_another_in_the_place_of(tmp_path):
    root = tmp_path / "cache"
    cache_at(root).put(b"key", b"payload", "program")
    tmp_path.chmod(0o777)
    refused(cache_at(root), f"{tmp_path}, which holds it, can be written by every user")
    tmp_path.chmod(0o1777)  # as /tmp is
    assert cache_at(root).get(b"key") is not None


def test_a_directory_is_judged_by_where_it_is_not_by_a_link_to_it(tmp_path):
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    root.chmod(0o777)
    link = tmp_path / "link"
    link.symlink_to(root)
    refused(cache_at(link), f"{root} can be written by other users")


def test_an_entry_of_another_user(tmp_path, give_away):
    cache = cache_at(shared=tmp_path)
    cache.put(b"key", b"payload", "program")
    give_away(only_file(tmp_path))
    with pytest.warns(UserWarning, match="belongs to"):
        assert cache.get(b"key") is None


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_that_others_can_write_to(tmp_path, mode):
    cache = cache_at(tmp_path)
    cache.put(b"key", b"payload", "program")
    only_file(tmp_path).chmod(mode)
    with pytest.warns(UserWarning, match="can be written by other users"):
        assert cache.get(b"key") is None


def test_a_group_may_share_a_directory_since_each_entry_has_its_owner_checked(tmp_path):
    tmp_path.chmod(0o770)
    cache = cache_at(shared=tmp_path)
    cache.put(b"key", b"payload", "program")
    assert cache.get(b"key") == (b"payload", "shared")
