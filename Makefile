# Two commands: `make book` and `make test`. Both work on a fresh machine with Python 3.11 or later and this Makefile.
PYTHON ?= python3
MODEL ?= mini
BIN := .venv/bin
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
READY := .venv/.ready

export PYTHONPATH := $(CURDIR):$(CURDIR)/tools
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The allocator keeps large buffers: taking them anew at every step costs kernels a tenth of their time, and training a third.
export MALLOC_MMAP_THRESHOLD_ := 8589934592
export MALLOC_TRIM_THRESHOLD_ := 8589934592
export MALLOC_TOP_PAD_ := 67108864

.PHONY: help book execute check pages links test quick coverage newest nightly mutants lint types format serve bench editions reproduce
.PHONY: endpoint mini pictures models evidence address release notes colab clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

$(READY): requirements.txt constraints.txt
	@echo "Installing requirements.txt into .venv, once: usually 2 minutes and 3 GB of disk"
	@$(PYTHON) -m venv .venv && $(BIN)/pip install --quiet -r requirements.txt -c constraints.txt \
	|| { echo "Not installed: it needs Python 3.11 or later, with venv, and a package index; the same command goes on"; exit 1; }
	@touch $(READY)

book: $(READY) ## check the committed notebooks, build the site; MODEL=... executes another edition
	@$(BIN)/python tools/build_book.py book --model "$(MODEL)" $(if $(CHAPTER),--chapter "$(CHAPTER)")

check: $(READY) ## the notebooks alone, or one of them: make check CHAPTER=05_circuit
	@$(BIN)/python tools/build_book.py check $(if $(CHAPTER),--chapter "$(CHAPTER)")

execute: $(READY) ## write the notebooks of the chapters that changed, or one: make execute CHAPTER=...
	@$(BIN)/python tools/tables.py
	@$(BIN)/python tools/build_book.py execute --model "$(MODEL)" $(if $(CHAPTER),--chapter "$(CHAPTER)")

pages: $(READY) ## bring the sites that are built together: _build/pages
	@$(BIN)/python tools/build_book.py pages

# Sphinx asks them, in a reading of its own that leaves the site as it is, and says how it went.
links: $(READY) ## ask every outside link of the book whether it still answers
	@rm -rf _build/links
	@PYTHONPATH=$(CURDIR):$(CURDIR)/tools $(BIN)/jupyter-book build . -q --path-output _build/links --builder linkcheck; \
	status=$$?; grep -E '\[(broken|redirected permanently)\]' _build/links/_build/html/output.txt | sed 's/^/- /' \
	| tee _build/links/summary.md; exit $$status

# Two workers, one thread each; the tests of a file stay together, with what they share. Files come in order: the last are small.
test: $(READY) lint book ## everything that must hold: lint, types, notebooks, site, package, doctests
	@$(BIN)/python tools/fetch_models.py smollm2 minilm || echo "The tests of these models are left out."
	@echo "Testing: usually 10 minutes, two files at a time"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder \
	&& echo "Everything holds. The book is at _build/html/index.html" \
	|| { echo "Some tests failed: each is named above, and runs alone by $(BIN)/python -m pytest NAME"; exit 1; }

# What computes, each held against loops by hand: it needs no book, no site, no browser and no model but mini.
METHOD := causal circuit command decompose denominators device evaluation explain families load lookups models neurons \
	nulls query reading store studies weights
quick: $(READY) ## the method's own tests, in under a minute
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(METHOD:%=tests/test_%.py)

IN_PYTHON := -m "not nightly and not site"
coverage: $(READY) ## modules of ctxlib of which tests without a browser take less than 90% of the branches
	OMP_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest -q $(IN_PYTHON)
	@$(BIN)/python -m coverage report | awk '/^(Name|TOTAL)/ || $$NF + 0 < 90'

# In an environment of its own: what is pinned for the book stays as it is. Jupyter Book 2 is another program.
newest: ## the tests without a browser, on the newest release of every dependency
	rm -rf build/newest && $(PYTHON) -m venv build/newest
	sed -n 's/==.*//p' requirements.txt | sed 's/^jupyter-book$$/&<2/' | build/newest/bin/pip install --quiet -r /dev/stdin
	OMP_NUM_THREADS=1 build/newest/bin/python -m pytest -n 2 --dist loadfile $(IN_PYTHON)

nightly: $(READY) ## what takes too long for every change: a whole edition, a cluster, whole models, Colab
	@$(BIN)/python tools/fetch_models.py || echo "The tests of real models are left out."
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m nightly
	$(MAKE) colab

mutants: $(READY) ## put known faults in, one at a time: do the tests notice each? make mutants J=2
	$(BIN)/python tools/mutants.py -n $(or $(J),1)

lint: $(READY) types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Compiler and formatter come by npm; where that is missing or offline, this check is left out and says so.
types: ## types and layout of the JavaScript in ctxviews
	@cd ctxviews && if [ -x node_modules/.bin/prettier ] || npm ci --no-audit --no-fund --silent; \
	then node_modules/.bin/tsc -p jsconfig.json && npm run --silent lint && echo "JavaScript: types hold"; \
	else echo "JavaScript: not checked, for lack of npm and a registry"; fi

format: $(READY) ## lay the code out in house style
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .
	@cd ctxviews && if [ -x node_modules/.bin/prettier ]; then npm run --silent format; fi

serve: ## read the built site at http://localhost:8000
	$(PYTHON) -m http.server --directory _build/html 8000

bench: $(READY) ## speed and memory, as ratios in one run
	$(BIN)/python benchmarks/circuit.py --page book/costs.md
	$(BIN)/python benchmarks/texts.py --page book/costs.md
	$(BIN)/python benchmarks/door.py --page book/costs.md
	$(BIN)/python benchmarks/views.py --page book/costs.md

pictures: $(READY) ## the pictures of README.md, taken of the built site
	@$(BIN)/python tools/pictures.py

editions: $(READY) ## the whole book on a model of GPT-2 small's size with random weights
	$(BIN)/python benchmarks/editions.py --page book/costs.md

# The chapters of an edition are executed first, those that changed; mini's are committed.
reproduce: $(READY) ## the published figures beside what the chapters find: make reproduce MODEL=gpt2
	@[ "$(MODEL)" = mini ] || $(BIN)/python tools/build_book.py execute --model "$(MODEL)"
	@$(BIN)/python tools/reproduce.py --model "$(MODEL)"

# The versions that Colab brings along, then this package by pip, which says what it replaces; twins as if they had been fetched.
# It fails where a cell does; checked outputs that come out otherwise at these versions are shown.
COLAB := build/colab
colab: $(READY) ## run every notebook on a fresh environment as Colab's: make colab PYTHON=python3.12
	rm -rf $(COLAB) && mkdir -p $(COLAB)/source $(COLAB)/hub/ctxlib && cp -r data $(COLAB)/hub/ctxlib
	git ls-files -z | tar -cf - --null -T - | tar -xf - -C $(COLAB)/source
	$(PYTHON) -m venv $(COLAB)/runtime && $(COLAB)/runtime/bin/pip install --quiet --upgrade pip
	$(COLAB)/runtime/bin/pip install --quiet --no-compile -r tools/colab.txt "$$($(BIN)/pip freeze | grep ^nbval==)"
	$(COLAB)/runtime/bin/pip install $(COLAB)/source > $(COLAB)/installed.txt
	@grep -i uninstalled $(COLAB)/installed.txt || echo "pip replaced nothing"
	cp $(or $(CHAPTER:%=book/%.ipynb),book/*.ipynb) $(COLAB)
	cd $(COLAB) && env -u PYTHONPATH -u VIRTUAL_ENV TORCH_HOME="$$PWD" PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 runtime/bin/python -m pytest -p nbval.plugin \
	--nbval-lax --nbval-current-env --nbval-sanitize-with=$(CURDIR)/tests/nbval_sanitize.cfg -c /dev/null --rootdir=. --tb=short --durations=0 *.ipynb \
	| tee said.txt; grep -q passed said.txt && ! grep "Cell [0-9]*: " said.txt | grep -v "outputs differ"

mini: $(READY) ## train the embedded model and its twins, what is missing: make mini CORPUS=folder RUNS="mini base"
	THP_MEM_ALLOC_ENABLE=1 $(BIN)/python tools/evidence/train_mini.py $(RUNS) --corpus "$(CORPUS)"

models: $(READY) ## fetch real models, 1.3 GB, or one of qwen, smollm2, minilm: make models NAME=smollm2
	@$(BIN)/python tools/fetch_models.py $(NAME)

# llama.cpp's own server, from the sources that come with llama-cpp-python: it knows structured outputs, its Python one does not.
# Beside it, chapter 16 asks it with OPENAI_BASE_URL=http://127.0.0.1:8081/v1, OPENAI_API_KEY=none and its parameter CHAT = "qwen":
# eleven cases take twenty to thirty minutes on one core.
LLAMA := build/llama
endpoint: $(READY) ## a small language model that explains, at http://127.0.0.1:8081/v1; needs cmake and a C++ compiler
	@$(BIN)/python tools/fetch_models.py qwen
	@test -x $(LLAMA)/made/bin/llama-server || { mkdir -p $(LLAMA) \
	&& $(BIN)/pip download --quiet --no-deps --no-binary llama-cpp-python --dest $(LLAMA) llama-cpp-python==0.3.36 \
	&& tar -xzf $(LLAMA)/llama_cpp_python-0.3.36.tar.gz -C $(LLAMA) --strip-components 1 \
	&& cmake -S $(LLAMA)/vendor/llama.cpp -B $(LLAMA)/made -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
	-DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
	&& cmake --build $(LLAMA)/made --target llama-server --parallel 2; }
	@$(LLAMA)/made/bin/llama-server --alias qwen --host 127.0.0.1 --port 8081 -c 8192 -np 1 -n 160 \
	-m "$$($(BIN)/python -c 'from ctxlib.files import kept_folder; print(next(kept_folder("qwen").glob("*.gguf")))')"

# The layers of real models that are fetched, and what chapters show of runs, where there are any. With the corpus of `mini`
# (CORPUS=folder) whole neurons are judged on documents that no page reads, without it on half B of the book's texts.
KEPT := first_pages controls best_split read_planes deeper_mini constants one_page bayes_rows open_rows british local lookups causal resample special semantic toy
evidence: $(READY) ## what does not ship, kept: make evidence NAME=smollm2, or CHAPTER=09_british
	$(if $(CHAPTER),,$(BIN)/python tools/evidence/store_layers.py $(NAME))
	$(if $(CHAPTER),,$(BIN)/python tools/evidence/whole_neuron.py $(NAME) $(CORPUS:%=--corpus "%"))
	$(if $(CHAPTER),,$(BIN)/python tools/evidence/whole_neuron.py qwen --neuron 6419 $(CORPUS:%=--corpus "%"))
	$(if $(CHAPTER),,$(BIN)/python tools/evidence/last_ten.py $(NAME) $(CORPUS:%=--corpus "%"))
	$(if $(CHAPTER),,$(BIN)/python tools/evidence/deeper_scores.py)
	$(if $(CHAPTER)$(NAME),,for script in $(KEPT); do $(BIN)/python tools/evidence/$$script.py || exit 1; done)
	$(if $(CHAPTER)$(NAME),,$(BIN)/python tools/evidence/british.py --changes --predicted)
	$(if $(CHAPTER),,$(BIN)/python tools/evidence/real_models.py $(NAME))
	$(if $(CHAPTER)$(NAME),,$(CORPUS:%=$(BIN)/python tools/evidence/transcoder.py --corpus "%"))
	$(if $(CHAPTER),,$(if $(wildcard $(or $(WORK),build/runs)),$(BIN)/python tools/evidence/training.py --work "$(or $(WORK),build/runs)"))
	$(BIN)/python tools/evidence/evidence.py $(or $(CHAPTER),09_british \
	$(if $(wildcard $(or $(WORK),build/runs)),13_families)) \
	--work "$(or $(WORK),build/runs)"

address: ## move the repository, in every file that names it: make address URL=https://github.com/owner/name
	@$(PYTHON) tools/address.py "$$URL"

release: $(READY) ## whether this version can be released, under this tag: make release TAG=v0.3.0
	@[ "$${TAG:-v$(VERSION)}" = v$(VERSION) ] || { echo "release: $$TAG is no tag of $(VERSION)" >&2; exit 1; }
	@$(BIN)/python -m pytest -q tests/test_publish.py -k one_version

notes: ## what CHANGELOG.md says of this version
	@awk -v "head=## [$(VERSION)]" '/^## |^\[.*\]: /{ours = index($$0, head) == 1; next} ours' CHANGELOG.md

clean: ## remove everything that can be made again, but not the environment
	rm -rf _build build .pytest_cache .ruff_cache .mypy_cache .hypothesis
