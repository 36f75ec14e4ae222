PYTHON ?= python3
BIN := .venv/bin
EXTRAS := parity,xdist,dev,lsp,service
# the oldest that pyproject.toml allows: tests change from one ruff to the other
OLDEST_RUFF := 0.12.0

# one more than there are processors: tests wait for the processes that they start
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# make gate varies all that the project asks for, on every mesh; here models of seven families take training steps alone:
# dense ones, two with experts, two with pictures. Two of them do so with fused kernels and on a mesh of several dimensions.
# What is part of something larger is left out: meshes of one dimension, slots with nothing but eager functions, and what
# configs for NPUs have in common with the ones for GPUs
MODELS := not sharded[fsdp2] and not sharded[sp2] and not sharded[ep2] and not parity[eager_through_slots] \
	and not (npu_patch and (sharded[ or parity[ or converter)) \
	and not ((sharded[ or parity[liger_kernel]) and not (llama or qwen3_vl_moe)) \
	and not ((parity[ or converter) and gpu_patch \
	and not (gpt_oss or llama or qwen2_vl or qwen3_gpu or qwen3_moe or qwen3_vl_moe or seed_oss))

# another apt-get, such as the one of a machine that has just started, is waited for
APT := apt-get -o DPkg::Lock::Timeout=300

# of which one is enough, with a chromedriver
BROWSERS := chromium chromium-browser google-chrome

# pip compiles nothing: what is imported is a fifth of what it installs, and its bytecode is kept then, whatever the
# environment says
export PYTHONDONTWRITEBYTECODE :=
# as in an activated environment, so that no test has to change it
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: gate test tests slow quick test-core packages browser neovim emacs vscode editor-pictures server releases forks walk replay docs lint patchgen check-patchgen models screenshot sweep toys mutation merges kills bench clean

gate: .venv/imported  ## the main job: the gate over examples/zoo
	$(BIN)/python -m pytest -p pytest_patchgen -v examples/zoo

test:  ## what every change must pass: the tests with the gate over examples/zoo, and beside them the lint
	$(MAKE) --no-print-directory -j4 tests lint

tests: .venv/imported packages releases
	$(BIN)/python -m pytest -p pytest_patchgen --patchgen-level=quick -n $(WORKERS) --dist worksteal -m "not slow" -k "$(MODELS)"

slow: .venv/imported packages neovim emacs releases forks .venv/ray-installed  ## the tests that take long, which make test leaves out
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "slow and not vscode"

quick: .venv/imported packages releases  ## the tests that take little
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

test-core: EXTRAS := xdist,dev,lsp,service
test-core: .venv/installed server  ## what takes little and needs neither torch nor transformers
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not torch and not browser and not slow"

packages:  ## what the tests need beside Python: one apt-get after the other, beside pip
	@$(MAKE) --no-print-directory browser
	@$(MAKE) --no-print-directory server

browser:  ## a browser for the tests of the HTML reports: Debian's chromium where there is none
	@there() { command -v chromedriver && for name in $(BROWSERS); do command -v $$name && return; done; }; \
	there > /dev/null && exit; \
	log=build/browser.log; mkdir -p build; \
	root=$$(test "$$(id -u)" = 0 || echo sudo); \
	install() { $$root env DEBIAN_FRONTEND=noninteractive $(APT) install --yes --no-install-recommends chromium chromium-driver; }; \
	{ install || { $$root $(APT) update && install; }; } > $$log 2>&1; \
	there > /dev/null && exit; \
	echo "the tests of the HTML reports need chromium and chromedriver, which apt-get did not install: see $$log" >&2; \
	exit 1

neovim:  ## Neovim and tmux for the slow tests of editors: Debian's where there are none
	@there() { command -v nvim && command -v tmux; }; \
	there > /dev/null && exit; \
	root=$$(test "$$(id -u)" = 0 || echo sudo); \
	install() { $$root env DEBIAN_FRONTEND=noninteractive $(APT) install --yes --no-install-recommends neovim tmux; }; \
	install > /dev/null 2>&1 || { $$root $(APT) update > /dev/null && install; }

emacs:  ## Emacs with eglot, and tmux, for the slow tests of editors: Debian's where there are none
	@there() { command -v tmux && emacs --batch --eval "(progn (package-initialize) (require 'eglot))"; }; \
	there > /dev/null 2>&1 && exit; \
	root=$$(test "$$(id -u)" = 0 || echo sudo); \
	install() { $$root env DEBIAN_FRONTEND=noninteractive $(APT) install --yes --no-install-recommends emacs-nox $$1 tmux; }; \
	old=$$(dpkg --compare-versions "$$(apt-cache show emacs-nox | sed -n 's/^Version: //p' | head -1)" lt 1:29 && echo elpa-eglot); \
	install $$old > /dev/null 2>&1 || { $$root $(APT) update > /dev/null && install $$old; }

vscode: .venv/installed browser  ## VS Code's own engine with the extension, driven over the zoo; installs it once, with npm
	$(BIN)/python -m tools.vscode_engine
	$(BIN)/python -m pytest -m vscode tests/editors

editor-pictures: .venv/installed browser  ## the pictures of docs/editors.md
	$(BIN)/python -m tools.editor_pictures

server:  ## PostgreSQL and bubblewrap for the tests of the service: Debian's where there are none
	@there() { command -v bwrap && { command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; }; }; \
	there > /dev/null 2>&1 && exit; \
	log=build/server.log; mkdir -p build; \
	root=$$(test "$$(id -u)" = 0 || echo sudo); \
	install() { $$root env DEBIAN_FRONTEND=noninteractive $(APT) install --yes --no-install-recommends postgresql bubblewrap; }; \
	{ install || { $$root $(APT) update && install; }; } > $$log 2>&1; \
	there > /dev/null 2>&1 && exit; \
	echo "the tests of the service need PostgreSQL and bubblewrap, which apt-get did not install: see $$log" >&2; \
	exit 1

releases: .venv/installed  ## the releases of transformers that the tests compare
	$(BIN)/python -m tools.releases

forks: .venv/installed  ## forked modeling files that projects have published, and what they are forks of
	$(BIN)/python -m tools.forks

walk: releases  ## an older zoo upgraded release by release: verdicts, merges, and the gate at the end
	$(BIN)/python -m tools.upgrade_walk

replay: releases  ## projects carried over release by release, and what came of each patch; hours
	$(BIN)/python -m benchmarks.replay

lint: .venv/installed .venv/configs-typed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

patchgen: .venv/installed  ## regenerate every config of the zoo
	$(BIN)/patchgen --all --diff

check-patchgen: .venv/installed
	$(BIN)/patchgen --check -v

docs: .venv/docs/installed  ## the pages of docs/ as a site in build/docs; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --quiet --strict
	@echo "open build/docs/index.html, or run '.venv/docs/bin/mkdocs serve'"

models: .venv/installed  ## docs/models.md, from a run of the gate over the zoo
	$(BIN)/python -m tools.models_page

screenshot: .venv/installed browser  ## the pictures of the README
	$(BIN)/python -m tools.screenshot

api-test: .venv/installed server  ## Schemathesis against the service, on SQLite and PostgreSQL: no call may end in a 500
	test -d .venv/api-tester || $(BIN)/python -m pip install --quiet --target .venv/api-tester schemathesis
	$(BIN)/python -m tools.api_test

webhook-load: .venv/installed  ## 200 webhooks a second for a minute: all accepted, each handled once
	$(BIN)/python -m tools.webhook_load

sweep: .venv/installed  ## all models of transformers: the generator, the contract rules, toy configs, parity
	$(BIN)/python -m tools.sweep
	$(BIN)/python -m tools.toys
	$(BIN)/python -m tools.parity_sweep

toys: .venv/installed  ## a toy config for every model type of transformers, forward and backward
	$(BIN)/python -m tools.toys

mutation: .venv/installed  ## defects in the zoo's patches: how many of them the gate finds
	$(BIN)/python -m tools.mutation.gate
	$(BIN)/python -m tools.mutation.defects

merges: releases  ## the patches of a real project, carried over to a later release: how many merge
	$(BIN)/python -m tools.merges

kills: .venv/installed server  ## the service, its workers and PostgreSQL killed at 50 random moments: no run or result is lost
	$(BIN)/python -m tools.service_kills

bench: .venv/installed  ## what everything costs; those of what is kept and the last two fail when a goal is missed
	$(BIN)/python benchmarks/plugin.py
	$(BIN)/python benchmarks/contracts.py
	$(BIN)/python benchmarks/slots.py
	$(BIN)/python benchmarks/parity.py
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/kept.py
	$(BIN)/python benchmarks/watch.py
	-$(BIN)/python benchmarks/editor.py
	$(BIN)/python benchmarks/matrix.py
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/runs.py
	$(BIN)/python benchmarks/sharded.py
	$(BIN)/python benchmarks/check.py

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[$(EXTRAS)]"
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --upgrade --target .venv/other-ruff ruff==$(OLDEST_RUFF)
	touch $@

# what processes import is compiled by one of them
.venv/imported: .venv/installed
	$(BIN)/python -c "import torch._dynamo; import transformers.modeling_utils"
	touch $@

# pyright reads all of torch for it: once, until something that it reads of this repository changes
.venv/configs-typed: .venv/installed $(wildcard examples/zoo/*.py examples/zoo/*/*.py examples/zoo/*/generated/*.py patchgen_core/config/*.py)
	$(BIN)/basedpyright
	touch $@

.venv/ray-installed: .venv/installed
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[$(EXTRAS),ray]"
	touch $@

.venv/docs/installed: pyproject.toml constraints.txt
	test -x .venv/docs/bin/python || $(PYTHON) -m venv .venv/docs
	.venv/docs/bin/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv build *.egg-info
