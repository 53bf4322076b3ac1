"""What the documents show: outputs of commands, numbers, tables, the picture of a run. ``make docs`` renews them."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

from rich.console import Console

from cachesim.commands.jobs import Job, run_job
from cachesim.limits import TABLE
from cachesim.reports.run_table import closing_line, run_report
from cachesim.scenarios.load import load
from tests.docs import trust
from tests.docs.fields import with_fields
from tests.docs.here import got

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = ROOT / "cachesim" / "pages"
DOCUMENTS = [README, *sorted(PAGES.glob("*.md"))]
"""The README, and the pages that it leads to."""
PICTURE = ROOT / "tests" / "docs" / "run.svg"
BLOCK = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)```", re.S)
LIMITS_HEAD = "| limit | at most | of | protects | lifted by |"
LIMITS = re.compile(re.escape(LIMITS_HEAD) + r"\n(?:\|.*\n)*")
SHOWN = "scenarios/llama_cpp/seed-24143-hybrid.toml"
PROFILES = ("llama_cpp@head", "llama_cpp@pr24143-on-head")

# rich's own form without the fonts that it would fetch from elsewhere
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
<rect fill="#292929" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def run(command: str) -> str:
    """What a cachesim command, or a module of ours, prints, run from the root of the checkout."""
    words = shlex.split(command)
    assert words[0] == "cachesim" or words[:2] == ["python", "-m"]
    module = words if words[0] == "cachesim" else words[2:]
    done = subprocess.run([sys.executable, "-m", *module], cwd=ROOT, capture_output=True, text=True, check=False)
    return "\n".join(line.rstrip() for line in done.stdout.splitlines()) + "\n"


def examples(text: str) -> list[tuple[str, str]]:
    """(command, output) of every console block."""
    return [(m["command"], m["output"]) for m in BLOCK.finditer(text)]


@cache
def names() -> dict[str, object]:
    """What the fields of README and pages may name: sums of recordings, and the run of the README's picture."""
    return {**trust.NAMES, "loss": got("cachesim run seed-24143-dense -p llama_cpp@b11549")}


def limits_table() -> str:
    """The table of limits."""
    rows = [f"| {one.name} | {one.value:,} {one.unit} | {one.of} | {one.protects} | {one.flag and f'`{one.flag}`'} |"
            for one in TABLE]  # fmt: skip
    return "\n".join([LIMITS_HEAD, "|---|---|---|---|---|", *rows]) + "\n"


def renewed(text: str) -> str:
    """The text with the output that its commands give today, and with today's limits, recordings and numbers."""
    text = LIMITS.sub(lambda _: limits_table(), text)
    text = trust.TABLE.sub(lambda _: trust.table(), text)
    text = with_fields(text, names())
    return BLOCK.sub(lambda m: f"```console\n$ {m['command']}\n{run(m['command'])}```", text)


def picture() -> str:
    """The run that the README shows, as SVG; the same bytes everywhere."""
    scenario = load(ROOT / SHOWN)
    runs = [run_job(Job(scenario, profile, "exact")) for profile in PROFILES]
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for data in runs:
        console.print(run_report(data))
    console.print(closing_line(runs))
    text = console.export_svg(title="", code_format=SVG, unique_id="run")
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


if __name__ == "__main__":
    for document in DOCUMENTS:
        document.write_text(renewed(document.read_text()))
    PICTURE.write_text(picture())
