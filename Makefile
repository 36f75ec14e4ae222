PYTHON ?= python3
BIN := .venv/bin
EXTRAS := parity,xdist,dev
# the oldest that pyproject.toml allows: tests change from one ruff to the other
OLDEST_RUFF := 0.12.0

.PHONY: gate test tests test-core lint patchgen check-patchgen models screenshot sweep toys mutation bench clean

gate: .venv/installed  ## the main job: the gate over examples/zoo
	$(BIN)/python -m pytest -p pytest_patchgen -v examples/zoo

test: .venv/installed  ## everything that must pass: the tests with the gate over examples/zoo, and beside them the lint
	$(MAKE) --no-print-directory -j2 tests lint

tests: .venv/installed
	$(BIN)/python -m pytest -p pytest_patchgen -n auto --dist worksteal

test-core: EXTRAS := xdist,dev
test-core: .venv/installed  ## what needs neither torch nor transformers
	$(BIN)/python -m pytest -n auto tests/core tests/contracts tests/plugin

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

patchgen: .venv/installed  ## regenerate every config of the zoo
	$(BIN)/patchgen --all --diff

check-patchgen: .venv/installed
	$(BIN)/patchgen --check -v

models: .venv/installed  ## docs/models.md, from a run of the gate over the zoo
	$(BIN)/python -m tests.e2e.models_page

screenshot: .venv/installed  ## the picture of the README
	$(BIN)/python -m tests.e2e.screenshot

sweep: .venv/installed  ## all models of transformers: the generator, the contract rules, toy configs, parity
	$(BIN)/python -m tests.e2e.sweep
	$(BIN)/python -m tests.e2e.toys
	$(BIN)/python -m tests.e2e.parity_sweep

toys: .venv/installed  ## a toy config for every model type of transformers, forward and backward
	$(BIN)/python -m tests.e2e.toys

mutation: .venv/installed  ## defects in the zoo's patches: how many of them the gate finds
	$(BIN)/python benchmarks/mutation.py

bench: .venv/installed  ## what everything costs; the last of them fails when a goal is missed
	$(BIN)/python benchmarks/plugin.py
	$(BIN)/python benchmarks/contracts.py
	$(BIN)/python benchmarks/slots.py
	$(BIN)/python benchmarks/parity.py
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/watch.py
	$(BIN)/python benchmarks/check.py

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target .venv/other-ruff ruff==$(OLDEST_RUFF)
	touch $@

clean:
	rm -rf .venv build *.egg-info
