# make demo       the whole way from a book to a BERT SavedModel that is used without tfnlp
# make demo-elmo  the same with an ELMo
# make demo-gpt   the same with a GPT that writes
# make test       the quick tests, which a change must pass, in two processes
# make test-slow  end to end: every family from text to modules, several processes
# make test-long  what takes longer: kills, fuzzing, notebooks, the TPU's compiler, the site
# make peers      torch, transformers, sentence-transformers and peft in .venv-peers, for fuzzing against them
# make browser    Chromium, with which a test presses the playground's buttons (Debian, as root)
# make lint       errors, docstrings, annotations and format, by ruff
# make dist       a wheel in dist/, tried in an empty environment
# make docs       the documentation site, in site/
# make address    URL=https://host/owner/name: the repository's address in badges, notebooks, metadata, docs
# make bench      side by side with keras-hub
# make clean      removes what the other targets made

PYTHON ?= python3
VENV ?= .venv
DEMO ?= demo
BIN = $(VENV)/bin

export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo demo-elmo demo-gpt test test-slow test-long peers browser dist docs address bench lint clean

$(VENV)/installed: setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; set PYTHON=/path/to/python3")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[test]'
	touch $@

demo: $(VENV)/installed
	@BIN=$(BIN) DEMO=$(DEMO) bash examples/demo.sh

demo-elmo: $(VENV)/installed
	@BIN=$(BIN) DEMO=$(DEMO) bash examples/demo_elmo.sh

demo-gpt: $(VENV)/installed
	@BIN=$(BIN) DEMO=$(DEMO) bash examples/demo_gpt.sh

test: $(VENV)/installed
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not long"

test-slow: $(VENV)/installed
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "slow and not long" --timeout 900

test-long: $(VENV)/installed
	$(BIN)/python -m pytest -n 2 --dist loadfile -m long --timeout 1800

peers:
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet torch==2.13.0
	.venv-peers/bin/pip install --quiet transformers==5.24.0 sentence-transformers==6.2.0 peft==0.21.2

browser:
	apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium

dist: $(VENV)/installed
	rm -rf build dist
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	PYTHON=$(PYTHON) bash examples/check_wheel.sh dist/*.whl

docs: $(VENV)/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

address: $(VENV)/installed
	$(BIN)/python -m colab.common "$(URL)"

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(VENV)/installed
	$(BIN)/python -m benchmarks.bert
	$(BIN)/python -m benchmarks.gpt
	$(BIN)/python -m benchmarks.pipeline

clean:
	rm -rf $(VENV) .venv-peers $(DEMO) build dist site *.egg-info .pytest_cache
