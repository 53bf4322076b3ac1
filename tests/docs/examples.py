"""Generated parts of the documents: outputs of commands, numbers, tables. ``make docs`` renews them."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Sequence

from cachesim.base.limits import TABLE
from tests.docs import block_cache_page, strategy_examples, trust
from tests.docs.fields import with_fields
from tests.docs.here import got

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = ROOT / "cachesim" / "pages"
DOCUMENTS = [README, *sorted(PAGES.glob("*.md"))]
"""The README, and the pages that it links to."""
BLOCK = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)```", re.S)
CODE = re.compile(r"```python\n# (?P<file>[\w/]+\.py)\nclass (?P<name>\w+).*?\n```", re.S)
"""A class of this repository, in a document."""
LIMITS_HEAD = "| limit | maximum | what is limited | protects | raised with |"
LIMITS = re.compile(re.escape(LIMITS_HEAD) + r"\n(?:\|.*\n)*")


def run(command: str) -> str:
    """Return the output of a cachesim command, or of a module of this repository, run from the root of the checkout.
    The command may end with pipes to ``head -N``, ``tail -N`` or ``sed -n A,Bp``."""
    command, *pipes = command.split(" | ")
    words = shlex.split(command)
    assert words[0] == "cachesim" or words[:2] == ["python", "-m"]
    module = words if words[0] == "cachesim" else words[2:]
    done = subprocess.run([sys.executable, "-m", *module], cwd=ROOT, capture_output=True, text=True, check=False)
    return piped(done.stdout, pipes)


def piped(text: str, pipes: Sequence[str]) -> str:
    """Return what these pipes let through of an output, without blanks at the ends of lines."""
    lines = [line.rstrip() for line in text.splitlines()]
    for pipe in pipes:
        lines = lines[_lines_of(pipe)]
    return "\n".join(lines) + "\n"


def _lines_of(pipe: str) -> slice:
    """Return the lines that a ``head``, ``tail`` or ``sed`` prints."""
    name, number = pipe.split()[0], pipe.split()[-1]
    if name == "sed":
        first, last = number.rstrip("p").split(",")
        return slice(int(first) - 1, int(last))
    return slice(None, int(number[1:])) if name == "head" else slice(-int(number[1:]), None)


def examples(text: str) -> list[tuple[str, str]]:
    """Return (command, output) of every console block."""
    return [(m["command"], m["output"]) for m in BLOCK.finditer(text)]


@cache
def names() -> dict[str, object]:
    """Return the names that fields of README and pages may use: totals of recordings, and a run with a loss."""
    return {**trust.NAMES, "loss": got("cachesim run llama-24143-entry-removed-dense -p llama_cpp@b11549")}


def limits_table() -> str:
    """Return the table of limits."""
    rows = [f"| {limit.name} | {limit.value:,} {limit.unit} | {limit.subject} | {limit.protects} | "
            f"{limit.option and f'`{limit.option}`'} |" for limit in TABLE]  # fmt: skip
    return "\n".join([LIMITS_HEAD, "|---|---|---|---|---|", *rows]) + "\n"


def class_block(file: str, name: str) -> str:
    """Return a class of a file of this repository as a block of a document."""
    source = (ROOT / file).read_text("utf-8")
    [found] = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name]
    return f"```python\n# {file}\n{ast.get_source_segment(source, found)}\n```"


def renewed(text: str) -> str:
    """Return the text with current outputs of its commands, limits, recordings, classes and numbers."""
    text = CODE.sub(lambda m: class_block(m["file"], m["name"]), text)
    text = LIMITS.sub(lambda _: limits_table(), text)
    text = trust.TABLE.sub(lambda _: trust.table(), text)
    text = strategy_examples.renewed(text)
    text = with_fields(text, names())
    return BLOCK.sub(lambda m: f"```console\n$ {m['command']}\n{run(m['command'])}```", text)


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(renewed(document.read_text()))
    block_cache_page.PAGE.write_text(block_cache_page.renewed(block_cache_page.PAGE.read_text()))
