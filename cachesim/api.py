"""Python interface: load a case, run it, judge it, inspect rule sets. The names are exported by ``cachesim``.

    import cachesim

    case = cachesim.load("llama-24143-entry-removed-dense")    # a file, a scenario id, or requests in notation
    for run in cachesim.judge(case, case.profiles):
        print(run.profile, run.verdict.word, [row["cache_n"] for row in run.table])

Lengths and counts are tokens, requests are numbered from 0. An invalid argument raises ``BadInput``, an exception with
a single-line text.
"""

from __future__ import annotations

import os
from typing import Any, Iterable, Mapping, NamedTuple, Sequence, overload

from cachesim.base.errors import BadInput, nearest, public, quoted
from cachesim.engines import registry
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.judged_run import Run
from cachesim.judging.reproduce_command import settings
from cachesim.records import JudgedRun, Runs, RunTranscript, judge_case, not_correct, picture
from cachesim.scenarios.corpus import is_file, named, own_profiles
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load as load_file
from cachesim.scenarios.runner import AnswerCollector, play
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario
from cachesim.tools.run.arguments import CaseOptions, cases_of_line, cases_of_scenario, profile_name

MODES = registry.MODES
MODEL = "GGGA"

Case = Scenario | str | os.PathLike[str]
Server = Mapping[str, Any] | str


@public
def profiles(engine: str | None = None) -> tuple[str, ...]:
    """Return the names of all rule sets, ``engine@version``, or those of the named engine ("llama_cpp", "ik_llama",
    "mlx_lm", "vllm", "sglang", or an engine of an installed package). Raise BadInput for an unknown engine."""
    known = registry.profiles() if engine is None else registry.engine_named(engine).profiles
    return tuple(known)


@public
def rules(profile: str) -> RuleSet:
    """Return the table of rules and numbers of a server version: a frozen dataclass whose fields hold the rules.

    ``profile`` is a name of ``profiles()``, or an engine for its newest. A build, a date or a version ("b9700",
    "mlx_lm@0.31.1") gives the rules of that time. Your own ``FILE.py[:NAME]`` is executed.
    ``dataclasses.replace(table, name=..., FIELD=rule)`` makes a changed table; see CONTRIBUTING.md. Raise BadInput for
    an unknown name and for a file that cannot be used.
    """
    return registry.rules_of(_profile(profile))


@public
def load(
    case: str | os.PathLike[str], *, profile: str = DEFAULT_PROFILE, model: str = MODEL,
    server: Mapping[str, Any] | None = None,
) -> Scenario:
    """Return a case: a scenario file, the id of a scenario that comes with cachesim, or a line of requests
    (``"S40.A60/B70/S.A"``: words with their lengths in tokens).

    ``profile``, ``model`` (layers such as "GGGA", or the name of a model) and ``server`` (options by their long names)
    apply to a line; a file contains them itself. Raise BadInput with file and line, or the column, for a case that
    cannot be read; also for a folder.
    """
    text = os.fspath(case)
    if is_file(text):
        return load_file(named(text), registry.profiles().keys())
    return from_line(text, model=model, profiles=(_profile(profile),), server=server)


@overload
def run(  # type: ignore[overload-overlap]        # a text is a sequence of texts for the type checker
    case: Case, profile: str | None = None, *, mode: str = ..., model: str | None = ..., server: Server | None = ...,
) -> RunTranscript: ...
@overload
def run(case: Case, profile: Sequence[str], *, mode: str = ..., model: str | None = ...,
        server: Server | None = ...) -> Runs[RunTranscript]: ...  # fmt: skip
@public
def run(
    case: Case, profile: str | Sequence[str] | None = None, *, mode: str = "provenance", model: str | None = None,
    server: Server | None = None,
) -> RunTranscript | Runs[RunTranscript]:
    """Run a case under a rule set (default: its own first rule set) without a comparison. A list of rule sets, also of
    several engines, gives ``Runs``.

        cachesim.run("S40.A60/S.A", "llama_cpp@b11549", model="qwen3-next", server={"ctx_checkpoints": 4})
        cachesim.run("S40.A60/S.A", ["llama_cpp", "vllm", "sglang"]).table

    ``case``: a result of ``load``, a file, an id or a line. ``profile``: as in ``rules``. ``model``: layers such as
    "GGGA", or the name of a real model; default: the file's, "GGGA" for a line. ``server``: options by their long
    names, or the command line that starts the real server; default: the file's. ``mode``: "none" tracks positions
    only, "provenance" also which tokens every row and state was computed from, "exact" computes the toy model's
    numbers. A case of another engine runs with the default options of the rule set's engine; notes about this and
    about the model are printed on stderr. Raise BadInput for a case, rule set, model or option that cannot be used, and
    for a run that exceeds a limit.
    """
    chosen = _chosen(case, profile, model, server, mode)
    found = [_transcript(one.scenario, one.profile, mode) for one in chosen]
    return found[0] if profile is None or isinstance(profile, str) else Runs(found)


@overload
def judge(  # type: ignore[overload-overlap]        # a text is a sequence of texts for the type checker
    case: Case, profile: str | None = None, *, mode: str = ..., table: RuleSet | None = ..., model: str | None = ...,
    server: Server | None = ..., check: bool = ...,
) -> JudgedRun: ...
@overload
def judge(case: Case, profile: Sequence[str], *, mode: str = ..., table: RuleSet | None = ...,
          model: str | None = ..., server: Server | None = ..., check: bool = ...) -> Runs[JudgedRun]: ...  # fmt: skip
@public
def judge(
    case: Case, profile: str | Sequence[str] | None = None, *, mode: str = "exact", table: RuleSet | None = None,
    model: str | None = None, server: Server | None = None, check: bool = False,
) -> JudgedRun | Runs[JudgedRun]:
    """Run a case and compare every answer, and the state that it leaves behind, with a cold run: the same request on an
    empty server. ``verdict.word`` of the result is "correct", "wrong" or "undecided"; ``broken`` lists the requests
    that differ. A list of rule sets, also of several engines, gives ``Runs``.

    ``case``, ``profile``, ``model`` and ``server`` are those of ``run``. ``mode`` is "exact" or "provenance".
    ``table`` replaces the rules of ``profile``: a table that ``dataclasses.replace`` made of ``rules(profile)``.
    With ``check``, a run that is not correct raises NotCorrect, an AssertionError whose first line names the case.
    Raise BadInput for a case, rule set, model or option that cannot be used, and for a run that exceeds a limit.
    """
    __tracebackhide__ = True
    if mode == "none":
        raise BadInput("mode 'none' has no contents to compare", hint="provenance or exact")
    chosen = _chosen(case, profile, model, server, mode)
    found = [judge_case(one.scenario, one.profile, mode, table) for one in chosen]
    for one in found if check else ():
        if one.verdict.equal_cold is not True:
            raise not_correct(one)
    return found[0] if profile is None or isinstance(profile, str) else Runs(found)


@public
def svg(*runs: Run) -> str:
    """Return the picture of the results of ``judge`` as the text of an SVG file. Several runs of a case are drawn below
    each other, and the first request in which they differ is marked; runs of several engines are first shown as bars.
    The file refers to neither the network nor other files.

            Path("case.svg").write_text(cachesim.svg(*cachesim.judge("S40.A60/B70/S.A", ["llama_cpp", "vllm"])))

    Raise BadInput without runs, for runs of several cases, and for a run under a table that is not a profile.
    """
    return picture(runs)


class _Chosen(NamedTuple):
    """A scenario and the rule set that runs it."""

    scenario: Scenario
    profile: str


def _transcript(scenario: Scenario, profile: str, mode: str) -> RunTranscript:
    answers = AnswerCollector()
    log = play(scenario, profile, mode, answers, registry.rules_of(profile))
    requests = [answers.found.get(number) for number in range(len(scenario.steps))]
    return RunTranscript(profile, requests, log, scenario, mode)


def _chosen(
    case: Case, profile: str | Sequence[str] | None, model: str | None, server: Server | None, mode: str
) -> list[_Chosen]:
    """Return the scenario for each rule set. Raise BadInput."""
    if mode not in MODES:
        raise BadInput(f"unknown mode {quoted(mode)}", hint=nearest(mode, MODES) or ", ".join(MODES))
    names = _profiles(profile)
    if isinstance(server, str):
        options = _pasted(server, names, model)
    else:
        options = CaseOptions(model=model, profiles=names, settings=[] if server is None else settings(server))
    scenarios = {one.engine: one for one in _scenarios(case, options)}
    if not options.profiles:
        (scenario,) = scenarios.values()
        return [_Chosen(scenario, own_profiles(scenario, registry.profiles().keys())[0])]
    return [_Chosen(scenarios[name.partition("@")[0]], name) for name in options.profiles]


def _scenarios(case: Case, options: CaseOptions) -> list[Scenario]:
    """Return the scenario of a case once for each engine of the rule sets. Raise BadInput."""
    if not isinstance(case, Scenario) and not is_file(os.fspath(case)):
        return cases_of_line(os.fspath(case), options)
    return cases_of_scenario(case if isinstance(case, Scenario) else load(case), options)


def _pasted(command: str, names: list[str], model: str | None) -> CaseOptions:
    """Return the options of a case whose server a command line starts, under these rule sets ([] = the newest) and
    with this model (None = that of the command line). Raise BadInput."""
    from cachesim.tools.run.pasted_command import ServerArguments, TakenModels, with_pasted

    found = with_pasted(command, ServerArguments(names, [], model), TakenModels.LAYERS)
    return CaseOptions(model=found.model, profiles=found.profiles, settings=found.settings)


def _profiles(profile: str | Sequence[str] | None) -> list[str]:
    """Return the names of the rule sets that an argument names; [] for None. Raise BadInput."""
    if profile is None:
        return []
    if isinstance(profile, str) or not isinstance(profile, Iterable):
        return [_profile(profile)]
    names = [_profile(one) for one in profile]
    if not names:
        raise BadInput("profile: the list of rule sets is empty")
    return names


def _profile(text: str) -> str:
    """Return the name of a rule set; a ``FILE.py`` is executed, an engine's name, a build or a date resolved. Raise
    BadInput."""
    if not isinstance(text, str):
        hint = "judge(..., table=TABLE) takes a table" if isinstance(text, RuleSet) else ""
        raise BadInput(f"profile: expected the name of a rule set, found {text!r:.80}", hint=hint)
    name = profile_name(text)
    registry.engine_of(name)
    return name
