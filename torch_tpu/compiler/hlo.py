"""The optimised program of an executable as text."""

from __future__ import annotations


def text(program: bytes) -> str:
    """HLO text of what a plugin gives, a module with or without its settings; "" for nothing."""
    from jaxlib import xla_client

    if not program:
        return ""
    return xla_client.XlaComputation(_module(program)).as_hlo_module().to_string()


def _module(program: bytes) -> bytes:
    """The module's own bytes: its first field is its name, which begins no line of its own."""
    length, start = _varint(program, 1)
    return program[start : start + length] if program[start : start + 1] == b"\n" else program


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number in the protocol buffers' encoding, and where the next thing begins."""
    number = shift = 0
    while data[place] & 0x80:
        number |= (data[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
    return number | data[place] << shift, place + 1
