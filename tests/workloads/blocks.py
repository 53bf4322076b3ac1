"""Parts of the page about servers with a block pool, and with a radix tree.

    python -m tests.workloads.blocks LINES        replace the parts in the page for which there are lines
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Iterable, Mapping

from cachesim.tools.workload.cell_jobs import summed
from tests.workloads.cells import read_lines
from tests.workloads.grid import MODELS, SETTINGS_BLOCKS, SETTINGS_TREES
from tests.workloads.markdown import over, share, table
from tests.workloads.shared import answered

Line = dict[str, Any]
Cells = dict[tuple[str, str, str], list[Line]]
COMPARED = ("block size 528", "528, retention interval -1")
BEFORE = "## Distance from the bound\n"
"""Heading that follows the part."""
TEXT = """## vLLM: block size and retention

One session at a time, 16 tokens simulated as one, so that blocks of 16 and of 528 tokens are whole. A hybrid model of
a few billion parameters gets blocks of about 528 tokens, because the page of a recurrent state is as large as the
rows of so many tokens. A step evaluates at most 2,048 tokens unless stated otherwise. The pool has 4 million tokens
unless stated otherwise, so that blocks are evicted only in the row with a smaller pool; a request that does not fit
into it gets no answer. `python -m tests.workloads.cells SESSIONS --out LINES --blocks --scale 16 --how counted` runs
the cells, and `python -m tests.workloads.blocks LINES` writes this part.

Evaluated tokens, per cent of the prompt tokens of the answered requests; in parentheses above the bound. A cell that
did not run in all sessions names the number of sessions, the shortest ones.
"""

TREES_TEXT = """## SGLang: chunks, states and eviction

One session at a time, 16 tokens simulated as one. The pool has 4 million tokens and 4,096 states unless stated
otherwise, so that nothing is evicted. Without the extra buffer a recurrent model keeps a state at the end of each chunk
and each request. The table is made as the one of vLLM.

Evaluated tokens, per cent of the prompt tokens of the answered requests; in parentheses above the bound. A cell that
did not run in all sessions names the number of sessions, the shortest ones.
"""


def parts(lines: Iterable[Line]) -> list[str]:
    """Return the parts for which there are lines."""
    lines = list(lines)
    made = ((blocks_part, SETTINGS_BLOCKS), (trees_part, SETTINGS_TREES))
    return [part(lines) for part, rules in made if any(one["rules"] in rules for one in lines)]


def trees_part(lines: Iterable[Line]) -> str:
    """Return the text and the table about servers with a radix tree."""
    return "\n".join([TREES_TEXT, _settings(_cells(lines, SETTINGS_TREES), SETTINGS_TREES, "SGLang"), ""])


def blocks_part(lines: Iterable[Line]) -> str:
    """Return the text and the table about servers with a block pool."""
    cells = _cells(lines, SETTINGS_BLOCKS)
    return "\n".join([TEXT, _settings(cells, SETTINGS_BLOCKS, "vLLM"), _judged(cells)])


def _cells(lines: Iterable[Line], rules: Iterable[str]) -> Cells:
    cells: Cells = {}
    for one in lines:
        if one["rules"] in rules:
            cells.setdefault((one["rules"], one["kind"], one["setting"]), []).append(one)
    return cells


def _settings(cells: Cells, every: Mapping[str, Iterable[str]], engine: str) -> str:
    """Return a table: settings of each rule set by kinds of model."""
    most = max((len(found) for found in cells.values()), default=0)

    def cell(rules: str, kind: str, setting: str) -> str:
        found = cells.get((rules, kind, setting))
        if not found:
            return "not run"
        one = summed(found)
        few = "" if one["sessions"] == most else f", {one['sessions']} sessions"
        return f"{answered(one)} ({over(one)}{few})"

    rows = [[setting, rules.partition(" ")[2], *(cell(rules, kind, setting) for kind in MODELS)]
            for rules, settings in every.items() for setting in settings]  # fmt: skip
    return table(["setting", engine, *(f"{kind} ({model})" for kind, model in MODELS.items())], rows)


def _judged(cells: Cells) -> str:
    """Return the judged answers in a sentence, and the hybrid model's bound with two settings."""
    judged = [one for found in cells.values() for one in found if one["wrong"] is not None]
    newest = next(iter(SETTINGS_BLOCKS))
    hybrid = {setting: summed(found) for (rules, kind, setting), found in cells.items()
              if (rules, kind) == (newest, "hybrid")}  # fmt: skip
    bound = ""
    if all(setting in hybrid for setting in COMPARED):
        plain, dense = (hybrid[setting] for setting in COMPARED)
        bound = (f"The bound of the hybrid model is {share(plain['least'], plain['prompt'])} %. By default few states "
                 f"are kept ({answered(plain)} % are evaluated); with `--prefix-cache-retention-interval -1` a state "
                 f"stays at the end of every step ({answered(dense)} %). ")  # fmt: skip
    if not judged:
        return f"{bound}Answers were not judged.\n"
    wrong, every = sum(one["wrong"] for one in judged), sum(one["answered"] for one in judged)
    return (f"{bound}Of {every:,} judged answers ({len(judged)} runs of a session; no column was judged completely) "
            f"{wrong:,} are wrong.\n")


def replaced(page: str, part: str) -> str:
    """Return the page with the part in its place."""
    head = part.split("\n", 1)[0]
    without = re.sub(rf"^{re.escape(head)}\n.*?(?=^## )", "", page, flags=re.S | re.M)
    return without.replace(BEFORE, f"{part}\n{BEFORE}", 1)


if __name__ == "__main__":
    from tests.workloads.page import PAGE

    for part in parts(read_lines(Path(sys.argv[1])).values()):
        PAGE.write_text(replaced(PAGE.read_text("utf-8"), part), "utf-8")
