"""What torch.compile(options={...}) may say to the tpu backend."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

log = logging.getLogger(__name__)

Flag = tuple[str, bool | int | float | str]
Buckets = str | tuple[int, ...]

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
PRECISIONS = ("highest", "high", "medium")
POWERS_OF_TWO, EXACT = "powers_of_two", "exact"


def _option(default: Any, parse: Callable[[Any], Any], **settings: Any) -> Any:
    return dataclasses.field(default=default, metadata={"parse": parse}, **settings)


def _of(kind: type, expected: str) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(expected)
        return value

    return parse


def _positive(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("a whole number from 1 on")
    return value


def _precision(value: Any) -> str:
    if value not in PRECISIONS:
        raise ValueError(f"one of {', '.join(PRECISIONS)}")
    return value


def _buckets(value: Any) -> Buckets:
    if value in (POWERS_OF_TWO, EXACT):
        return value
    try:
        return tuple(sorted({_positive(size) for size in value}))
    except (TypeError, ValueError):
        raise ValueError(f"{POWERS_OF_TWO!r}, {EXACT!r} or a list of sizes") from None


def _limits(value: Any) -> tuple[int, int]:
    try:
        low, high = map(_positive, value)
    except (TypeError, ValueError):
        low, high = 1, 0
    if low > high:
        raise ValueError("a pair of sizes, the smallest bucket and the largest")
    return low, high


def _function(value: Any) -> Callable[[str], Any]:
    if not callable(value):
        raise ValueError("a function of the StableHLO text")
    return value


_WORDS = {"true": True, "false": False}


def _flag_value(value: Any) -> bool | int | float | str:
    """XLA wants the type that a flag has; text says it as XLA_FLAGS would."""
    if isinstance(value, (bool, int, float)):
        return value
    if not isinstance(value, str):
        raise ValueError("a bool, a number or a text for each flag")
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(value)
    return value


def _flags(value: Any) -> tuple[Flag, ...]:
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, Mapping):
        try:
            value = dict(each.split("=", 1) for each in value)
        except (TypeError, ValueError, AttributeError):
            raise ValueError('a dict, or a list of "name=value"') from None
    return tuple(sorted((name.lstrip("-"), _flag_value(each)) for name, each in value.items()))


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of one torch.compile call.

    ``xla_flags`` go to the plugin's compiler, for these graphs alone. ``matmul_precision`` is
    torch's setting where it is None. Without ``donate`` no input's memory is reused. An open size
    is rounded up to one of ``buckets`` within ``limits``; ``bucket_size`` and
    ``num_dynamic_buckets`` say the same as a step and how often. ``dump_dir`` takes each program's
    texts, ``debug_callback`` its StableHLO. What is not ``serializable`` stays out of the caches.
    ``custom_module_name`` is what logs and errors call the graph.
    """

    xla_flags: tuple[Flag, ...] = _option((), _flags)
    matmul_precision: str | None = _option(None, _precision)
    donate: bool = _option(True, _of(bool, "True or False"))
    buckets: Buckets = _option(POWERS_OF_TWO, _buckets)
    bucket_size: int | None = _option(None, _positive)
    num_dynamic_buckets: int | None = _option(None, _positive)
    limits: tuple[int, int] | None = _option(None, _limits)
    dump_dir: str | None = _option(None, _of(str, "a directory"))
    serializable: bool = _option(True, _of(bool, "True or False"))
    custom_module_name: str | None = _option(None, _of(str, "a text"))
    async_compile: bool = _option(False, _of(bool, "True or False"))
    debug_callback: Callable[[str], Any] | None = _option(None, _function, compare=False)

    @classmethod
    def parse(cls, options: Mapping[str, Any] | None, mode: str | None = None) -> Options:
        """Options as torch.compile has them, over those of custom_compiler_options.

        A name that begins with "xla" is a flag of XLA's.
        """
        if mode is not None and mode not in MODES:
            raise ValueError(f"torch_tpu: mode {mode!r} is not one of {', '.join(MODES)}")
        if mode not in (None, "default"):
            _note(f'mode="{mode}" changes nothing on tpu: programs are optimised in full')
        chosen = _around.get() or cls()
        for name, value in (options or {}).items():
            chosen = chosen._with(name, value)
        if chosen.async_compile:
            _note("async_compile changes nothing: a graph waits for its program")
        return chosen

    def _with(self, name: str, value: Any) -> Options:
        if is_flag(name):
            flags = {**dict(self.xla_flags), name: value}
            return dataclasses.replace(self, xla_flags=_parsed("xla_flags", flags))
        if name not in FIELDS:
            raise ValueError(
                f"torch_tpu: unknown option {name!r} for torch.compile; known are "
                f"{', '.join(FIELDS)}, and XLA's flags by their names (xla_...)"
            )
        if value is None:
            return dataclasses.replace(self, **{name: FIELDS[name].default})
        return dataclasses.replace(self, **{name: _parsed(name, value)})

    def key(self) -> tuple[Any, ...]:
        """What programs depend on, besides what a GraphSource says for itself."""
        return self.xla_flags

    @property
    def is_cached(self) -> bool:
        """Whether programs go through the cache: only compiling makes texts to look at."""
        return self.serializable and self.dump_dir is None and self.debug_callback is None

    def bucket(self, size: int) -> int:
        """The size that an open size is rounded up to; itself beyond the limits."""
        low, high = self.limits or (1, sys.maxsize)
        return size if size > high else min(self._rounded(max(size, low)), high)

    def _rounded(self, size: int) -> int:
        if self.bucket_size is not None:
            last = self.bucket_size * (self.num_dynamic_buckets or 1)
            step = last if size > last and self.num_dynamic_buckets else self.bucket_size
            return -(-size // step) * step
        if self.buckets == EXACT:
            return size
        if self.buckets == POWERS_OF_TWO:
            return 1 << (size - 1).bit_length()
        fitting = (bucket for bucket in self.buckets if bucket >= size)
        last = self.buckets[-1]
        return next(fitting, -(-size // last) * last)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "debug_callback": None}  # functions seldom pickle


FIELDS = {field.name: field for field in dataclasses.fields(Options)}


def is_flag(name: str) -> bool:
    """Whether an option is one of XLA's flags by its own name."""
    return name.lstrip("-").startswith("xla") and name not in FIELDS


def is_known(name: str) -> bool:
    """Whether an option is the tpu backend's."""
    return name in FIELDS or is_flag(name)


def _parsed(name: str, value: Any) -> Any:
    try:
        return FIELDS[name].metadata["parse"](value)
    except ValueError as error:
        raise ValueError(
            f"torch_tpu: option {name}={value!r} is not understood: expected {error}"
        ) from None


@functools.cache
def _note(text: str) -> None:
    """Said once."""
    log.info(text)


_around = contextvars.ContextVar[Options | None]("around", default=None)
_compiling = contextvars.ContextVar[Options | None]("compiling", default=None)


@contextlib.contextmanager
def custom_compiler_options(options: Mapping[str, Any]) -> Iterator[None]:
    """Options for the graphs that are captured inside; those of torch.compile win."""
    token = _around.set(Options.parse(options))
    try:
        yield
    finally:
        _around.reset(token)


@contextlib.contextmanager
def compiling(options: Options) -> Iterator[None]:
    """What is loaded from a cache inside takes these options in place of its own."""
    token = _compiling.set(options)
    try:
        yield
    finally:
        _compiling.reset(token)


def current() -> Options | None:
    """The options of the torch.compile call that is at work."""
    return _compiling.get()
