"""Python interface: load a case, run it, judge it, inspect rule sets. The names are exported by ``cachesim``.

    import cachesim

    case = cachesim.load("llama-24143-entry-removed-dense")    # a file, a scenario id, or requests in notation
    for profile in case.profiles:
        found = cachesim.judge(case, profile)
        print(profile, found.verdict.word, [request.answer.cache_n for request in found.requests])

Lengths and counts are tokens, requests are numbered from 0. An invalid argument raises ``BadInput``
(``cachesim.base.errors``), a ValueError with a single-line text.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Mapping

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.engines import registry
from cachesim.engines.base import Answer, Request
from cachesim.engines.rule_files import is_rule_file, profile_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Log
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.corpus import is_file, named, own_profiles
from cachesim.scenarios.engine_cases import under_engines
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load as load_file
from cachesim.scenarios.runner import AnswerCollector, play
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario

MODES = registry.MODES


@dataclass(frozen=True, slots=True)
class RunTranscript:
    """Run of a case under a rule set, without a comparison. ``requests``: pairs in the order of the case; None for a
    step that is not a completion (a slot saved, a restart). ``log``: every event and decision."""

    profile: str
    requests: list[tuple[Request, Answer] | None]
    log: Log


def profiles(engine: str | None = None) -> tuple[str, ...]:
    """Return the names of all rule sets, ``engine@version``, or those of the named engine ("llama_cpp", "ik_llama",
    "mlx_lm", or an engine of an installed package). Raise BadInput for an unknown engine."""
    known = registry.profiles() if engine is None else registry.engine_named(engine).profiles
    return tuple(known)


def rules(profile: str) -> RuleSet:
    """Return the table of rules and numbers of a server version: a frozen dataclass whose fields hold the rules.
    ``profile`` is a name of ``profiles()``, an engine (its newest), or your own ``FILE.py[:NAME]``, which is executed.
    ``dataclasses.replace(table, name=..., FIELD=rule)`` makes a changed table; see CONTRIBUTING.md. Raise BadInput."""
    return registry.rules_of(_profile(profile))


def load(
    case: str | os.PathLike[str], *, profile: str = DEFAULT_PROFILE, model: str = "GGGA",
    server: Mapping[str, Any] | None = None,
) -> Scenario:
    """Return a case: a scenario file, the id of a scenario that comes with cachesim, or a line of requests
    (``"S40.A60/B70/S.A"``).

    ``profile``, ``model`` (layers such as "GGGA", or the name of a model) and ``server`` (options by their long names)
    apply to a line; a file contains them itself. Raise BadInput with file and line, or the column, for a case that
    cannot be read; also for a folder.
    """
    text = os.fspath(case)
    if is_file(text):
        return load_file(named(text), frozenset(registry.profiles()))
    return from_line(text, model=model, profiles=(_profile(profile),), server=server)


def run(case: Scenario | str, profile: str | None = None, *, mode: str = "provenance") -> RunTranscript:
    """Run a case under a rule set (default: its own first rule set) without a comparison.

    ``mode``: "none" tracks positions only, "provenance" also which tokens every row and state was computed from,
    "exact" computes the toy model's numbers. A case given as text is loaded first. A case of another engine runs with
    the default options of the rule set's engine, and a note on stderr says so. Raise BadInput.
    """
    scenario, name = _chosen(case, profile, mode)
    answers = AnswerCollector()
    log = play(scenario, name, mode, answers, registry.rules_of(name))
    return RunTranscript(name, [answers.found.get(number) for number in range(len(scenario.steps))], log)


def judge(
    case: Scenario | str, profile: str | None = None, *, mode: str = "exact", table: RuleSet | None = None
) -> Run:
    """Run a case and compare every answer, and the state that it leaves behind, with a cold run: the same request on an
    empty server. ``verdict.word`` of the result is "correct", "wrong" or "undecided"; ``broken`` lists the requests
    that differ.

    A case of another engine runs with the default options of the rule set's engine, and a note on stderr says so.
    ``table`` replaces the rules of ``profile``: a table that ``dataclasses.replace`` made of ``rules(profile)``.
    ``mode`` is "exact" or "provenance". Raise BadInput.
    """
    scenario, name = _chosen(case, profile, mode)
    if mode == "none":
        raise BadInput("mode 'none' has no contents to compare", hint="provenance or exact")
    from cachesim.tools.picture.cell_recorder import CellRecorder

    return run_judged(scenario, name, mode, table=table, watcher=CellRecorder())


def svg(*runs: Run) -> str:
    """Return the picture of the results of ``judge`` as the text of an SVG file. Several runs of a case are drawn below
    each other, and the first request in which they differ is marked; runs of several engines are first shown as bars.
    The file refers to neither the network nor other files.

            Path("case.svg").write_text(cachesim.svg(cachesim.judge("S40.A60/B70/S.A")))

    Raise BadInput without runs, for runs of several cases, and for a run under a table that is not a profile.
    """
    from cachesim.judging.run_data import run_data
    from cachesim.tools.picture.cell_recorder import CellRecorder
    from cachesim.tools.picture.scene import scene
    from cachesim.tools.picture.svg import draw

    if len({one.scenario.id for one in runs}) != 1:
        raise BadInput("a picture shows one case", hint="svg(judge(case, profile), judge(case, another_profile))")
    recorders = [one.watcher for one in runs if isinstance(one.watcher, CellRecorder)]
    if len(recorders) < len(runs):
        raise BadInput("a picture shows results of judge", hint="svg(judge(case, profile))")
    return draw([scene(one.scenario, run_data(one), recorder.cells())
                 for one, recorder in zip(runs, recorders, strict=True)])  # fmt: skip


def _chosen(case: Scenario | str, profile: str | None, mode: str) -> tuple[Scenario, str]:
    """Return the scenario and the rule set that runs it. Raise BadInput."""
    if mode not in MODES:
        raise BadInput(f"unknown mode {quoted(mode)}", hint=nearest(mode, MODES) or ", ".join(MODES))
    wanted = None if profile is None else _profile(profile)
    scenario = case if isinstance(case, Scenario) else load(case, profile=wanted or DEFAULT_PROFILE)
    known = frozenset(registry.profiles())
    if wanted is None:
        return scenario, own_profiles(scenario, known)[0]
    (own,) = under_engines(scenario, [wanted], known)
    return own, wanted


def _profile(text: str) -> str:
    """Return the name of a rule set: a ``FILE.py`` is executed, an engine's name resolved. Raise BadInput."""
    if is_rule_file(text):
        return profile_of(text)
    name = registry.present_name(text)
    registry.engine_of(name)
    return name
