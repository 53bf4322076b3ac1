"""Server flags on the command line: ``-np 2 -kvu --ctx-checkpoints 8`` after a command that has ``--set`` is equivalent
to ``--set`` for each flag.

cachesim's own options take precedence: ``-p`` is the profile and ``-j`` the number of processes, whatever a server
calls so. The engine of the profile defines the flags; without a profile, the flags of every engine are known.
"""

from __future__ import annotations

from argparse import ArgumentParser
from itertools import pairwise
from typing import TYPE_CHECKING, Iterable, Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted

if TYPE_CHECKING:
    from cachesim.engines.capabilities import Manual


class SimulatorCommand(NamedTuple):
    """Command line without server flags, and the server's options as ``--set`` arguments. ``silent``: server flags that
    have no effect here."""

    argv: list[str]
    settings: list[str]
    silent: list[str]


def take(argv: Sequence[str], parser: ArgumentParser) -> SimulatorCommand:
    """Split the server flags from the command line. Raise BadInput for a flag without its value."""
    ours, found = parser._option_string_actions, SimulatorCommand([], [], [])
    todo = list(argv)[::-1]
    while todo:
        word = todo.pop()
        if word == "--":
            found.argv.extend([word, *todo[::-1]])
            break
        if not word.startswith("-") or len(word) < 2 or word.partition("=")[0] in ours:
            found.argv.append(word)
            if word == "--set" and todo and todo[-1][0:1] == "-" and todo[-1] not in ours:    # `--set -np 2` is `-np 2`
                found.argv.pop()
            elif todo and word in ours and ours[word].nargs is None:
                found.argv.append(todo.pop())
            continue
        if not _take_flag(word, todo, _manuals(argv), found):
            found.argv.append(word)
    return found


def _manuals(argv: Sequence[str]) -> Iterator[Manual]:
    """Yield the manual of the engine whose profile the command line names, else of all engines."""
    from cachesim.engines.registry import ENGINES

    named = [after.partition("@")[0] for word, after in pairwise(argv) if word in PROFILE]
    for name in [name for name in named if name in ENGINES] or ENGINES:
        yield ENGINES[name].manual


PROFILE = ("-p", "--profile")


def _take_flag(word: str, todo: list[str], manuals: Iterable[Manual], found: SimulatorCommand) -> bool:
    """Take a flag and its value from ``todo``. False if no server has the flag."""
    name, equals, text = word.partition("=")
    for manual in manuals:
        for flag in manual.flags:
            if name not in (*flag.spellings, *flag.off):
                continue
            if isinstance(flag.default, bool):
                text = text if equals else todo.pop() if todo and todo[-1] in ("on", "off") else "true"
            elif not equals:
                text = _value(name, todo)
            found.settings.append(f"{name}={text}")
            return True
        if name in manual.silent:
            found.silent.append(word)
            for _ in range(0 if equals else manual.silent[name]):
                _value(name, todo)
            return True
    return False


def _value(name: str, todo: list[str]) -> str:
    if not todo:
        raise BadInput(f"server flag {quoted(name)} has no value")
    return todo.pop()


def spellings(argv: Sequence[str]) -> list[str]:
    """Return every spelling of every flag of the engines that the command line may mean."""
    return [word for manual in _manuals(argv) for flag in manual.flags for word in (*flag.spellings, *flag.off)]
