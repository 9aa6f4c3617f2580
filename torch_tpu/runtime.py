"""Which PJRT plugin serves the device: found without importing the packages that carry them."""

import functools
import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from torch_tpu import environment, workers

GOOGLE_VENDOR = 0x1AE0
# PCI device numbers; Google's other devices (network cards, disks) share the vendor's.
TPU_CHIPS = {
    0x005E: "TPU v4",
    0x0062: "TPU v5p",
    0x0063: "TPU v5e",
    0x006F: "TPU v6e",
    0x0076: "TPU v7",
}
DEVICES_PER_CHIP = {"TPU v7": 2}

# Plugins write log lines to standard error unless told not to, libtpu pages of them.
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "1"}
TPU_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TPU_MIN_LOG_LEVEL": "3", "TPU_STDERR_LOG_LEVEL": "3"}

# Without chips libtpu asks the cloud's metadata server what they are, for minutes where there is
# none, and complains of what it was not told.
TPU_ABSENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


@dataclass(frozen=True)
class Plugin:
    """A package that carries a platform's plugin. ``modules``: the names it has had."""

    modules: tuple[str, ...]
    file: str
    extra: str

    def path(self) -> Path | None:
        for module in self.modules:
            for folder in _package_folders(module):
                path = Path(folder) / self.file
                if path.exists():
                    return path
        return None


PLUGINS = {
    "cpu": Plugin(("lammps_jax_pjrt_cpu",), "pjrt_c_api_cpu_plugin.so", "cpu"),
    "tpu": Plugin(("libtpu",), "libtpu.so", "tpu"),
    "cuda": Plugin(
        ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12"), "xla_cuda_plugin.so", "cuda"
    ),
}


def _package_folders(module: str) -> list[str]:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # the parent package is missing
        return []
    return list(spec.submodule_search_locations or ()) if spec else []


def detect_chips(root: Path = Path("/")) -> list[str]:
    """The names of the TPU chips that this process may open, by their PCI numbers.

    A chip on the bus without a device node belongs to someone else (a container that was not
    given it), and creating a client for it would hang.
    """
    if not has_tpu_nodes(root):
        return []
    chips = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if _hexadecimal(device / "vendor") == GOOGLE_VENDOR:
            name = TPU_CHIPS.get(_hexadecimal(device / "device"))
            chips += [name] if name else []
    # A sandbox may hide the bus and still pass the nodes of the older driver.
    return chips or ["TPU"] * len(_nodes(root / "dev", r"accel\d+"))


def has_tpu_nodes(root: Path = Path("/")) -> bool:
    """Whether a driver offers device nodes through which a TPU could be opened."""
    return bool(_nodes(root / "dev", r"accel\d+") or _nodes(root / "dev/vfio", r"\d+"))


def _nodes(folder: Path, pattern: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [name for name in names if re.fullmatch(pattern, name)]


def _hexadecimal(file: Path) -> int:
    try:
        return int(file.read_text(), 16)
    except (OSError, ValueError):
        return -1


def platform() -> str:
    """The platform that serves the device: ``cpu``, ``tpu`` or ``cuda``."""
    chosen: str = environment.read("TORCH_TPU_PLATFORM")
    if chosen != "auto":
        return chosen
    override = environment.read("TORCH_TPU_PJRT_PLUGIN")
    if override is not None:
        return _platform_of_file(Path(override).name)
    if detect_chips():
        return "tpu"
    if _nodes(Path("/dev"), r"nvidia\d+") and PLUGINS["cuda"].path():
        return "cuda"
    return "cpu"


def _platform_of_file(name: str) -> str:
    words = {"tpu": "libtpu", "cuda": "cuda"}
    return next((platform for platform, word in words.items() if word in name), "cpu")


def plugin_path() -> Path:
    """The plugin's file. RuntimeError says which extra installs a missing one."""
    override = environment.read("TORCH_TPU_PJRT_PLUGIN")
    if override is not None:
        if not Path(override).is_file():
            raise RuntimeError(f"TORCH_TPU_PJRT_PLUGIN={override!r}: there is no such file")
        return Path(override)
    name = platform()
    path = PLUGINS[name].path()
    if path is None:
        raise RuntimeError(
            f"No PJRT plugin for the platform {name!r} is installed: "
            f"pip install 'torch_tpu[{PLUGINS[name].extra}]', or name a plugin's file in "
            "TORCH_TPU_PJRT_PLUGIN" + _other_platform_hint(name)
        )
    return path


def _other_platform_hint(name: str) -> str:
    others = [other for other in PLUGINS if other != name and PLUGINS[other].path()]
    return f", or set TORCH_TPU_PLATFORM={others[0]}" if others else ""


def expected_device_count() -> int:
    """How many devices the plugin will offer, told without loading it; 0 where there is none."""
    plugin_path()
    return _COUNTS[platform()]()


def _tpu_device_count() -> int:
    return sum(DEVICES_PER_CHIP.get(chip, 1) for chip in detect_chips())


_COUNTS = {
    "cpu": lambda: environment.read("TORCH_TPU_CPU_DEVICES"),
    "tpu": _tpu_device_count,
    "cuda": lambda: len(_nodes(Path("/dev"), r"nvidia\d+")),
}


def create_options(name: str) -> dict[str, int]:
    """The PJRT client's create options; plugins refuse those they don't know."""
    if name == "cpu":
        return {"cpu_device_count": environment.read("TORCH_TPU_CPU_DEVICES")}
    return {}


def prepare_environment(name: str) -> None:
    """What a plugin must find in the environment before it is loaded. The user's values win."""
    defaults = dict(TPU_QUIET if name == "tpu" else QUIET)
    if name == "tpu" and not has_tpu_nodes():
        defaults |= TPU_ABSENT
    for variable, value in defaults.items():
        os.environ.setdefault(variable, value)


def resolve() -> tuple[str, dict[str, int]]:
    """The plugin's path and create options, for the client that is about to be made."""
    path, name = plugin_path(), platform()
    prepare_environment(name)
    if name == "tpu" and not has_tpu_nodes():
        raise RuntimeError(
            "No TPU is attached to this machine (no /dev/accel* and no /dev/vfio/*): set "
            "TORCH_TPU_PLATFORM=cpu to run on XLA's CPU plugin"
        )
    _load_programs_ahead()
    return str(path), create_options(name)


@functools.cache
def _load_programs_ahead() -> None:
    """What the script will need first loads as soon as there is a client."""

    def begin() -> None:
        from torch_tpu.compiler import store  # takes a while to import

        store.begin()

    workers.submit("load", begin)


if __name__ == "__main__":
    print(plugin_path(), file=sys.stdout)
