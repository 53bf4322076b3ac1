# Targets beside those that `make` lists: searches, comparisons with real servers and classes, recordings, other Pythons.
# The Makefile includes this file; `make more` lists the targets. Paths are those of the root of the checkout.
PEERS  := .venv-peers
MLX_OLDER := 0.24.1 0.25.1 0.28.3 0.30.2 0.30.4 0.31.1 0.31.2 0.31.3
PEERS_VLLM := .venv-peers-vllm
VLLM_OLDER := 0.24.0 0.25.1 0.26.0 0.27.0 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0
PEERS_SGLANG := .venv-peers-sglang
SGLANG_OLDER := 0.5.9 0.5.10 0.5.11 0.5.12 0.5.13 0.5.14 0.5.15 0.5.16 0.5.17 0.5.18 0.5.19 0.5.20 0.5.21 0.5.22
VLLM_TESTS ?= $(PEERS_VLLM)/vllm-0.33.0/tests
LIVE   := .venv-live
XLLAMA := .venv-xllama
XLLAMA_WHEEL := xllamacpp==2026.10.11549
SLOW   ?= build/slow
ADAPTERS ?= .venv-adapters
BROWSER := .venv-browser
SITE    := .venv-site
OPS    ?= 100000
STEPS  ?= 100000
SIZES  ?= 10000 30000 100000
EVERY  ?= 1
BURSTS ?= 1000
TALKS  ?= 72
SEED   ?= 0
START  ?= 0
N      ?= 1000
TRACES ?= ../shared/traces
MODELS ?= ../shared/models
SESSIONS ?= ../shared/workloads/agent_sessions
MILLION = fuzz -p llama_cpp@b11549-repaired --property warm-equals-cold --property stored-equals-cold \
	--property survives --jobs $(JOBS) --out build/million --resume

.PHONY: more smoke oldest matrix meta meta-drawn million keyed newest blocks trees hostile rediscover replay grades coverage peers peers-vllm vllm-tests peers-sglang growth adapters live slow watch workloads agents upstream optimized browser site targets

more:
	@echo 'make smoke    import and run on every other Python  make smoke'
	@echo 'make oldest   tests with the oldest packages        make oldest'
	@echo 'make matrix   the test suite on every Python        make matrix'
	@echo 'make meta     plant faults; each must be found      make meta JOBS=2'
	@echo 'make meta-drawn  draw faults; which tests find them  make meta-drawn ARGS="--seed 2 --faults 240"'
	@echo 'make million  run a million drawn conversations     make million JOBS=2'
	@echo 'make keyed    run 100,000 with adapters and images  make keyed JOBS=2'
	@echo 'make newest   run 100,000 on its newest memories     make newest JOBS=2'
	@echo 'make trees    run 100,000 under SGLang, repaired    make trees JOBS=2'
	@echo 'make blocks   run 100,000 under vLLM, repaired      make blocks JOBS=2'
	@echo 'make hostile  run mutated input files               make hostile N=100000 SEED=0 JOBS=2'
	@echo 'make rediscover  search for the known defects      make rediscover JOBS=2'
	@echo 'make replay   replay all recorded traces            make replay TRACES=../shared/traces JOBS=2'
	@echo 'make grades   grade the evidence of each rule       make grades TRACES=../shared/traces JOBS=2'
	@echo 'make coverage list rules reached by scenarios       make coverage'
	@echo 'make peers    compare with the real classes         make peers OPS=100000 BURSTS=1000 TALKS=72 STEPS=100000'
	@echo 'make growth   CPU time by size, against the real classes  make growth SIZES="10000 30000 100000"'
	@echo 'make vllm-tests  run vLLM'\''s own tests on our engine  make vllm-tests VLLM_TESTS=FOLDER'
	@echo 'make adapters run conform on released packages      make adapters ARGS="mlx_lm_lru vllm_blocks"'
	@echo 'make workloads  run agent sessions on rule sets  make workloads SESSIONS=FOLDER JOBS=2'
	@echo 'make agents   settings for agents in common memories  make agents'
	@echo 'make site     build the site into build/site      make site'
	@echo 'make browser  open pages in a real chromium       make browser CHROMIUM=/usr/bin/chromium'
	@echo 'make live     compare with real llama-servers   make live N=10000 MINUTES=60 SEED=0'
	@echo '              with adapters: KIT=llama_cpp-adapters; with images: KIT=llama_cpp-images;'
	@echo '              with the newest memories: KIT=llama_cpp-newest'
	@echo '              or with a real ik_llama.cpp       make live IK_SOURCE=../ik_llama.cpp N=2000'
	@echo 'make watch    planned requests to a server, watch   make watch ARGS=--short'
	@echo 'make slow     record slow prompts, compare import  make slow N=60 SLOW=../slow'
	@echo 'make upstream list rules that a new build changes   make upstream OLD=TREE NEW=TREE'
	@echo 'make optimized  compare output with python -OO     make optimized EVERY=1'
	@echo 'make targets  run every target in a fresh clone      make targets ARGS="help run docs"'
	@echo 'creating $(LIVE)' >&2
	@echo 'creating $(XLLAMA)' >&2
	@echo 'creating $(VENV)' >&2
	@echo 'installing cachesim' >&2
	@echo 'installing cachesim and the development tools' >&2

# Other Pythons and the oldest packages; a missing Python is reported and skipped.
smoke oldest matrix: $(VENV)/.dev
	@$(BIN)/python .ci/pythons.py $@ $(ARGS)

meta: $(VENV)/.dev
	META_JOBS=$(JOBS) $(BIN)/python -m pytest tests/meta -m meta $(ARGS)

# Faults drawn by a seed over the whole package, and by folder the tests that find them. Hours; resumes after Ctrl-C.
meta-drawn: $(VENV)/.dev
	@$(BIN)/python -m tests.meta.drawn --jobs $(JOBS) $(ARGS)

# 1,000,000 conversations under llama_cpp@b11549-repaired; resumes after Ctrl-C, while the code is the same. Rows that --cache-reuse moves differ from a
# cold run's by design, so models whose memory can be cut anywhere are searched without it.
million: $(VENV)/.run
	$(BIN)/cachesim $(MILLION) --model R --model H --model HW --examples 700000 --seed 2703 $(ARGS)
	$(BIN)/cachesim $(MILLION) --model A --model W --set cache_reuse=0 --examples 300000 --seed 2704 $(ARGS)

# 100,000 conversations under other adapters, with images, and with both, as `make million`; errors 500 count, too.
KEYED = $(subst /million,/keyed,$(MILLION)) --property answered
keyed: $(VENV)/.run
	$(BIN)/cachesim $(KEYED) --set lora_scaled=0,0,0@M --model R --model H --model HW --examples 20000 --seed 2705 $(ARGS)
	$(BIN)/cachesim $(KEYED) --set lora_scaled=0,0,0@M --model A --model W --set cache_reuse=0 --examples 15000 --seed 2706 $(ARGS)
	$(BIN)/cachesim $(KEYED) --set mmproj=causal --examples 20000 --seed 2707 $(ARGS)
	$(BIN)/cachesim $(KEYED) --set lora_scaled=0@M,0 --set mmproj=gemma3 --examples 10000 --seed 2708 $(ARGS)
	$(BIN)/cachesim $(KEYED) --set lora_scaled=0,0,0@M --set mmproj=causal --examples 35000 --seed 2709 $(ARGS)

# 100,000 conversations on index rows, chosen blocks and compressed rows, without moved rows, whose index keys a shift spoils.
newest: $(VENV)/.run
	$(BIN)/cachesim fuzz -p llama_cpp@b11549-repaired --model N --set cache_reuse=0 --examples 100000 --seed 6701 --jobs $(JOBS) \
	  --out build/newest --resume $(ARGS)

# 100,000 conversations under sglang@0.5.23-repaired; resumes.
trees: $(VENV)/.run
	$(BIN)/cachesim fuzz -p sglang@0.5.23-repaired --examples 100000 --seed 36 --jobs $(JOBS) --out build/trees --resume $(ARGS)

# 100,000 conversations under vllm@0.33.0-repaired, then some with images, and some with two steps in flight; resumes.
BLOCKS = fuzz -p vllm@0.33.0-repaired --jobs $(JOBS) --out build/blocks --resume
blocks: $(VENV)/.run
	$(BIN)/cachesim $(BLOCKS) --examples 100000 --seed 4101 $(ARGS)
	$(BIN)/cachesim $(BLOCKS) --set multimodal=true --examples 5000 --seed 36 $(ARGS)
	$(BIN)/cachesim $(BLOCKS) --set async_scheduling=true --set num_cpu_chunks=0 --model A --model W8 --model 'W8 A' --examples 5000 --seed 37 $(ARGS)

# Resumes where it stopped; START= skips the first cases, ARGS="--only KIND:NUMBER" shows one.
hostile: $(VENV)/.run
	@$(BIN)/python -m tests.hostile --number $(N) --start $(START) --seed $(SEED) --jobs $(JOBS) $(ARGS)

rediscover: $(VENV)/.run
	$(BIN)/python -m tests.fuzz.rediscovery --seeds 5 --jobs $(JOBS) $(ARGS)

replay: $(VENV)/.run
	@$(BIN)/python -m tests.replay $(TRACES) -j $(JOBS)

# Grades of the outcomes of rules, in cachesim/engines/evidence; after a change of rules or recordings. About nineteen minutes
# of CPU, ARGS="--engine vllm" about three; resumes after an interruption.
grades: $(VENV)/.dev
	@$(BIN)/python -m tests.evidence $(TRACES) -j $(JOBS) $(ARGS)

coverage: $(VENV)/.dev
	$(BIN)/python -m tests.scenarios.coverage

# Folders or sdists; see CONTRIBUTING.md, "A build".
upstream: $(VENV)/.run
	@$(BIN)/python -m tests.upstream '$(OLD)' '$(NEW)' $(ARGS)

# The real mlx-lm, vLLM and SGLang have their own environments, so that nothing else can depend on them.
peers: $(PEERS)/.made peers-vllm peers-sglang
	$(PEERS)/bin/python -m tests.peers classes --ops $(OPS) --seed $(SEED)
	$(PEERS)/bin/python -m tests.peers bursts --bursts $(BURSTS) --seed $(SEED)
	$(PEERS)/bin/python -m tests.peers logs --talks $(TALKS) --seed $(SEED)
	for release in $(MLX_OLDER); do export PYTHONPATH=$(PEERS)/$$release; \
	  $(PEERS)/bin/python -m tests.peers classes --release $$release --ops $$(($(OPS) / 2)) --seed $(SEED) || exit 1; \
	  case $$release in \
	    0.2[4-7]*|0.28.[0-3]) $(PEERS)/bin/python -m tests.peers single --release $$release --ops $(BURSTS) --seed $(SEED) || exit 1;; \
	    *) $(PEERS)/bin/python -m tests.peers bursts --release $$release --bursts $$(($(BURSTS) / 4)) --seed $(SEED) || exit 1;; \
	  esac; done
	$(PEERS)/bin/python -m tests.live.check_mlx $(ARGS)
	$(PEERS)/bin/python -m tests.peers.command_lines mlx 0.32.2 $(PEERS)/lib/python*/site-packages/mlx_lm/server.py

$(PEERS)/.made: pyproject.toml
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install -e '.[peers]'
	@for release in $(MLX_OLDER); do $(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps \
	  --target $(PEERS)/$$release mlx-lm==$$release || exit 1; done
	@touch $@

# vLLM's scheduler runs on a CPU; a whole installation would bring kernels for GPUs, so its wheel comes without dependencies.
peers-vllm: $(PEERS_VLLM)/.made
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_compare --steps $(STEPS) --seed $(SEED)
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_compare --offload --steps $(STEPS) --seed $(SEED)
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_compare --compressed --steps $$(($(STEPS) / 5)) --seed $(SEED)
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_packed
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_offload --ops $(OPS) --seed $(SEED)
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_state_load
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_defaults 0.33.0
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_backends 0.33.0
	$(PEERS_VLLM)/bin/python -m tests.peers.exported_tests
	for release in $(VLLM_OLDER); do export PYTHONPATH=$(PEERS_VLLM)/$$release; \
	  $(PEERS_VLLM)/bin/python -m tests.peers.vllm_defaults $$release || exit 1; \
	  case $$release in 0.24*|0.25*|0.26*|0.27*|0.28*) ;; *) \
	    $(PEERS_VLLM)/bin/python -m tests.peers.vllm_backends $$release || exit 1; \
	    $(PEERS_VLLM)/bin/python -m tests.peers.vllm_packed || exit 1; \
	    $(PEERS_VLLM)/bin/python -m tests.peers.exported_tests || exit 1;; esac; \
	  $(PEERS_VLLM)/bin/python -m tests.peers.vllm_kv_events --seed $(SEED) || exit 1; \
	  $(PEERS_VLLM)/bin/python -m tests.peers.vllm_scenarios || exit 1; \
	  $(PEERS_VLLM)/bin/python -m tests.peers.vllm_compare --steps $$(($(STEPS) / 10)) --seed $(SEED) || exit 1; done
	$(PEERS_VLLM)/bin/python -m tests.peers.command_lines vllm 0.33.0
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_blocks
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_kv_events --seed $(SEED)
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_scenarios
	$(PEERS_VLLM)/bin/python -m tests.peers.routing vllm $(PEERS_VLLM)/lib/python*/site-packages/vllm/v1/engine/core_client.py --seed $(SEED)

# CPU time of whole servers against the released ones, by the blocks of the pool and the nodes of the tree: at most 3 times, and a
# growth with a power of at most 1.1. About twenty minutes.
growth: $(PEERS_VLLM)/.made $(PEERS_SGLANG)/.made
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_growth --blocks $(SIZES)
	$(PEERS_SGLANG)/bin/python -m tests.peers.sglang_growth $(PEERS_SGLANG)/lib/python*/site-packages --server --parts F FSM --nodes $(SIZES)

# vLLM's own unit tests on our engine. They are in its source distribution only, of which nothing is built.
vllm-tests: $(PEERS_VLLM)/.made $(VLLM_TESTS)
	$(PEERS_VLLM)/bin/python -m tests.peers.vllm_unit_tests $(VLLM_TESTS) $(ARGS)

$(PEERS_VLLM)/vllm-0.33.0/tests: $(PEERS_VLLM)/.made
	@$(PEERS_VLLM)/bin/python -m pip --disable-pip-version-check --quiet install setuptools setuptools-scm setuptools-rust wheel
	@cd $(PEERS_VLLM) && VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=0.33.0 bin/python -m pip --disable-pip-version-check \
	  --quiet download --no-deps --no-build-isolation --no-binary vllm vllm==0.33.0 && tar -xzf vllm-0.33.0.tar.gz vllm-0.33.0/tests

$(PEERS_VLLM)/.made: pyproject.toml
	@$(PYTHON) -m venv $(PEERS_VLLM)
	@$(PEERS_VLLM)/bin/python -m pip --disable-pip-version-check --quiet install -e '.[peers-vllm]'
	@$(PEERS_VLLM)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps vllm==0.33.0
	@for release in $(VLLM_OLDER); do $(PEERS_VLLM)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps \
	  --target $(PEERS_VLLM)/$$release vllm==$$release || exit 1; done
	@touch $@

# SGLang's tree, requests, scheduler and states need no torch: tests/peers/sglang_source.py replaces it.
# Exported tests need the torch of the environment of vLLM.
peers-sglang: $(PEERS_SGLANG)/.made $(PEERS_VLLM)/.made
	$(PEERS_SGLANG)/bin/python -m tests.peers.sglang_tree $(PEERS_SGLANG)/lib/python*/site-packages --ops $(OPS) --seed $(SEED)
	$(PEERS_SGLANG)/bin/python -m tests.peers.sglang_schedule $(PEERS_SGLANG)/lib/python*/site-packages --ops $(OPS) --seed $(SEED)
	$(PEERS_SGLANG)/bin/python -m tests.peers.sglang_schedule $(PEERS_SGLANG)/lib/python*/site-packages --compressed --ops $(OPS) --seed $(SEED)
	$(PEERS_SGLANG)/bin/python -m tests.peers.sglang_kv_events $(PEERS_SGLANG)/lib/python*/site-packages --seed $(SEED)
	for release in $(SGLANG_OLDER); do older=$(PEERS_SGLANG)/older; rm -rf $$older; \
	  $(PEERS_SGLANG)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-compile --target $$older \
	    sglang==$$release || exit 1; \
	  $(PEERS_SGLANG)/bin/python -m tests.peers.sglang_tree $$older --release $$release --ops $$(($(OPS) / 2)) \
	    --seed $(SEED) || exit 1; \
	  $(PEERS_SGLANG)/bin/python -m tests.peers.sglang_tree $$older --release $$release --ops $$(($(OPS) / 10)) \
	    --seed $(SEED) --ended || exit 1; \
	  case $$release in 0.5.20|0.5.21|0.5.22) $(PEERS_SGLANG)/bin/python -m tests.peers.sglang_schedule $$older \
	    --release $$release --ops $$(($(OPS) / 2)) --seed $(SEED) || exit 1;; esac; rm -rf $$older; done
	$(PEERS_SGLANG)/bin/python -m tests.peers.sglang_host $(PEERS_SGLANG)/lib/python*/site-packages --ops $(OPS) --seed $(SEED)
	$(PEERS_SGLANG)/bin/python -m tests.peers.sglang_defaults $(PEERS_SGLANG)/lib/python*/site-packages --release 0.5.23
	$(PEERS_SGLANG)/bin/python -m tests.peers.sglang_defaults $(PEERS_SGLANG)/0.5.20 --release 0.5.20
	$(PEERS_SGLANG)/bin/python -m tests.peers.routing sglang --seed $(SEED)
	$(PEERS_SGLANG)/bin/python -m tests.peers.routing sglang --seed $(SEED) --alike --arrivals 250 --burst 240
	$(PEERS_SGLANG)/bin/python -m tests.peers.routing sglang --seed $(SEED) --policy round_robin
	$(PEERS_SGLANG)/bin/python -m tests.peers.sglang_defaults $(PEERS_SGLANG)/0.5.9 --release 0.5.9
	$(PEERS_SGLANG)/bin/python -m tests.peers.command_lines sglang 0.5.23 $(PEERS_SGLANG)/lib/python*/site-packages
	$(PEERS_SGLANG)/bin/python -m tests.peers.command_lines sglang 0.5.20 $(PEERS_SGLANG)/0.5.20
	$(PEERS_VLLM)/bin/python -m tests.peers.sglang_exported $(PEERS_SGLANG)/lib/python*/site-packages

$(PEERS_SGLANG)/.made: pyproject.toml
	@$(PYTHON) -m venv $(PEERS_SGLANG)
	@$(PEERS_SGLANG)/bin/python -m pip --disable-pip-version-check --quiet install -e '.[kv-events]'
	@$(PEERS_SGLANG)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps sglang==0.5.23 sglang-router==0.3.2
	@$(PEERS_SGLANG)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --target $(PEERS_SGLANG)/0.5.20 \
		sglang==0.5.20
	@$(PEERS_SGLANG)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --target $(PEERS_SGLANG)/0.5.9 \
		sglang==0.5.9
	@touch $@

# Caches of released packages, each in its own environment (up to 6 GB); an unavailable package is skipped.
adapters: $(VENV)/.dev
	@$(BIN)/python -m tests.adapters --environments $(ADAPTERS) $(ARGS)

# Real llama-servers from their wheels, installed once below ~/.cache/cachesim/real; edited builds, and with BUILT=1 all,
# are built outside the tree. LLAMA_SERVER=PATH uses an existing binary (with COMMIT= if it does not
# print its build); IK_SOURCE=FOLDER, a checkout of ik_llama.cpp, or IK_SERVER=PATH uses that server. Stops after MINUTES or
# at Ctrl-C, and resumes.
ifneq ($(IK_SOURCE)$(IK_SERVER),)
live: $(LIVE)/.made
	@IK_SOURCE='$(IK_SOURCE)' IK_SERVER='$(IK_SERVER)' $(LIVE)/bin/python -m tests.live.ik -n $(N) --minutes $(MINUTES) --seed $(SEED) --jobs $(JOBS)
else
live: $(LIVE)/.made
	@$(LIVE)/bin/python -m tests.live.every -n $(N) --minutes $(MINUTES) --seed $(SEED) --jobs $(JOBS) --commit '$(COMMIT)' --kit '$(KIT)'
	@test -n "$(LLAMA_SERVER)$(KIT)" || $(LIVE)/bin/python -m tests.live.logs --jobs $(JOBS) --seed $(SEED)
	@test -n "$(LLAMA_SERVER)$(KIT)" || $(LIVE)/bin/python -m tests.live.repaired
	@test -n "$(LLAMA_SERVER)$(KIT)" || $(LIVE)/bin/python -m tests.live.export_all --jobs $(JOBS)
	@test -n "$(LLAMA_SERVER)$(KIT)" || $(LIVE)/bin/python -m tests.live.verify_all --jobs $(JOBS)
	@test -n "$(LLAMA_SERVER)$(KIT)" || $(LIVE)/bin/python -m tests.live.check_campaign --seed $(SEED)
	@test -n "$(LLAMA_SERVER)$(KIT)" || $(LIVE)/bin/python -m tests.live.check_spoilt
	@test -n "$(LLAMA_SERVER)$(KIT)" || $(LIVE)/bin/python -m tests.live.check_keyed
endif

$(LIVE)/.made: pyproject.toml
	@echo 'creating $(LIVE)' >&2
	@$(PYTHON) -m venv $(LIVE)
	@$(LIVE)/bin/python -m pip --disable-pip-version-check --quiet install -e '.[live]' cmake ninja
	@touch $@

# Logs of agents' conversations whose prompts take seconds, on the llama-server in the wheel of b11549, and the comparison of
# `import` with the truth. Resumes; N logs take about N minutes on one thread.
slow: $(VENV)/.dev $(XLLAMA)/.made
	@$(BIN)/python -m tests.logs.slow_logs.record --server $(XLLAMA)/bin/llama-server --out $(SLOW) --number $(N)
	$(BIN)/python -m tests.logs.slow_logs --logs $(SLOW) -j $(JOBS) $(ARGS)

# Planned requests to the server of the wheel, whose causes `watch` must name.
watch: $(VENV)/.dev $(XLLAMA)/.made
	@$(BIN)/python -m tests.live.watch_planned --server $(XLLAMA)/bin/llama-server --models $(MODELS) $(ARGS)

# The wheel has its own environment, so that nothing else can depend on it. Its launcher takes llama-server's flags:
# `make live LLAMA_SERVER=$PWD/.venv-xllama/bin/llama-server` needs no compiler.
$(XLLAMA)/.made: $(VENV)/.run
	@echo 'creating $(XLLAMA)' >&2
	@$(PYTHON) -m venv $(XLLAMA)
	@$(XLLAMA)/bin/python -m pip --disable-pip-version-check --quiet install --only-binary :all: $(XLLAMA_WHEEL)
	@$(BIN)/python -m cachesim.tools.live.llama_server.wheel_server $(XLLAMA)/bin/python $(XLLAMA)/bin
	@touch $@

# Recorded agent sessions under rule sets, kinds of model and settings: scenarios/WORKLOADS.md and its pictures. Resumes
# after an interruption; AGREE names a folder of sessions with sub-agents.
workloads: $(VENV)/.dev
	@$(BIN)/python -m tests.workloads $(SESSIONS) --jobs $(JOBS) $(if $(AGREE),--agree $(AGREE))

# Settings for agents, by memory, number of agents and kind of model: cachesim/pages/agents.md. Resumes after an
# interruption: tests/workloads/agents.jsonl has the cells that ran; a new cachesim needs a new file.
agents: $(VENV)/.dev
	@$(BIN)/python -m tests.workloads.agents $(ARGS)

# Pages in an installed browser: Debian's chromium, or CHROMIUM=PATH.
browser: $(BROWSER)/.made
	@CHROMIUM='$(CHROMIUM)' $(BROWSER)/bin/python -m pytest tests/browser -m browser $(ARGS)

$(BROWSER)/.made: pyproject.toml
	@$(PYTHON) -m venv $(BROWSER)
	@$(BROWSER)/bin/python -m pip --disable-pip-version-check --quiet install -e '.[browser]'
	@touch $@

# Static pages from the documents, rules, flags, log lines and scenarios; reads them again for broken links.
site: $(SITE)/.made
	@$(SITE)/bin/python -m cachesim.pages.site $(ARGS)

$(SITE)/.made: pyproject.toml
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip --disable-pip-version-check --quiet install -e '.[site]'
	@touch $@

# Every command over the corpus, with and without -OO; EVERY=10 takes every tenth scenario.
optimized: $(VENV)/.run
	@$(BIN)/python -m tests.optimized --every $(EVERY) $(ARGS)

# Each target once, in its smallest form, with nothing installed, as for a new user.
targets:
	@$(PYTHON) .ci/targets.py $(ARGS)
