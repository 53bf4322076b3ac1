"""Commands that install the packages of an extra. They name these packages, because ours is on no index."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.metadata import requires
from pathlib import Path

NAME = "llm-cachesim"
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def install_command(extra: str) -> str:
    """The command that installs what an extra needs, from a checkout and from a wheel alike."""
    return f"pip install {' '.join(map(shlex.quote, requirements(extra)))}"


def requirements(extra: str) -> list[str]:
    """What an extra and the extras in it need."""
    found: list[str] = []
    for one in _declared(extra):
        ours = re.fullmatch(rf"{NAME}\[(.*)\]", one)
        found += [more for name in ours[1].split(",") for more in requirements(name)] if ours else [one]
    return list(dict.fromkeys(found))


def _declared(extra: str) -> list[str]:
    """The entries of an extra: those of a checkout's pyproject.toml, which may be newer than what was installed, else
    those of the installed distribution."""
    if PROJECT.is_file():
        project = tomllib.loads(PROJECT.read_text("utf-8")).get("project", {})
        if project.get("name") == NAME:
            return list(project["optional-dependencies"][extra])
    mark = re.compile(rf"""\s*;\s*extra == ["']{re.escape(extra)}["']$""")
    return [mark.sub("", one) for one in requires(NAME) or () if mark.search(one)]
