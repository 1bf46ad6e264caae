PYTHON ?= python3
PYTHON_MIN ?= python3.11  # the oldest versions have wheels for the oldest Python only
BIN := .venv/bin
# Compiled files are kept, also where the environment forbids it: each process would compile all files again.
RUN := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1

.PHONY: demo test test-min test-newest slow benchmark lint docs wheel dist ci clean

.venv/.ready: EXTRAS := xgboost,app,torch,dask,test,lint
.venv-demo/.ready: EXTRAS := xgboost,app
.venv/.ready .venv-demo/.ready: pyproject.toml constraints.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@

demo: .venv-demo/.ready  ## one page, in a minute: tailboost-demo/index.html
	$(RUN) .venv-demo/bin/python examples/demo.py tailboost-demo/index.html

test: .venv/.ready  ## the fast test suite
	$(RUN) $(BIN)/python -m pytest -n 2

slow: .venv/.ready  ## the slow tests
	$(RUN) $(BIN)/python -m pytest -n 2 -m slow

benchmark: .venv/.ready  ## speed, quality, power, broken limits and validity beside other libraries, in ten minutes
	$(RUN) $(BIN)/python benchmarks/timing.py mixture fits --quick
	$(RUN) $(BIN)/python benchmarks/quality.py --splits 1
	$(RUN) $(BIN)/python benchmarks/power.py --draws 1
	$(RUN) $(BIN)/python benchmarks/limits.py --splits 5
	$(RUN) $(BIN)/python -m pytest tests/validity

test-min:  ## the fast test suite with the oldest versions that pyproject.toml declares
	test -x .venv-min/bin/python || $(PYTHON_MIN) -m venv .venv-min
	.venv-min/bin/python -m pip install --quiet uv
	.venv-min/bin/uv pip install --quiet --python .venv-min/bin/python --resolution lowest-direct --editable ".[xgboost,app,dask,test]"
	$(RUN) .venv-min/bin/python -m pytest -n 2

test-newest:  ## the fast test suite with the newest versions; without PyTorch, whose wheels contain CUDA (gigabytes)
	test -x .venv-newest/bin/python || $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable ".[xgboost,app,dask,test]"
	$(RUN) .venv-newest/bin/python -m pytest -n 2

lint: .venv/.ready
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports --no-cache

docs: .venv/.ready  ## the documentation with its gallery, in docs/_build/html
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	$(RUN) $(BIN)/python -m sphinx -E -W --keep-going -b html docs docs/_build/html

wheel: .venv/.ready  ## the wheel, tried without extras in an empty environment
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
	rm -rf .venv .venv-min .venv-newest .venv-demo tailboost-demo build dist docs/_build docs/api docs/gallery
