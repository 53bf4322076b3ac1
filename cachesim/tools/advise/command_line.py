"""Which command line shows a case with its changes?"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.rule_files import typed
from cachesim.judging.try_command import case_words, line_words, set_words
from cachesim.tools.advise.changes import Setup
from cachesim.tools.advise.outcome import Trial


def command_words(one: Trial, base: Setup, asked: Sequence[str] = ()) -> list[str]:
    """What is typed behind ``cachesim try`` to see this: the line that the client sends then, or the case as it was
    named. Raises BadInput where no line can say it."""
    if any(change.client for change in one.changes):
        return line_words(one.case.scenario, one.case.profile)
    words = list(asked) or case_words(base.scenario, base.profile)
    if "-p" in words:
        del words[(at := words.index("-p")) : at + 2]
    changed = [word for change in one.changes for word in set_words(change.options)]
    return [words[0], "-p", typed(one.case.profile), *words[1:], *changed]


def sayable(one: Trial) -> bool:
    """Can a command line say what the client sends then?"""
    try:
        return not any(change.client for change in one.changes) or bool(line_words(one.case.scenario, one.case.profile))
    except BadInput:
        return False
