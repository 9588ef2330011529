# Run `make` to list the targets. Each target creates the virtual environment if necessary.
# Compatible with GNU make 3.81, the version on macOS.

PYTHON ?= python3
PORT ?= 8000
# Options for pytest, for example make test ARGS="-k masks"
ARGS ?=
# Number of parallel tests; PARALLEL= runs one test at a time
PARALLEL ?= -n auto --maxprocesses 4
# Additional package index for PyTorch, for example the CPU builds for Linux (see README)
TORCH_INDEX ?=

VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup book pdf test lab serve release grade bundle gradescope clean distclean

help:
	@echo "Attentively: from embeddings to the Transformer, built by hand."
	@echo
	@echo "  make book       Execute every chapter and build the site into _build/html."
	@echo "  make pdf        Print the built site into one file, _build/attentively.pdf (needs Chromium)."
	@echo "  make test       Run all tests except the slow ones. ARGS=... passes options to pytest."
	@echo "  make lab        Copy new exercises to work/, keep existing answers, and open JupyterLab."
	@echo "  make serve      Serve the site on localhost (PORT=$(PORT))."
	@echo "  make release    Generate exercises/, the student version, from solutions/."
	@echo "  make bundle     Pack the class archive into dist/: book, exercises, package, one set-up command."
	@echo "  make grade      Grade submitted/ into gradebook.db and write feedback."
	@echo "  make gradescope Pack the autograder of one assignment for Gradescope into dist/: ARGS=NAME."
	@echo "  make setup      Only create $(VENV)."
	@echo "  make clean      Remove build output and caches."
	@echo "  make distclean  Remove build output, caches and $(VENV)."
	@echo
	@echo "Requirements: Python 3.11 or later. The first command creates $(VENV)."
	@echo "Variables:"
	@echo "  PYTHON=/path/to/python3.12  Python interpreter for $(VENV)."
	@echo "  TORCH_INDEX=URL             Additional package index for PyTorch, for example CPU builds."
	@echo "  ARGS=\"-k masks\"             Options for pytest; for make bundle, pdf and gradescope, names."
	@echo "  PARALLEL=                   Run one test at a time."

setup: $(READY)

# The marker file is written last, so that an interrupted set-up is repeated.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Attentively needs Python 3.11 or later; '$(PYTHON)' is" \
	    "$$($(PYTHON) --version 2>&1 || echo 'not there')." >&2; \
	  echo "Choose another with: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV) || { \
	  echo "Could not create $(VENV). On Debian and Ubuntu: apt install python3-venv" >&2; \
	  rm -rf $(VENV); exit 1; }
	@echo "Setting up $(VENV) once. This takes several minutes, mostly for PyTorch."
	$(RUN) -m pip install --no-compile --constraint constraints.txt \
	  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) --editable '.[dev]'
	@# On all cores, which pip does not use. Some packages contain files of another Python version.
	@$(RUN) -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true
	@touch $(READY)

book: $(READY)
	$(RUN) tools/build_book.py

# ARGS="08_additive_attention" prints only this page
pdf: $(READY)
	@test -f _build/html/index.html || $(MAKE) book
	$(RUN) tools/make_pdf.py $(ARGS)

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

# ARGS="08_additive_attention" packs only this assignment; ARGS=--light packs no pretrained models
bundle: $(READY)
	@test -f _build/html/index.html || { echo "The book is not built. Building it first."; $(MAKE) book; }
	$(RUN) tools/make_bundle.py $(ARGS)

# ARGS="08_additive_attention"
gradescope: $(READY)
	$(RUN) tools/make_gradescope.py $(ARGS)

# Keeps work/, submitted/ and gradebook.db, which contain answers and grades.
clean:
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools book -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
