# Every task of the project. `make app` and `make test` set up what they need by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8501
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup app browser test test-fast lint types data bench clean constraints

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv and install the tested set of packages

$(STAMP): requirements.txt requirements-dev.txt constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Mergescope needs Python 3.11 or newer; found " + sys.version.split()[0] + ". Name another with: make PYTHON=python3.12 setup")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt -c constraints.txt
	$(BIN)/python -m core.merge.warm
	$(BIN)/python -m core.preview.warm
	@touch $@

app: setup ## open the explorer on a bundled bank (PORT=8501)
	$(BIN)/streamlit run app.py --server.port $(PORT)

browser: setup ## find a browser for the tests, or download one
	@$(BIN)/python -m tests.browser.find || $(BIN)/playwright install chromium

test: setup browser lint types ## run every check and every test
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-fast: setup ## run the unit tests only
	$(BIN)/python -m pytest tests/unit

lint: setup ## format and lint checks
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup ## check type hints
	$(BIN)/mypy

data: setup ## train and measure the bundled banks again (under 30 minutes on 2 cores)
	$(BIN)/python -m data.make_banks
	$(BIN)/python -m data.measure_s3 data/rl_only
	$(BIN)/python -m data.measure_s3 data/sft_rl
	$(BIN)/python -m data.make_banks --part card
	$(BIN)/python -m data.make_s3_card

bench: setup ## measure speed against the other tools, in one run
	$(BIN)/python -m bench

constraints: setup ## write the installed set to constraints.txt
	@{ echo "# The exact set of packages that was tested, used by make setup."; $(BIN)/python -m pip freeze --exclude-editable | sed -E 's/\+cpu$$//' ; } > constraints.txt

clean: ## remove the virtual environment and caches (runs are kept)
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis
