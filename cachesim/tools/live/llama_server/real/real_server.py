"""Real servers that a command line names: a build whose wheel is installed, or the path of a llama-server."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple, Sequence

from cachesim.base.console import ask, note
from cachesim.base.errors import BadInput, first_of, quoted
from cachesim.base.untrusted_files import FILE, kind
from cachesim.engines.build_names import resolve_name
from cachesim.engines.registry import profiles
from cachesim.tools.live.llama_server.process import version_text
from cachesim.tools.live.llama_server.real.installation import cache_folder, install, is_installed, launcher_of
from cachesim.tools.live.llama_server.real.wheels import MIB, Wheel, find_wheel

ENGINE = "llama_cpp"
LOGGED = 7376               # oldest wheel; its log is read, and its pending work can be awaited
MARKED = 10068              # first build that marks a place in its log, and user messages in a prompt of tokens


class RealServer(NamedTuple):
    """A real llama-server. ``build``: such as b11549; ``profile``: the rule set of this build; ``notes``: on the rule
    set, for the reader."""

    build: str
    binary: Path
    profile: str
    source: str                          # where it comes from: the wheel, or the path
    notes: tuple[str, ...] = ()

    @property
    def is_logged(self) -> bool:
        """True if its log is read; else only its answers are compared."""
        return self.number >= LOGGED

    @property
    def takes_marks(self) -> bool:
        """True if a request marks a place in its log, and ``message_delimiters`` mark user messages in tokens."""
        return self.number >= MARKED

    @property
    def number(self) -> int:
        """Number of the build."""
        return int(self.build.removeprefix("b"))


def find_servers(text: str, may_install: bool) -> list[RealServer]:
    """Return the servers that ``BUILD[,BUILD...]`` names; a BUILD with a separator is a path. Installs
    missing wheels if it may, or the user agrees. Raise BadInput."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise BadInput("expected a build such as b11549, or the path of a llama-server", hint="cachesim real list")
    wheels = {name: find_wheel(name) for name in names if not is_path(name)}
    require_installed(list(wheels.values()), may_install)
    return [wheel_server(wheels[name]) if name in wheels else own_server(Path(name)) for name in names]


def is_path(name: str) -> bool:
    """True if a name is the path of a program. A name without a separator is a build, also where a file has it."""
    return os.sep in name


def require_installed(wheels: Sequence[Wheel], may_install: bool) -> None:
    """Install the wheels that are missing. Raise BadInput without permission: ``may_install``, or a yes on a
    terminal."""
    missing = list(dict.fromkeys(wheel for wheel in wheels if not is_installed(wheel)))
    if not missing:
        return
    builds = first_of([wheel.build for wheel in missing])
    if not may_install and not _agreed(missing):
        raise BadInput(f"not installed: {builds}", hint="--install, or cachesim real install BUILD")
    for wheel in missing:
        note(f"installing {wheel.announced} (about {MIB} MiB) below {cache_folder()}")
        install(wheel)


def _agreed(missing: Sequence[Wheel]) -> bool:
    """Ask on a terminal whether wheels may be installed."""
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    what = ", ".join(wheel.requirement for wheel in missing)
    answer = ask(f"Install {what} (about {MIB * len(missing)} MiB) below {cache_folder()}? [y/N] ")
    return answer in ("y", "yes")


def wheel_server(wheel: Wheel) -> RealServer:
    """Return the server of an installed wheel."""
    profile, notes = rule_set_of(wheel.build)
    return RealServer(wheel.build, launcher_of(wheel), profile, wheel.requirement, notes)


def own_server(binary: Path) -> RealServer:
    """Return the server of a program that the user built. Raise BadInput if it does not report its build."""
    if kind(binary) != FILE:
        raise BadInput("no such llama-server", file=str(binary))
    found = re.search(r"version: (?:.*build )?(\d+)\b", version_text(binary))
    if found is None or not int(found[1]):
        raise BadInput("the server does not report its build", file=str(binary))
    profile, notes = rule_set_of(f"b{found[1]}")
    return RealServer(f"b{found[1]}", binary.absolute(), profile, str(binary), notes)


def rule_set_of(build: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of the rule set of a build, and notes on it. Raise BadInput for a build without rules."""
    name = f"{ENGINE}@{build}"
    if name in profiles():
        return name, ()
    found = resolve_name(name)
    if found is None:
        raise BadInput(f"no rule set for the build {quoted(build)}", hint="cachesim profiles list")
    return found.profile, (*filter(None, [found.note]), *found.unknown)
