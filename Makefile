# Two commands: `make book` and `make test`. Both work on a fresh machine with Python 3.11 or later and this Makefile.
PYTHON ?= python3
MODEL ?= mini
BIN := .venv/bin
READY := .venv/.ready

export PYTHONPATH := $(CURDIR)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help book execute check pages links test nightly mutants lint types format serve bench editions reproduce
.PHONY: mini evidence address release colab clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

$(READY): requirements.txt constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -r requirements.txt -c constraints.txt
	@touch $(READY)

book: $(READY) ## check the committed notebooks, build the site; MODEL=... executes another edition
	@$(BIN)/python tools/build_book.py book --model "$(MODEL)" $(if $(CHAPTER),--chapter "$(CHAPTER)")

check: $(READY) ## the notebooks alone, or one of them: make check CHAPTER=05_calibration
	@$(BIN)/python tools/build_book.py check $(if $(CHAPTER),--chapter "$(CHAPTER)")

execute: $(READY) ## write the notebooks of the chapters that changed, or one: make execute CHAPTER=...
	@$(BIN)/python tools/build_book.py execute --model "$(MODEL)" $(if $(CHAPTER),--chapter "$(CHAPTER)")

pages: $(READY) ## bring the sites that are built together: _build/pages
	@$(BIN)/python tools/build_book.py pages

# Sphinx asks them, in a reading of its own that leaves the site as it is, and says how it went.
links: $(READY) ## ask every outside link of the book whether it still answers
	@rm -rf _build/links
	@PYTHONPATH=$(CURDIR):$(CURDIR)/tools $(BIN)/jupyter-book build . -q --path-output _build/links --builder linkcheck; \
	status=$$?; grep -E '\[(broken|redirected permanently)\]' _build/links/_build/html/output.txt | sed 's/^/- /' \
	| tee _build/links/summary.md; exit $$status

# Two workers, one thread each; the tests of a file stay together, with what they share.
test: $(READY) lint book ## everything that must hold: lint, types, notebooks, site, package, doctests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

nightly: $(READY) ## what takes too long for every change: a whole edition, a cluster, killed trainings
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m nightly

mutants: $(READY) ## put known faults in, one at a time: do the tests notice each? make mutants J=2
	@$(BIN)/python tools/mutants.py -j $(or $(J),1)

lint: $(READY) types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Compiler and formatter come by npm; where that is missing or offline, this check is left out and says so.
types: ## types and layout of the JavaScript in ctxlib/widgets
	@if [ -x node_modules/.bin/prettier ] || npm ci --no-audit --no-fund --silent; \
	then node_modules/.bin/tsc -p jsconfig.json && npm run --silent lint && echo "JavaScript: types hold"; \
	else echo "JavaScript: not checked, for lack of npm and a registry"; fi

format: $(READY) ## lay the code out in house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@if [ -x node_modules/.bin/prettier ]; then npm run --silent format; fi

serve: ## read the built site at http://localhost:8000
	$(PYTHON) -m http.server --directory _build/html 8000

bench: $(READY) ## speed and memory, as ratios in one run
	$(BIN)/python benchmarks/split.py
	$(BIN)/python benchmarks/circuit.py --page book/benchmarks.md
	$(BIN)/python benchmarks/texts.py --page book/benchmarks.md
	$(BIN)/python benchmarks/views.py --page book/speed.md

editions: $(READY) ## the whole book on models of GPT-2's size with random weights; some forty minutes
	$(BIN)/python benchmarks/editions.py --page book/editions.md

# The chapters of an edition are executed first, those that changed; mini's are committed.
reproduce: $(READY) ## the published figures beside what the chapters find: make reproduce MODEL=gpt2
	@[ "$(MODEL)" = mini ] || $(BIN)/python tools/build_book.py execute --model "$(MODEL)"
	@$(BIN)/python tools/reproduce.py --model "$(MODEL)"

colab: $(READY) ## run every notebook on a fresh environment as Colab's: make colab PYTHON=python3.12
	$(BIN)/python tools/try_colab.py --python "$(PYTHON)"

# The variables keep the allocator from giving large buffers back after every step; it trains a third faster.
mini: $(READY) ## train the embedded model and its twins, what is missing: make mini CORPUS=folder RUNS="mini base"
	MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=268435456 \
	THP_MEM_ALLOC_ENABLE=1 $(BIN)/python tools/train_mini.py $(RUNS) --corpus "$(CORPUS)"

evidence: $(READY) ## what chapters show of what does not ship: make evidence CHAPTER=D_british CORPUS=folder
	$(BIN)/python tools/evidence.py $(or $(CHAPTER),08_evaluation A_scale F_training $(if $(CORPUS),D_british)) \
	--work "$(or $(WORK),build/runs)" $(if $(CORPUS),--corpus "$(CORPUS)")

address: $(READY) ## where the repository lives; move it: make address URL=https://github.com/owner/name
	@$(BIN)/python tools/address.py $(URL)

release: $(READY) ## whether this version can be released, and its notes
	@$(BIN)/python tools/release.py $(if $(TAG),--tag "$(TAG)")

clean: ## remove everything that can be made again, but not the environment
	rm -rf _build build .pytest_cache .ruff_cache .mypy_cache .hypothesis
