"""Source files of ik_llama.cpp from which rules were read, by short names."""

from __future__ import annotations

from functools import partial

from cachesim.engines.rule import Source

ik_llama = partial(Source, "ikawrakow/ik_llama.cpp")
"""Source in ik_llama.cpp: file, function, commit."""

CONTEXT = "examples/server/server-context.cpp"
SERVER = "examples/server/server.cpp"
TOKENS = "examples/server/server-common.cpp"
TASK = "examples/server/server-task.cpp"
SPECULATIVE = "common/speculative.cpp"
LLAMA = "src/llama.cpp"
