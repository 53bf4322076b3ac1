"""Commands that install the packages of an extra. They list the packages, because cachesim is not on PyPI."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from cachesim.base.escaping import shell_command

NAME = "llm-cachesim"
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def install_command(extra: str) -> str:
    """Return the pip command that installs the requirements of an extra; it suits a checkout and a wheel."""
    return f"pip install {shell_command(requirements(extra))}"


def requirements(extra: str) -> list[str]:
    """Return the requirements of an extra, with those of the extras that it includes."""
    found: list[str] = []
    for entry in _declared(extra):
        ours = re.fullmatch(rf"{NAME}\[(.*)\]", entry)
        found += [more for name in ours[1].split(",") for more in requirements(name)] if ours else [entry]
    return list(dict.fromkeys(found))


def _declared(extra: str) -> list[str]:
    """Return the entries of an extra: from the checkout's pyproject.toml, which may be newer than the installed
    distribution, else from the distribution."""
    if PROJECT.is_file():
        project = tomllib.loads(PROJECT.read_text("utf-8")).get("project", {})
        if project.get("name") == NAME:
            return list(project["optional-dependencies"][extra])
    from importlib.metadata import requires  # takes as long to import as many commands

    mark = re.compile(rf"""\s*;\s*extra == ["']{re.escape(extra)}["']$""")
    return [mark.sub("", entry) for entry in requires(NAME) or () if mark.search(entry)]
