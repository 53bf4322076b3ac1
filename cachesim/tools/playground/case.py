"""Cases of the playground: a line, a model, flags and rule sets from a web page, and their runs.

A web page can name neither a file nor code: rule sets are looked up and never executed; models and flags are words of
the engine's manual.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from shlex import split
from typing import Any, Mapping, NamedTuple

from cachesim.base.errors import BadInput, OverLimit, quoted
from cachesim.base.escaping import markup, shell_word
from cachesim.base.json_shapes import check, each, record, text
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import present_name, profiles
from cachesim.engines.rule_files import is_rule_file
from cachesim.engines.shared.model_sizes import sized_name
from cachesim.judging.reproduce_command import case_command
from cachesim.judging.verdict_text import verdict_line
from cachesim.scenarios.engine_cases import profiles_by_engine, settings_of
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.option_checks import check_profile, manual_of, parse_settings
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.picture.engine_bars import bars_html
from cachesim.tools.picture.timeline import DrawingFrame, timeline
from cachesim.tools.run.arguments import MODEL
from cachesim.tools.run.engine_flags import take
from cachesim.tools.run.pictured_runs import run_pictured

Data = dict[str, Any]
MOST = 5                     # rule sets that are compared
FIELDS = record({"line": text, "model": text, "flags": text, "profiles": each(text)})
COLUMN = re.compile(r"column (\d+), ")


class PlaygroundCase(NamedTuple):
    """A conversation under each engine that the rule sets belong to, the rule sets in the order of the page, and flags
    that have no effect here."""

    scenarios: Mapping[str, Scenario]
    profiles: tuple[str, ...]
    silent: tuple[str, ...]

    @property
    def scenario(self) -> Scenario:
        """The conversation under the engine of the first rule set."""
        return self.scenario_of(self.profiles[0])

    def scenario_of(self, profile: str) -> Scenario:
        """Return the conversation under the engine of a rule set."""
        return self.scenarios[profile.partition("@")[0]]


def read_case(fields: object) -> PlaygroundCase:
    """Return the case of a page's fields: ``line``, ``model``, ``flags`` and ``profiles``. Flags are read as those of
    the first rule set's engine; another engine gets those that it has. Raise BadInput."""
    check(fields, FIELDS)
    assert isinstance(fields, Mapping)
    given = tuple(map(_profile, dict.fromkeys(fields.get("profiles") or (DEFAULT_PROFILE,))))
    if len(given) > MOST:
        raise BadInput(f"at most {MOST} rule sets are compared")
    for name in given:
        check_profile(name, name.partition("@")[0], profiles().keys())
    named = profiles_by_engine(given)
    flags = read_flags(fields.get("flags", ""), given[0])
    line, model = fields.get("line", "").strip(), fields.get("model", "").strip() or MODEL
    scenarios = {}
    for engine, names in named.items():
        server = parse_settings(settings_of(engine, flags.settings, list(named)), engine)
        _refuse_files(server, engine)
        scenarios[engine] = from_line(line, model=model, profiles=tuple(names), server=server)
    return PlaygroundCase(scenarios, given, tuple(flags.silent))


def _refuse_files(server: Mapping[str, Option], engine: str) -> None:
    """Raise BadInput for a real model that is not known by name: a page cannot name a file."""
    sizes = manual_of(engine).sizes
    named = str(server.get(sizes.name, "")) if sizes else ""
    if named and not sized_name(named):
        raise BadInput(f"unknown model {quoted(named)}", hint="a page names no file")


class Flags(NamedTuple):
    """Flags as ``name=value`` settings, and flags that have no effect in the simulator."""

    settings: list[str]
    silent: list[str]


def _words(typed: str) -> list[str]:
    """Return the words of a text; quotes hold the spaces of a value. Raise BadInput for an open quote."""
    try:
        return split(typed)
    except ValueError:
        raise BadInput(f"flags: a quote is not closed: {quoted(typed)}") from None


def read_flags(typed: str, profile: str) -> Flags:
    """Return the flags in a text, ``-np 2 cache_ram=0``. Raise BadInput for words that are not flags of the engine."""
    parser = ArgumentParser(add_help=False)
    parser.add_argument("-p")                            # selects the engine in ``take``
    found = take(["-p", profile, *_words(typed)], parser)
    rest = found.argv[2:]
    for word in rest:
        if "=" not in word or word.startswith("-"):
            raise BadInput(f"unknown flag {quoted(word)}", hint=f"cachesim options {profile.partition('@')[0]}")
    return Flags([*found.settings, *rest], found.silent)


def _profile(name: str) -> str:
    """Return the present name of a rule set. Raise BadInput for a file of rules, which is code."""
    if is_rule_file(name):
        cause = f"the playground does not run files of rules: {quoted(name)}"
        raise BadInput(cause, hint="cachesim run LINE -p FILE.py")
    return present_name(name)


def answer(fields: object) -> Data:
    """Return the result for a page: markup of the timeline, command and scenario file, or the error."""
    try:
        return _result(read_case(fields))
    except BadInput as bad:
        place = COLUMN.match(bad.cause)
        hint = "run it on the command line, where limits can be raised" if isinstance(bad, OverLimit) else bad.hint
        return problem(bad.cause, hint, int(place[1]) if place else 0)


def problem(error: str, hint: str = "", column: int = 0) -> Data:
    """Return the result of a case that cannot be simulated. ``column``: place in the line from 1, 0 = unknown."""
    return {"error": error, "hint": hint, "column": column}


def _result(case: PlaygroundCase) -> Data:
    scenario = case.scenario
    runs = [run_pictured(case.scenario_of(name), name, events=True) for name in case.profiles]
    notes = list(dict.fromkeys(one.model_note for one in case.scenarios.values() if one.model_note))
    if case.silent:
        notes.append(f"without effect: {', '.join(case.silent)}")
    command = case_command(scenario, case.profiles[0]) + "".join(f" -p {shell_word(p)}" for p in case.profiles[1:])
    logs = [log for run in runs if (log := run.told()) is not None]
    scenes = [run.scene() for run in runs]
    html = bars_html(scenes) + timeline(scenes, logs, [_heading(run.data) for run in runs])
    return {"html": html, "notes": notes, "command": command, "toml": scenario_text(case)}


def _heading(run: Data) -> DrawingFrame:
    kind = ' class="bad"' if run["broken"] else ""
    return DrawingFrame(f"<h2>{markup(run['profile'])}: <span{kind}>{markup(verdict_line(run).plain)}</span></h2>")


def scenario_text(case: PlaygroundCase) -> str:
    """Return the case as a scenario file of the first rule set's engine without expectations; ``cachesim run
    --complete`` adds them."""
    scenario = case.scenario
    head = {"id": "my-case", "title": "a case from the playground", "source": ["cachesim playground"],
            "why": f"Requests {scenario!r}.", "engine": scenario.engine, "model": scenario.model,
            "profiles": list(scenario.profiles)}  # fmt: skip
    return to_toml(head, scenario.server, scenario.words, [step.asked for step in scenario.steps])
