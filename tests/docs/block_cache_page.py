"""Generated parts of block-cache.md: the outputs of its programs and commands. ``make docs`` renews them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Callable, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(__file__).with_name("block-cache.md")
PART = re.compile(r"```python\n(.*?)```", re.S)
FIRST_LINE = re.compile(r'"""(\w+\.py): ')
POINT = re.compile(r'\[project\.entry-points\."(cachesim\.\w+)"\]\n(\w+) = "([\w:]+)"')
CONSOLE = re.compile(r"```console\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)```", re.S)


class EntryPoint(NamedTuple):
    """An entry point that the page states."""

    group: str
    name: str
    target: str


def files(text: str) -> dict[str, str]:
    """Return the files of the page by name. A block of code that does not begin with the name of a file continues the
    file before: with a method, or with a definition of its own."""
    found: dict[str, str] = {}
    name = ""
    for code in PART.findall(text):
        first = FIRST_LINE.match(code)
        if first is not None:
            name = first[1]
            found[name] = code
        elif code.startswith(" "):
            found[name] += f"\n{code}"
        else:
            found[name] += f"\n\n{code}"
    return found


def entry_points(text: str) -> list[EntryPoint]:
    """Return the entry points that the page states."""
    return [EntryPoint(*point) for point in POINT.findall(text)]


def install(folder: Path, code: dict[str, str], points: list[EntryPoint]) -> None:
    """Write the files and the metadata of an installed package."""
    for name, text in code.items():
        (folder / name).write_text(text)
    info = folder / "block_cache-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: block-cache\nVersion: 1.0\n")
    lines = [f"[{point.group}]\n{point.name} = {point.target}\n" for point in points]
    (info / "entry_points.txt").write_text("\n".join(lines))


def with_outputs(text: str, run: Callable[[list[str]], str]) -> str:
    """Return the page with what ``run`` prints for each command, without blanks at the ends of lines."""

    def renew(found: re.Match[str]) -> str:
        lines = [line.rstrip() for line in run(shlex.split(found["command"])).splitlines()]
        return "\n".join(["```console", f"$ {found['command']}", *lines, "```"])

    return CONSOLE.sub(renew, text)


def renewed(text: str) -> str:
    """Return the page with current outputs, each of a new process in a folder with the installed package."""
    with TemporaryDirectory() as folder:
        install(Path(folder), files(text), entry_points(text))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, str(ROOT)]), "COLUMNS": "80"}

        def run(words: list[str]) -> str:
            program = words[1:] if words[0] == "python" else ["-m", *words]
            done = subprocess.run([sys.executable, *program], cwd=folder, env=env, capture_output=True, text=True,
                                  check=False)  # fmt: skip
            return done.stdout

        return with_outputs(text, run)
