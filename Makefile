PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := xgboost,app,torch,test,lint

.PHONY: demo test slow lint ci clean

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@

demo: $(READY)  ## compare on the bundled credit data; writes tailboost-demo/report.html
	$(BIN)/tailboost demo

test: $(READY)  ## the fast test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

slow: $(READY)  ## the slow tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

ci: test lint

clean:
	rm -rf $(VENV) tailboost-demo
