"""Short names of the llama.cpp files from which rules were read."""

from __future__ import annotations

from functools import partial

from cachesim.engines.rule import Source

llama_cpp = partial(Source, "ggml-org/llama.cpp")
"""Source in llama.cpp: file, function, commit or build."""

CONTEXT = "tools/server/server-context.cpp"
TASK = "tools/server/server-task.cpp"
SERVER = "tools/server/server.cpp"
RECURRENT = "src/llama-memory-recurrent.cpp"
KV_CACHE = "src/llama-kv-cache.cpp"
HYBRID = "src/llama-memory-hybrid.cpp"
COMMON = "common/common.cpp"
SAMPLING = "common/sampling.cpp"
SPECULATIVE = "common/speculative.cpp"
