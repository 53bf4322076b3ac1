"""Every scenario names a source that a reader can open, and FAULTS.md describes the faults of the scenarios."""

from __future__ import annotations

import re
import tomllib
from functools import cache

from tests.house.checks import ROOT

CORPUS = ROOT / "scenarios"
FAULTS = "scenarios/FAULTS.md"
THREAD = re.compile(r"[\w.-]+/[\w.-]+#\d+")
LINK = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/blob/[\w.-]+/[\w./-]+#[\w.]+")


@cache
def sources() -> dict[str, list[str]]:
    """Return the sources of each scenario."""
    return {file.stem: tomllib.loads(file.read_text("utf-8"))["source"] for file in sorted(CORPUS.rglob("*.toml"))}


@cache
def entries() -> dict[str, str]:
    """Return the entries of FAULTS.md by anchor: the single word of the heading in lower case."""
    parts = re.split(r"^### (\S+)$", (ROOT / FAULTS).read_text("utf-8"), flags=re.MULTILINE)
    return {heading.lower(): text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}


def reachable(source: str) -> bool:
    """Return True for a public thread, a place in public source code, a recording of this repository, an entry of
    FAULTS.md, and for a case of ours."""
    if source.startswith(FAULTS + "#"):
        return source.partition("#")[2] in entries()
    if source.startswith("tests/data/"):
        return (ROOT / source).is_file()
    return source == "cachesim" or bool(THREAD.fullmatch(source) or LINK.fullmatch(source))


def test_every_source_can_be_reached() -> None:
    assert [(name, one) for name, found in sources().items() for one in found if not reachable(one)] == []
    assert [name for name, found in sources().items() if not len(set(found)) == len(found) > 0] == []


def test_what_is_not_public_is_refused() -> None:
    private = ["specification 7, D1", "catalogue LC-02", "history 5.2", "trace llama_cpp/x", "mlx-lm#976",
               "scenarios/FAULTS.md#none", "tests/data/none.json", "ggml-org/llama.cpp#24143, item 2"]  # fmt: skip
    assert [source for source in private if reachable(source)] == []


def test_every_fault_has_a_scenario_or_says_why_not() -> None:
    cited = {source.partition("#")[2] for found in sources().values() for source in found if FAULTS in source}
    told = {anchor for anchor, text in entries().items() if "No scenario:" in re.sub(r"\s+", " ", text)}
    assert set(entries()) - cited == told


def test_entries_are_short_and_begin_with_what_happens() -> None:
    assert [a for a, text in entries().items() if not text.split("\n\n##")[0].startswith("**")] == []
    assert [a for a, text in entries().items() if len(text.split("\n\n##")[0].split("\n\n")) != 1] == []
