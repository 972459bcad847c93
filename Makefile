# The two commands to start with are `make demo` and `make test`; everything lives in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --constraint constraints.txt
export OMP_NUM_THREADS ?= 1

.PHONY: report-assets bench-report help demo test test-slow test-portable fuzz lint format docs bench bench-pooled bench-defaults bench-versions bench-streaming bench-first-use bench-search bench-discovery bench-linked bench-linked-paper bench-federated bench-nonlinear bench-multitask bench-calibration bench-leakage bench-masking bench-private bench-deployment bench-deployment-flare clean

help:  ## Show what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "polydag needs Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	@echo "Installing polydag into $(VENV) …"
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	@echo "Installing what the tests need …"
	@$(INSTALL) --editable '.[test]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@$(INSTALL) --editable '.[docs]'
	@touch $@

$(VENV)/.bench: $(VENV)/.core
	@$(INSTALL) --editable '.[bench]'
	@touch $@

demo: $(VENV)/.core  ## Install, then learn graphs from simulated data and compare them with the truth
	@$(BIN)/polydag demo --force

lint: $(VENV)/.test  ## ruff, mypy strict, and the order of imports between packages
	@$(BIN)/ruff check src tests benchmarks examples
	@$(BIN)/ruff format --check --quiet src tests benchmarks examples
	@$(BIN)/mypy
	@$(BIN)/lint-imports

test: lint  ## All tests but the slow ones
	@$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadgroup --durations=10

test-slow: $(VENV)/.test  ## Statistical checks over many seeds
	@$(BIN)/python -m pytest -m slow -n 2

fuzz: $(VENV)/.test  ## Damaged files, odd numbers and malformed messages, with new seeds for ten minutes
	@POLYDAG_FUZZ_SECONDS=$$(( 2700 / $$($(BIN)/python -m pytest tests/fuzz --collect-only -q | grep -c ::) )) \
		$(BIN)/python -m pytest tests/fuzz -n 2 -rP --durations=0

test-portable: $(VENV)/.test  ## The tests that rounding could change, as other processors would run them
	@$(BIN)/python tests/portable.py

format: $(VENV)/.test
	@$(BIN)/ruff check --fix --quiet src tests benchmarks examples
	@$(BIN)/ruff format --quiet src tests benchmarks examples

export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.docs  ## Build the documentation into site/
	@$(BIN)/mkdocs build --strict --quiet

bench: bench-pooled bench-streaming bench-first-use bench-search bench-discovery bench-linked bench-federated bench-nonlinear bench-multitask bench-calibration bench-leakage bench-masking bench-private bench-deployment bench-deployment-flare  ## All benchmarks

bench-pooled: $(VENV)/.bench  ## NOTEARS beside DAGMA
	@$(BIN)/python benchmarks/pooled.py

bench-defaults: $(VENV)/.bench  ## The defaults beside the best known settings and other packages
	@$(BIN)/python benchmarks/defaults.py
	@$(BIN)/python benchmarks/penalties.py
	@$(BIN)/python benchmarks/sites.py
	@$(BIN)/python benchmarks/dense.py

bench-versions: $(VENV)/.bench  ## This version beside an earlier checkout (EARLIER=folder)
	@$(BIN)/python benchmarks/versions.py $(EARLIER)

bench-streaming: $(VENV)/.bench  ## Statistics of ten million rows
	@$(BIN)/python benchmarks/streaming.py

bench-first-use: $(VENV)/.bench  ## CPU time of the first fit, when kernels are compiled
	@$(BIN)/python benchmarks/first_use.py

bench-search: $(VENV)/.bench  ## GES and PC
	@$(BIN)/python benchmarks/search.py
	@$(BIN)/python benchmarks/search_order.py

bench-multitask: $(VENV)/.bench  ## Transfer between tasks
	@$(BIN)/python benchmarks/multitask.py transfer
	@$(BIN)/python benchmarks/multitask.py speed
	@$(BIN)/python benchmarks/multitask.py joint
	@$(BIN)/python benchmarks/multitask.py study
	@$(BIN)/python benchmarks/multitask_forms.py

bench-calibration: $(VENV)/.bench  ## Whether probabilities are true as often as they say
	@$(BIN)/python benchmarks/calibration.py
	@$(BIN)/python benchmarks/context.py

bench-leakage: $(VENV)/.bench  ## What a coordinator can reconstruct of a site
	@$(INSTALL) --editable '.[privacy]'
	@$(BIN)/python benchmarks/leakage.py

bench-masking: $(VENV)/.bench  ## The cost of masked sums
	@$(BIN)/python benchmarks/masking.py

bench-deployment: $(VENV)/.bench  ## Sites that run apart, by files: bytes, and where the time goes
	@$(BIN)/python benchmarks/deployment.py --save

bench-deployment-flare: $(VENV)/.bench  ## NVIDIA FLARE as the transport: seconds a round, and memory
	@$(INSTALL) --editable '.[federation]'
	@$(BIN)/python benchmarks/deployment_flare.py

bench-private: $(VENV)/.bench  ## What differential privacy costs
	@$(BIN)/python benchmarks/private.py

bench-discovery: $(VENV)/.bench  ## Posteriors
	@$(BIN)/python benchmarks/discovery.py

bench-federated: $(VENV)/.bench  ## Parties: ADMM beside pooling and the paper
	@$(BIN)/python benchmarks/federated.py

bench-nonlinear: $(VENV)/.bench  ## Parties: networks and time series beside pooling
	@$(BIN)/python benchmarks/nonlinear.py

bench-linked: $(VENV)/.bench  ## Linked rows: speed, and the accuracy of row correlations
	@$(BIN)/python benchmarks/linked.py
	@$(BIN)/python benchmarks/linked_accuracy.py
	@$(BIN)/python benchmarks/linked_field.py
	@$(BIN)/python benchmarks/linked_field.py --grid
	@$(BIN)/python benchmarks/linked_tests.py
	@$(BIN)/python benchmarks/linked_network.py --seeds 4

bench-linked-labels: $(VENV)/.bench  ## Linked rows with labels: links ignored, indicators, latent variables
	@$(BIN)/python benchmarks/linked_labels.py
	@$(BIN)/python benchmarks/linked_labels.py --sizes 0 --rows equi ar star --ways ignored latent "all rows" oracle --learners PC "PC, 5 %" "PC, 10 %" --name linked_labels_pc

bench-linked-paper: $(VENV)/.bench  ## The linked-rows paper's tables (needs POLYDAG_DATA)
	@$(BIN)/polydag reproduce linked --table 1 --table 2 --seeds 10 --out runs/linked-ours --force
	@$(BIN)/polydag reproduce linked --table 3 --table 4 --seeds 3 --out runs/linked-real --force
	@$(BIN)/polydag reproduce linked --preset published --table 1 --table 2 --seeds 3 --out runs/linked-published --force
	@$(BIN)/python benchmarks/linked_paper.py runs/linked-ours runs/linked-real runs/linked-published

bench-report: $(VENV)/.test  ## The size and speed of reports, in Chromium
	@$(BIN)/python benchmarks/report.py

report-assets:  ## Build the report's script from frontend/ (needs Node.js)
	@cd frontend && npm ci --silent && npm run --silent build

clean:  ## Remove the environment and everything built
	@rm -rf $(VENV) frontend/node_modules site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
