"""The bytes of an entry: what goes in comes out, and nothing else is taken for an entry."""

import io
import random

import pytest

from torch_tpu.compiler.cache import entry as entries
from torch_tpu.compiler.cache.entry import Damaged, Entry, Header

IDENTITY = entries.identify("cpu-1", b"key")
HEADER = Header("aten::add.Tensor", 1, {"torch": "2.13.0"})
ENTRY = Entry(IDENTITY, HEADER, b"payload" * 10)
CONTENT = b"".join(entries.pieces(ENTRY))


def read(content, identity=IDENTITY):
    return entries.read(io.BytesIO(content), len(content), identity)


def test_what_is_written_is_read():
    assert read(CONTENT) == ENTRY
    assert read(CONTENT, identity=None) == ENTRY
    assert entries.read_header(io.BytesIO(CONTENT), len(CONTENT)) == HEADER
    empty = Entry(IDENTITY, HEADER, b"")
    assert read(b"".join(entries.pieces(empty))) == empty


def test_the_identity_tells_namespaces_and_keys_apart():
    pairs = [("cpu-1", b"key"), ("cpu-2", b"key"), ("cpu-1", b"key2"), ("cpu-1", b"\0key")]
    assert len({entries.identify(*pair) for pair in pairs}) == len(pairs)


def test_an_entry_cut_anywhere_is_truncated():
    for length in range(len(CONTENT)):
        with pytest.raises(Damaged, match="is truncated"):
            read(CONTENT[:length])


def test_a_flipped_bit_anywhere_is_noticed():
    for position in range(len(CONTENT)):
        flipped = bytearray(CONTENT)
        flipped[position] ^= 1 << random.randrange(8)
        with pytest.raises(Damaged):
            read(bytes(flipped))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is truncated"),
        (b"#!/bin/sh\necho foreign", "is not a cache entry"),
        (bytes(1000), "is not a cache entry"),
        (CONTENT + b"more", "should have"),
        (CONTENT[:-1] + b"?", "does not match its checksum"),
        (CONTENT[:11] + b"\x63" + CONTENT[12:], "has format 99; .* reads format 1"),
    ],
)
def test_the_reason_is_said(content, reason):
    with pytest.raises(Damaged, match=reason):
        read(content)


def test_another_programs_entry_does_not_do():
    with pytest.raises(Damaged, match="is the entry of another program"):
        read(CONTENT, identity=entries.identify("cpu-1", b"other"))
