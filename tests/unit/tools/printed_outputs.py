"""Outputs of commands: a text file for each tool shows commands, each with what it prints and its exit code.

After an intended change run python -m tests.unit.tools.printed_outputs, and read the difference.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from pathlib import Path

from cachesim.base.console import WIDTH, OutputOptions
from cachesim.base.limits import lift
from cachesim.cli.main import main

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
SIGN, END = ">>> cachesim ", "exit code "


def file_of(tool: str) -> Path:
    """Return the file of a tool."""
    return FOLDER / tool / "outputs.txt"


def read(tool: str) -> dict[str, str]:
    """Return the outputs in a tool's file, by command."""
    found: dict[str, str] = {}
    for part in file_of(tool).read_text("utf-8").split(f"\n{SIGN}")[1:]:
        command, _, output = part.partition("\n")
        found[command] = output
    return found


def printed(command: str) -> str:
    """Return what a command prints at the root of the checkout, and its exit code."""
    stdout, stderr = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            code = main(shlex.split(command))
    finally:
        os.chdir(before)
        lift({})
        OutputOptions.quiet, OutputOptions.colour, OutputOptions.columns = False, "auto", WIDTH
    lines = [line.rstrip() for line in (stdout.getvalue() + stderr.getvalue()).splitlines()]
    return "".join(f"{line}\n" for line in lines) + f"{END}{code}\n"


def write() -> None:
    """Write the outputs of the commands in all files."""
    for file in sorted(FOLDER.glob("*/outputs.txt")):
        head = file.read_text("utf-8").partition("\n")[0]
        commands = [*read(file.parent.name)]
        file.write_text("".join([f"{head}\n", *(f"\n{SIGN}{one}\n{printed(one)}" for one in commands)]), "utf-8")


if __name__ == "__main__":
    write()
