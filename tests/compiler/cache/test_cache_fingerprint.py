"""What tells programs of one key apart, and where the environment puts them."""

import os
import sys
import time
from pathlib import Path

import pytest

from torch_tpu import environment
from torch_tpu.compiler import cache
from torch_tpu.compiler.cache import fingerprint, locations

ROOT = Path(__file__).parents[3]


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "plugin.so"
    path.write_bytes(bytes(5_000_000))
    return path


def name(plugin, platform="tpu", version="1", kind="TPU v5e", **more):
    return cache.namespace(platform, version, kind, plugin, **more).name


def test_a_namespace_is_the_same_each_time(plugin):
    assert name(plugin) == name(plugin)
    assert name(plugin).startswith("tpu-")


def test_each_difference_is_another_namespace(plugin, monkeypatch):
    names = [
        name(plugin),
        name(plugin, platform="cpu"),
        name(plugin, version="2"),
        name(plugin, kind="TPU v5p"),
        name(None),
        name(plugin, topology="4x4"),
    ]
    for variable in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"):
        with monkeypatch.context() as patch:
            patch.setenv(variable, "--other")
            names.append(name(plugin))
    version = fingerprint._version
    for package in ("torch_tpu", "torch", "jax", "jaxlib"):
        with monkeypatch.context() as patch:
            newer = {package: "9"}
            patch.setattr(
                fingerprint, "_version", lambda each, n=newer: n.get(each) or version(each)
            )
            names.append(name(plugin))
    with monkeypatch.context() as patch:
        patch.setattr(fingerprint, "lowering_version", lambda: "other")
        names.append(name(plugin))
    assert len(set(names)) == len(names)


def test_native_code_is_kept_to_its_kind_of_processor(plugin, monkeypatch, tmp_path):
    names = set()
    for features in ("fpu sse4_2", "fpu sse4_2 avx2"):
        description = tmp_path / features.replace(" ", "-")
        description.write_text(f"processor\t: 0\nflags\t\t: {features}\n")
        processor = fingerprint.processor(description)
        monkeypatch.setattr(fingerprint, "processor", lambda processor=processor: processor)
        names.add(name(plugin, platform="cpu"))
        assert name(plugin) == name(plugin)
        monkeypatch.undo()
    assert len(names) == 2
    assert fingerprint.processor(tmp_path / "missing")


def test_another_build_of_a_plugin_is_another_plugin(plugin):
    before = fingerprint.plugin_build(plugin)
    os.utime(plugin, (0, 0))  # hosts that share a cache installed theirs at different times
    assert fingerprint.plugin_build(plugin) == before
    for content in (bytes(5_000_001), b"\1" + bytes(4_999_999), bytes(4_999_999) + b"\1"):
        plugin.write_bytes(content)
        assert fingerprint.plugin_build(plugin) != before


def test_a_rebuild_of_a_plugin_named_by_hand_is_another_plugin(plugin, monkeypatch):
    monkeypatch.setenv("TORCH_TPU_PJRT_PLUGIN", str(plugin))
    before = fingerprint.plugin_build(plugin)
    os.utime(plugin, (0, 0))
    assert fingerprint.plugin_build(plugin) != before


def test_a_change_in_a_lowering_is_another_version(tmp_path):
    lowering, compiler = tmp_path / "lowering", tmp_path / "compiler"
    for folder in (lowering, compiler / "cache"):
        folder.mkdir(parents=True)
    (lowering / "softmax.py").write_text("one")

    def digest():
        return fingerprint.digest_of_sources(lowering, compiler)

    seen = [digest()]
    (lowering / "softmax.py").write_text("two")
    seen.append(digest())
    (lowering / "softmax.py").rename(lowering / "softmin.py")
    seen.append(digest())
    (compiler / "lower.py").write_text("")
    seen.append(digest())
    assert len(set(seen)) == 4
    (compiler / "cache" / "entry.py").write_text("moves bytes only")
    (compiler / "notes.txt").write_text("no source")
    assert digest() == seen[-1]


def test_the_sources_are_digested_in_milliseconds():
    times = []
    for _ in range(5):
        start = time.perf_counter()
        fingerprint.lowering_version.__wrapped__()
        times.append(time.perf_counter() - start)
    assert min(times) < 0.03  # 3 ms on an idle machine


def test_the_cache_needs_no_jax(run_python):
    # torch_tpu.compiler itself may import JAX; the cache below it must not.
    printed = run_python(
        "import sys, types, torch_tpu\n"
        "compiler = types.ModuleType('torch_tpu.compiler')\n"
        "compiler.__path__ = [torch_tpu.__path__[0] + '/compiler']\n"
        "sys.modules['torch_tpu.compiler'] = compiler\n"
        "from torch_tpu.compiler import cache\n"
        "cache.namespace('cpu', '1', 'cpu')\n"
        "import torch_tpu.compiler.cache.command\n"
        "print([name for name in ('jax', 'jaxlib') if name in sys.modules])"
    )
    assert printed == "[]"


@pytest.fixture
def unset(monkeypatch):
    for variable in [*environment.VARIABLES, "XDG_CACHE_HOME"]:
        if "CACHE" in variable:
            monkeypatch.delenv(variable, raising=False)
    return monkeypatch


def places(made):
    return {tier.name: tier.directory.root for tier in made.tiers}


def test_the_cache_is_on_by_default_in_the_users_cache_directory(unset, tmp_path):
    unset.setenv("HOME", str(tmp_path))
    unset.setattr(sys, "platform", "linux")
    made = locations.from_environment()
    assert made.mode == "rw" and made.tiers[0].limit == 10_000_000_000
    assert places(made) == {"disk": tmp_path / ".cache/torch_tpu"}
    unset.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert places(locations.from_environment()) == {"disk": tmp_path / "xdg/torch_tpu"}
    unset.setattr(sys, "platform", "darwin")
    expected = tmp_path / "Library/Caches/torch_tpu"
    assert places(locations.from_environment()) == {"disk": expected}


def test_variables_name_the_directories(unset, tmp_path):
    unset.setenv("HOME", str(tmp_path))
    unset.setenv("TORCH_TPU_CACHE_DIR", "~/programs")
    unset.setenv("TORCH_TPU_CACHE_SIZE", "5GB")
    unset.setenv("XLA_PERSISTENT_CACHE_PATH", "/mnt/xla")
    made = locations.from_environment()
    assert places(made) == {"disk": tmp_path / "programs", "shared": Path("/mnt/xla")}
    assert [tier.limit for tier in made.tiers] == [5_000_000_000, None]
    unset.setenv("TORCH_TPU_SHARED_CACHE_DIR", "/mnt/shared")
    assert places(locations.from_environment())["shared"] == Path("/mnt/shared")
    unset.setenv("TORCH_TPU_CACHE_DIR", "/mnt/shared")
    assert places(locations.from_environment()) == {"shared": Path("/mnt/shared")}
    unset.setenv("TORCH_TPU_CACHE", "ro")
    assert not any(tier.writable for tier in locations.from_environment().tiers)
    unset.setenv("TORCH_TPU_CACHE", "off")
    assert places(locations.from_environment()) == {}


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("TORCH_TPU_CACHE", "maybe", "one of rw, ro, off, require"),
        ("TORCH_TPU_CACHE_SIZE", "5 bananas", "a size, such as 5GB"),
        ("TORCH_TPU_SHARED_CACHE_DIR", "gs://bucket/cache", "mount an object store's bucket"),
    ],
)
def test_values_that_are_not_understood_are_errors(unset, variable, text, expected):
    unset.setenv(variable, text)
    with pytest.raises(ValueError, match=f"{variable}='{text}' is not understood.*{expected}"):
        locations.from_environment()


def test_a_user_without_a_home_is_one_warning(unset):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    unset.setattr(Path, "home", fail)
    with pytest.warns(UserWarning, match="Could not determine home directory.*TORCH_TPU_CACHE_DIR"):
        made = locations.from_environment()
    assert places(made) == {}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("5GB", 5 * 10**9),
        ("500MB", 5 * 10**8),
        ("1.5 kb", 1500),
        ("2GiB", 2 << 30),
        ("3t", 3 * 10**12),
        ("123", 123),
        ("123B", 123),
        ("0", 0),
    ],
)
def test_sizes(text, size):
    assert environment.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "5XB", "5iB", "1e9", "5 GB GB"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="is not a size"):
        environment.parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1234, "1.23 kB"), (10**10, "10 GB"), (10**12, "1 TB")],
)
def test_sizes_as_people_write_them(size, text):
    assert environment.format_size(size) == text
