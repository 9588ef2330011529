# Attentively. `make` alone explains the targets; each sets up what it needs.
# Kept to what GNU make 3.81 knows, which is what macOS has.

PYTHON ?= python3
PORT ?= 8000
# Options passed on to pytest, e.g. make test ARGS="-k masks"
ARGS ?=
# Several tests at a time; PARALLEL= runs one after the other
PARALLEL ?= -n auto --maxprocesses 4
# A further package index to look for torch in, e.g. the CPU builds for Linux (see README)
TORCH_INDEX ?=

VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup book test lab serve release grade bundle clean distclean

help:
	@echo "Attentively: from embeddings to the Transformer, built by hand."
	@echo
	@echo "  make book      execute every chapter and build the site into _build/html"
	@echo "  make test      run the tests but the slow ones (ARGS=... is passed on to pytest; PARALLEL= for one at a time)"
	@echo "  make lab       copy exercises/ to work/, never over your answers, and open JupyterLab"
	@echo "  make serve     the built book on localhost (PORT=$(PORT))"
	@echo "  make release   solutions/ to exercises/: make the notebooks that students get"
	@echo "  make grade     grade submitted/ into gradebook.db"
	@echo "  make bundle    pack what a class is handed into dist/: exercises, package, one command"
	@echo "  make clean     remove what was built; make distclean removes $(VENV) too"
	@echo
	@echo "The first of them also sets up $(VENV), once, with Python 3.11 or later."
	@echo "PYTHON=/path/to/python3.12 chooses another interpreter."

setup: $(READY)

# A clean-up after an interruption is never needed: the stamp is written last.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Attentively needs Python 3.11 or later; '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>&1 || echo 'not there')." >&2; \
	  echo "Name another with: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV) || { \
	  echo "Could not make $(VENV). On Debian and Ubuntu: apt install python3-venv" >&2; \
	  rm -rf $(VENV); exit 1; }
	@echo "Setting up $(VENV), once: this takes minutes, most of them for PyTorch."
	$(RUN) -m pip install --constraint constraints.txt \
	  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) --editable '.[dev]'
	@touch $(READY)

book: $(READY)
	$(RUN) tools/build_book.py

test: $(READY)
	$(RUN) -m pytest $(PARALLEL) $(ARGS)

lab: $(READY)
	$(RUN) tools/lab.py

serve: $(READY)
	@test -f _build/html/index.html || $(MAKE) book
	@echo "http://localhost:$(PORT)  (stop with Ctrl-C)"
	@$(RUN) -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

release: $(READY)
	$(RUN) tools/release.py

grade: $(READY)
	$(RUN) -m attentively_grader

# ARGS="08_additive_attention" packs that one alone
bundle: $(READY)
	$(RUN) tools/make_bundle.py $(ARGS)

# Never touches work/, submitted/ or gradebook.db: those are people's answers and grades.
clean:
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools book -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
