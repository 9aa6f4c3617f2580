"""Builds torch_tpu._C; everything else about the package stands in pyproject.toml."""

import os
from pathlib import Path

# An installed but stale torch_tpu must not load (or fail to) while its extension is rebuilt.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

# TORCH_TPU_SANITIZE=address,undefined builds with those sanitizers; run the tests with the
# sanitizer's runtime in LD_PRELOAD (see CONTRIBUTING.md).
sanitizers = os.environ.get("TORCH_TPU_SANITIZE", "")
sanitize = [f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer", "-g"] if sanitizers else []

root = Path(__file__).parent.absolute()
sources = sorted(str(path.relative_to(root)) for path in root.glob("csrc/**/*.cpp"))


class Build(BuildExtension):
    """Keeps objects in one place, so that pip and `setup.py build_ext` compile each file once."""

    def finalize_options(self):
        super().finalize_options()
        self.build_temp = str(root / "build" / "objects")


extension = CppExtension(
    name="torch_tpu._C",
    sources=sources,
    include_dirs=[str(root / "csrc")],
    extra_compile_args=["-std=c++20", "-O2", "-fvisibility=hidden", "-g0", "-Wall", *sanitize],
    extra_link_args=["-ldl", *sanitize],
)

setup(ext_modules=[extension], cmdclass={"build_ext": Build})
