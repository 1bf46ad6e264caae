PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := xgboost,app,torch,dask,test,lint
# Of the demo, which needs neither PyTorch nor Dask nor linters.
VENV_DEMO := .venv-demo
READY_DEMO := $(VENV_DEMO)/.ready
# The oldest versions have wheels for the oldest Python only.
PYTHON_MIN ?= python3.11
VENV_MIN := .venv-min
READY_MIN := $(VENV_MIN)/.ready
# The newest versions; without PyTorch, whose newest wheels contain CUDA (gigabytes).
VENV_NEWEST := .venv-newest

# Compiled files are kept, also where the environment forbids it: each process would compile 500 files again.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1

.PHONY: demo test test-min test-newest slow lint docs wheel dist ci clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@

$(READY_MIN): pyproject.toml
	test -x $(VENV_MIN)/bin/python || $(PYTHON_MIN) -m venv $(VENV_MIN)
	$(VENV_MIN)/bin/python -m pip install --quiet uv
	$(VENV_MIN)/bin/uv pip install --quiet --python $(VENV_MIN)/bin/python --resolution lowest-direct --editable ".[xgboost,app,dask,test]"
	touch $@

$(READY_DEMO): pyproject.toml constraints.txt
	test -x $(VENV_DEMO)/bin/python || $(PYTHON) -m venv $(VENV_DEMO)
	$(VENV_DEMO)/bin/python -m pip install --quiet --constraint constraints.txt --editable ".[xgboost,app]"
	touch $@

demo: $(READY_DEMO)  ## one page, in a minute: tailboost-demo/index.html
	OMP_NUM_THREADS=1 $(VENV_DEMO)/bin/python examples/demo.py tailboost-demo/index.html

test: $(READY)  ## the fast test suite
	$(PYTEST) $(BIN)/python -m pytest -n 2

test-min: $(READY_MIN)  ## the fast test suite with the oldest versions that pyproject.toml declares
	$(PYTEST) $(VENV_MIN)/bin/python -m pytest -n 2

test-newest:  ## the fast test suite with the newest versions of all libraries, which it prints
	test -x $(VENV_NEWEST)/bin/python || $(PYTHON) -m venv $(VENV_NEWEST)
	$(VENV_NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable ".[xgboost,app,dask,test]"
	$(VENV_NEWEST)/bin/python -m pip freeze --exclude-editable
	$(PYTEST) $(VENV_NEWEST)/bin/python -m pytest -n 2

slow: $(READY)  ## the slow tests
	$(PYTEST) $(BIN)/python -m pytest -n 2 -m slow

lint: $(READY)
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports --no-cache

docs: $(READY)  ## the documentation with its gallery, in docs/_build/html
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -E -W --keep-going -b html docs docs/_build/html

wheel: $(READY)  ## the wheel, tried without extras in an empty environment
	rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(BIN)/python .github/try_wheel.py build/wheel/*.whl --extras ""

dist:  ## wheel and source, checked as a package index would, and the wheel tried in empty environments
	rm -rf dist build
	$(PYTHON) -m venv build/env
	build/env/bin/python -m pip install --quiet build twine
	build/env/bin/python -m build --outdir dist
	build/env/bin/python -m twine check --strict dist/*
	build/env/bin/python .github/try_wheel.py dist/*.whl

ci: test lint docs wheel

clean:
	rm -rf $(VENV) $(VENV_MIN) $(VENV_NEWEST) $(VENV_DEMO) tailboost-demo build dist docs/_build docs/api docs/gallery
