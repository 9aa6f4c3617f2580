"""One entry as bytes: what a file must hold before its payload may be loaded.

    8 bytes   magic
    4 bytes   format version
   32 bytes   SHA-256 of everything that follows
   32 bytes   identity: SHA-256 of the namespace and the key
    4 bytes   length of the header
    8 bytes   length of the payload
              header, JSON: label, creation time, the namespace's facts
              payload

Numbers are big-endian. The first two fields never change, so that any version can tell another
version's entry from a foreign file.
"""

import hashlib
import json
import struct
from dataclasses import asdict, dataclass
from typing import BinaryIO

MAGIC = b"\x93TPUPROG"
FORMAT = 1

_START = struct.Struct(">8sI32s")
_LENGTHS = struct.Struct(">32sIQ")
_LARGEST_HEADER = 1 << 20


class Damaged(Exception):
    """A file that is not the entry it should be; the message completes "the file ..."."""


@dataclass(frozen=True)
class Header:
    """What people want to know of an entry.

    ``label`` names the program, ``created`` is in whole seconds since 1970, ``facts`` are what the
    namespace is made of.
    """

    label: str
    created: int
    facts: dict[str, str]


@dataclass(frozen=True)
class Entry:
    identity: bytes
    header: Header
    payload: bytes


def identify(namespace: str, key: bytes) -> bytes:
    """The 32 bytes that stand for a key within a namespace."""
    return hashlib.sha256(namespace.encode() + b"\0" + key).digest()


def pieces(entry: Entry) -> list[bytes]:
    """The file's content, in order; the payload is not copied."""
    header = json.dumps(asdict(entry.header)).encode()
    lengths = _LENGTHS.pack(entry.identity, len(header), len(entry.payload))
    checksum = hashlib.sha256()
    for piece in (lengths, header, entry.payload):
        checksum.update(piece)
    return [_START.pack(MAGIC, FORMAT, checksum.digest()), lengths, header, entry.payload]


def read(file: BinaryIO, size: int, identity: bytes | None = None) -> Entry:
    """The entry in a file of ``size`` bytes. Damaged says what is wrong with it.

    ``identity``: the only one that will do; None accepts any.
    """
    expected, lengths, header_length, payload_length = _read_start(file, size)
    checksum = hashlib.sha256(lengths)
    header = _read_exactly(file, header_length)
    checksum.update(header)
    payload = _read_exactly(file, payload_length)
    checksum.update(payload)
    if checksum.digest() != expected:
        raise Damaged("does not match its checksum")
    found = lengths[:32]
    if identity is not None and found != identity:
        raise Damaged("is the entry of another program")
    return Entry(found, _parse_header(header), payload)


def read_header(file: BinaryIO, size: int) -> Header:
    """The header alone, without a look at the payload or the checksum."""
    _, _, header_length, _ = _read_start(file, size)
    return _parse_header(_read_exactly(file, header_length))


def _read_start(file: BinaryIO, size: int) -> tuple[bytes, bytes, int, int]:
    start = file.read(_START.size)
    if not start.startswith(MAGIC):
        # A file that was cut within its first bytes is empty or a beginning of the magic.
        raise Damaged("is truncated" if MAGIC.startswith(start) else "is not a cache entry")
    if len(start) < _START.size:
        raise Damaged("is truncated")
    _, version, checksum = _START.unpack(start)
    if version != FORMAT:
        raise Damaged(f"has format {version}; this version of torch_tpu reads format {FORMAT}")
    lengths = _read_exactly(file, _LENGTHS.size)
    _, header_length, payload_length = _LENGTHS.unpack(lengths)
    promised = _START.size + _LENGTHS.size + header_length + payload_length
    if size < promised:
        raise Damaged(f"is truncated: it has {size:,} of {promised:,} bytes")
    if size > promised or header_length > _LARGEST_HEADER:
        raise Damaged(f"has {size:,} bytes, but should have {promised:,}")
    return checksum, lengths, header_length, payload_length


def _read_exactly(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise Damaged("is truncated")
    return data


def _parse_header(text: bytes) -> Header:
    try:
        return Header(**json.loads(text))
    except (ValueError, TypeError):
        raise Damaged("has a header that can't be read") from None
