"""Conversations that a search draws, by engine and seed, in drawn_conversations.txt.

A seed stays the same conversation, so that a failure of a campaign can be drawn again. After an intended change
run python -m tests.unit.tools.search.drawn_conversations, and read the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cachesim.engines.registry import BUILTIN
from cachesim.scenarios.notation.canonical_text import spell
from cachesim.tools.search.drawn_conversation import draw_conversation

FILE = Path(__file__).with_suffix(".txt")
SEEDS = range(40)
SPECIAL = (("mmproj=causal",), ("lora_scaled=0@M,0",))
"""Options of llama.cpp with which requests have images, or name adapters."""


def lines() -> Iterator[str]:
    """Yield the drawn conversations, a line each."""
    for engine in BUILTIN:
        yield from (_line(engine, seed) for seed in SEEDS)
    for given in SPECIAL:
        yield from (_line("llama_cpp", seed, given) for seed in SEEDS)


def _line(engine: str, seed: int, given: tuple[str, ...] = ()) -> str:
    case = draw_conversation(seed, engine, given)
    options = " ".join(f"{name}={value}" for name, value in case.given().items())
    return f"{engine}, seed {seed}, {case.model}: {spell(case.line)}; {options}"


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in lines()), "utf-8")
