"""README names the commands that set cachesim up and test it, with what they print and how long they take."""

from __future__ import annotations

import re

import pytest

from tests.house import checks

README = (checks.ROOT / "README.md").read_text("utf-8")
MAKEFILE = (checks.ROOT / "Makefile").read_text("utf-8")
TIME = re.compile(r"# (one|two|three|four|seven) minutes?$")


def quick_start() -> str:
    """Return the text of README's section "Quick start"."""
    _, _, rest = README.partition("## Quick start\n")
    return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def commands() -> list[str]:
    """Return the lines of the section's first block of commands."""
    found = re.search(r"```sh\n(.*?)```", quick_start(), flags=re.DOTALL)
    return found.group(1).splitlines() if found else []


def last_line(command: str) -> str:
    """Return the last line of output that the section's table states for a command."""
    for row in quick_start().splitlines():
        if row.startswith(f"| `{command}` |"):
            return row.split("|")[3].strip()
    return ""


def test_quick_start_is_the_first_section():
    assert re.findall(r"^## (.*)$", README, flags=re.MULTILINE)[:1] == ["Quick start"]


@pytest.mark.parametrize(("place", "command"), [(0, "make run"), (1, "make test")])
def test_quick_start_names_the_command_and_its_time(place, command):
    line = commands()[place]
    assert line.startswith(f"{command} ")
    assert TIME.search(line)
    assert re.search(rf"^{command.removeprefix('make ')}:", MAKEFILE, flags=re.MULTILINE)


def test_the_stated_last_line_of_make_run_is_the_line_that_it_prints():
    printed = re.search(r'echo "(\$\(words \$\(THREADS\)\) cases .*?)"', MAKEFILE)
    threads = re.search(r"^THREADS .*foreach thread,([\d ]+),\$\(wildcard (.*?)\)\)$", MAKEFILE, flags=re.MULTILINE)
    assert printed and threads
    numbers, pattern = threads.group(1).split(), threads.group(2)
    cases = [file for number in numbers for file in checks.ROOT.glob(pattern.replace("$(thread)", number))]
    words = {r"$(words $(THREADS))": str(len(cases)), "$(BIN)": ".venv/bin"}
    line = re.sub(r"\$\$\(\(.*?\)\)", "N", printed.group(1))
    for variable, value in words.items():
        line = line.replace(variable, value)
    assert last_line("make run") == f"`{line}`"


def test_the_stated_last_line_of_make_test_is_that_of_pytest():
    assert last_line("make test") == "pytest's: `N passed, N skipped, N deselected in N s`"
    assert re.search(r"^test: .*\n\t@\$\(BIN\)/python -m pytest ", MAKEFILE, flags=re.MULTILINE)
