"""Servers that a search draws, by seed and model: a text file for each engine.

A seed stays the same server, so that a failure that a campaign reports can be drawn again. After an intended change run
python -m tests.unit.engines.drawn_servers, and read the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cachesim.engines.capabilities import DrawnServer
from cachesim.engines.registry import BUILTIN
from cachesim.model.hash_mixing import Rng

FOLDER = Path(__file__).parent
SEEDS = range(12)
ENGINES = ("vllm", "sglang")


def file_of(engine: str) -> Path:
    """Return the file of an engine."""
    return FOLDER / engine / "drawn_servers.txt"


def lines(engine: str) -> Iterator[str]:
    """Yield the drawn servers of an engine and their fields, a line each."""
    manual = BUILTIN[engine].manual
    for model in manual.drawn:
        for seed in SEEDS:
            yield f"seed {seed}, {model}: {described(manual.draw(Rng(seed), model))}"


def described(drawn: DrawnServer) -> str:
    """Return a drawn server in a line."""
    options = " ".join(f"{name}={value}" for name, value in drawn.server.items())
    numbers = f"edges {drawn.edges}, most {drawn.most}, images {drawn.images}, answers {drawn.answers}"
    return f"{options}; {numbers}; model {drawn.model}"


def write() -> None:
    """Write the files of all engines."""
    for engine in ENGINES:
        file_of(engine).write_text("".join(f"{line}\n" for line in lines(engine)), "utf-8")


if __name__ == "__main__":
    write()
