"""``scenarios/BUGS.md``: the reported bugs, and the command that shows each.

``python -m tests.scenarios.bugs_page`` writes the page.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple, Sequence

from cachesim.scenarios.corpus import corpus_root
from tests.scenarios.reported_bugs import CLASSES, LATER, NOT, OUT, PARTLY, STRICT, Bug, Shown, bugs, kind_of, shown
from tests.scenarios.tables import short

KEYS = Path(__file__).with_name("keys.toml")
PAGE = corpus_root() / "BUGS.md"
ENGINES = {"LC": "llama.cpp", "LS": "LM Studio", "XB": "Forks and bindings of llama.cpp", "IK": "ik_llama.cpp",
           "ML": "mlx-lm and servers on it", "VL": "vLLM and LMCache", "SG": "SGLang", "OL": "Ollama"}  # fmt: skip
MEANS = {
    STRICT: "a scenario has the fault, a rule set without it is right, and the named rule alone makes the difference",
    PARTLY: "a scenario shows a part of it",
    NOT: "within scope, and nothing shows it",
    LATER: "images and adapters of older builds, offload to a CPU, and LMCache, which are not simulated yet",
    OUT: "a kernel, a fork, another program, or a kind of memory that is not simulated",
}
HEAD = """# Reported bugs

Cache bugs that users reported in public. The command shows the fault; `cachesim diff ID` compares the rule sets with
and without it. `make docs` writes this page from the tables `[[report]]` of the scenarios and from
`tests/scenarios/bugs.toml`. Tests check each strict report ([README.md](README.md) has the format).

"""
KEYS_HEAD = """
## Keys of caches

What a cache stores depends on more than tokens: on adapters, images and salts. In most of these reports, the cache is
searched by less. A command runs a scenario, or [`conform`](../cachesim/pages/own-cache.md#adapters-images-and-salts)
on a small cache of our own with the reported key (`repaired` after it: with a complete key).

| report | what a user saw | what the key lacked | command |
|---|---|---|---|
"""


class KeyReport(NamedTuple):
    """A report about the key of a cache. ``kinds``: those of ``tests.conformance.wrong_keys``."""

    threads: Sequence[str]
    title: str                   # what a user saw
    lacked: str                  # what the key lacked
    scenarios: Sequence[str] = ()    # ids
    kinds: Sequence[str] = ()
    why: str = ""


def key_reports() -> list[KeyReport]:
    """Return the reports about keys, in the order of their table."""
    return [KeyReport(**one) for one in tomllib.loads(KEYS.read_text("utf-8"))["report"]]


def page() -> str:
    """Return the text of the page."""
    table, reports = list(bugs().values()), shown()
    groups = [_group(name, [bug for bug in table if bug.entry.startswith(f"{key}-")], reports)
              for key, name in ENGINES.items()]  # fmt: skip
    return HEAD + _counts(table, reports) + "".join(groups) + KEYS_HEAD + "".join(map(_key_row, key_reports()))


def _counts(table: list[Bug], reports: dict[str, list[Shown]]) -> str:
    kinds = [kind_of(bug, reports) for bug in table]
    rows = [f"| {kind} | {kinds.count(kind)} | {MEANS[kind]} |\n" for kind in CLASSES]
    within = sum(kinds.count(kind) for kind in (STRICT, PARTLY, NOT))
    part = f"{kinds.count(STRICT)} of the {within} entries within scope (strict, partly, not) are strict"
    return (f"| class | entries | meaning |\n|---|---|---|\n{''.join(rows)}| all | {len(kinds)} | |\n\n"
            f"{part}: {100 * kinds.count(STRICT) / within:.0f} %.\n")  # fmt: skip


def _group(name: str, table: list[Bug], reports: dict[str, list[Shown]]) -> str:
    rows = "".join(_row(bug, reports.get(bug.entry, [])) for bug in table)
    head = "| entry | what a user saw | class | rule | command, or reason |\n|---|---|---|---|---|\n"
    return f"\n## {name}\n\n{head}{rows}"


def _row(bug: Bug, some: list[Shown]) -> str:
    threads = ", ".join(map(short, bug.threads))
    head = f"| {bug.entry} | {bug.title} ({threads})"
    if not some:
        return f"{head} | {bug.kind} | | {bug.why} |\n"
    report = some[0].report
    lacks = f"; lacks: {report.lacks}" if report.lacks else ""
    return f"{head} | {report.claim} | {report.rule} | `{some[0].command}`{lacks} |\n"


def _key_row(report: KeyReport) -> str:
    commands = [*(f"`cachesim run {name}`" for name in report.scenarios),
                *(f"`python -m tests.conformance.wrong_keys {name}`" for name in report.kinds)]  # fmt: skip
    return (f"| {', '.join(map(short, report.threads))} | {report.title} | {report.lacked} | "
            f"{'; '.join(filter(None, [*commands, report.why]))} |\n")  # fmt: skip


def counts(text: str) -> dict[str, int]:
    """Return the number of entries per class, as the page states them."""
    return {kind: int(re.findall(rf"^\| {kind} \| (\d+) \|", text, re.M)[0]) for kind in CLASSES}


def main() -> None:
    Path(PAGE).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
