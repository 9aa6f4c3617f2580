# Every command a contributor or the CI runs. Stamps make each step run once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/.stamps

export TORCH_DEVICE_BACKEND_AUTOLOAD ?= 1
export MAX_JOBS ?= 2

SOURCES := $(shell find csrc -name '*.cpp' -o -name '*.h')
CPP     := $(SOURCES) $(shell find tests/cpp -name '*.cpp')

.PHONY: setup build demo test conformance conformance-tpu mutations bench soak cpp-test lint format typecheck docs clean

setup: build

$(STAMPS)/torch:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS)
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 $(BIN)/python -m pip install --quiet 'torch==2.13.0' numpy ninja 'setuptools>=77' wheel
	@TORCH_DEVICE_BACKEND_AUTOLOAD=0 $(BIN)/python -c "import torch; assert torch.version.cuda is None, \
	  'this is a CUDA build of torch: use an index that serves the CPU one (https://download.pytorch.org/whl/cpu)'"
	touch $@

$(STAMPS)/package: $(STAMPS)/torch pyproject.toml setup.py
	$(BIN)/python -m pip install --quiet --no-build-isolation -e '.[cpu,demo,dev]'
	touch $@

$(STAMPS)/extension: $(STAMPS)/package $(SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace
	touch $@

build: $(STAMPS)/extension

demo: build
	$(BIN)/python examples/digits.py
	$(BIN)/python examples/digits.py --compile
	$(BIN)/python examples/char_gpt.py

test: build
	$(BIN)/python -m pytest -q -n $(MAX_JOBS) --dist loadfile --no-loadscope-reorder -m 'not slow' tests $(ARGS)

# PyTorch's own databases, every result in docs/conformance.json; ARGS='--names add' runs some.
conformance: build
	$(if $(ARGS),,rm -f docs/conformance.json)
	$(BIN)/python tests/conformance/run.py --json docs/conformance.json --page docs/conformance.md $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m pytest -q -m slow tests)

# Compiles a program of every rule for TPUs; none needs to be there.
conformance-tpu: build
	$(BIN)/python -m pip install --quiet -e '.[tpu]' --no-build-isolation
	$(if $(ARGS),,rm -f docs/conformance-tpu.json)
	$(BIN)/python tests/conformance/tpu_run.py --json docs/conformance-tpu.json \
	  --page docs/conformance-tpu.md $(ARGS)

# Breaks lowerings on purpose: the tests have to notice each.
mutations: build
	$(BIN)/python tests/mutation/mutations.py --page docs/mutations.md $(ARGS)

bench: build
	$(BIN)/python benchmarks/run_all.py $(ARGS)

# Ten thousand training steps that must hold memory flat.
soak: build
	$(BIN)/python tests/soak/digits_10000.py $(ARGS)

# The PJRT layer knows nothing of torch, so its tests build in seconds and run without Python.
# jaxlib carries XLA's FFI header, which they register handlers with.
CXX_TEST := $(CXX) -std=c++20 -O1 -g -Wall -Wextra -isystem $(VENV)/lib/python3*/site-packages/jaxlib/include
cpp-test: $(STAMPS)/package
	mkdir -p build
	$(CXX_TEST) -shared -fPIC tests/cpp/pjrt/fake_plugin.cpp -o $(CURDIR)/build/fake_plugin.so
	$(CXX_TEST) tests/cpp/pjrt/plugin_test.cpp csrc/pjrt/*.cpp -ldl -pthread -o build/plugin_test
	TF_CPP_MIN_LOG_LEVEL=3 build/plugin_test "$$($(BIN)/python -m torch_tpu.runtime)" $(CURDIR)/build/fake_plugin.so

lint: $(STAMPS)/package
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/python -m mypy
	$(BIN)/python -m torch_tpu.environment --check docs/environment.md

format: $(STAMPS)/package
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

docs: $(STAMPS)/package
	$(BIN)/python -m torch_tpu.environment docs/environment.md

clean:
	rm -rf build torch_tpu/_C*.so $(STAMPS)
