PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo check test test-all lint format bench hostile docs readme clean

INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

# What a user needs, and nothing to develop with.
$(VENV)/.plain: pyproject.toml constraints.txt
	@echo "Installing newfound and torch into $(VENV): some minutes, most of it the download."
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[lite]'
	touch $@

$(VENV)/.installed: $(VENV)/.plain
	$(INSTALL) -e '.[dev]'
	touch $@

demo: $(VENV)/.plain
	$(BIN)/newfound demo

# Lint and fast tests, within 90 seconds on two cores.
check: lint
	$(BIN)/pytest -n auto --dist loadfile -m "not slow and not extra"

# Lint and all tests that take no more than some minutes.
test: lint
	$(BIN)/pytest -n auto --dist loadfile -m "not extra"

# Everything: notebooks, the pages in Chromium, Ray, every command of the documentation. What it needs beyond Python and make
# are Chromium or Chrome, Node.js and a C++ compiler; it skips the tests of what is missing, and lists them.
test-all: lint $(VENV)/.all
	$(BIN)/pytest -n auto --dist loadfile -rs

$(VENV)/.all: $(VENV)/.installed
	$(INSTALL) -e '.[dev,notebooks,datasets,ray]'
	touch $@

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Speed on this machine, for example: make bench ARGS="uno-v2 device=cpu --parts step"
bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks $(ARGS)

# Broken runs, kills, full disks, hostile names and files: some minutes, not part of the tests.
hostile: $(VENV)/.installed
	$(BIN)/python -m tools.hostile $(ARGS)

# The documentation as a site, build/site/index.html.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

readme: $(VENV)/.installed
	$(BIN)/python -m tools.catalogue
	$(BIN)/python -m tools.readme

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
