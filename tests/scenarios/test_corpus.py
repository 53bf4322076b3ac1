"""Tests of the bundled scenarios: each matches its file, and together they reach every rule.

Files are read once, and what a provenance run shows is kept: the questions below look at the same runs. Each scenario
is a test of all its runs; a question about files is one test for all of them, because pytest takes longer for each test
than the question itself.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Callable, NamedTuple

import pytest

from cachesim.base.errors import NotInBuild
from cachesim.engines.base import prompt_of
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.mlx_lm.server_state import SILENT
from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.engines.rule import RULES
from cachesim.events import Advanced, Decided, Declined, Gained, Lost
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.judgement import Judgement
from cachesim.scenarios.load import find
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.symptoms import SYMPTOMS
from tests.scenarios.coverage import Seen, seen
from tests.scenarios.newer_builds import replaced_rules, still_unasked, unnamed_builds
from tests.scenarios.rule_examples import answers_plainly
from tests.scenarios.tables import readmes, with_table
from tests.scenarios.whole import corpus, heads

CORPUS = Path(__file__).resolve().parents[2] / "scenarios"
SCENARIOS = {scenario.id: scenario for scenario in corpus()}
RUNS = [(name, profile) for name, scenario in SCENARIOS.items() for profile in scenario.profiles]
MOST_DECISIONS = 10
"""Decisions of a rule in a run that are looked at."""
NAMED = {profile for _, profile in RUNS}
BROKEN = [(name, profile) for name, profile in RUNS if (e := SCENARIOS[name].expect.get(profile)) and e.broken]

PROJECTS = {"llama_cpp": "llama", "ik_llama": "ik", "mlx_lm": "mlx", "vllm": "vllm", "sglang": "sglang"}
ID = re.compile(r"(?P<project>[a-z]+)(-(?P<thread>\d+))?(-[a-z0-9]*[a-z][a-z0-9]*)(-[a-z0-9]+)*")
"""Scheme of ids; after a project and perhaps a thread comes a word."""

INSIDE_THE_MEMORY = {"LC-KV-STATE.WINDOW": "kv_state"}
"""Rules that the memory asks without a line in the log, and the profile's field that holds them."""

PLAIN = answers_plainly("vllm") - {
    "VL-LOOKUP-RECONCILE", "VL-LOOKUP-RECONCILE.ONE", "VL-LOOKUP-RECONCILE.STATES", "VL-LOOKUP-ONE-GROUP",
    "VL-SCHED-PAD", "VL-SCHED-LOOK"}
"""Rules of vLLM that return a plain value, without a line in the log; `test_plain_rules` asks which are used."""

ASKED_QUIETLY = {
    "IK-CKPT-FIRST.ALWAYS", "IK-CKPT-FIRST.NO-TOLERANCE", "IK-SEQ-RM", "IK-SPEC-COMMIT.AHEAD", "IK-SPEC-COMMIT.LEVEL",
    "IK-CKPT-CELLS.CLAIMED", "IK-CKPT-CELLS.KEPT", "IK-SPEC-STEPS.PLACE", "IK-SPEC-STEPS.POSITION",
    "IK-STATE-ZERO", "IK-UBATCH-SPLIT", "IK-KV-SEEN.EXACT", "IK-KV-WINDOW.ALL", "IK-SPEC-START.ONE-SLOT",
    "IK-SPEC-START.ANY", "IK-SPEC-PURGE.KEEP", "IK-SPEC-PURGE.KNOWN",
    "IK-WINDOW.COMPACT", "IK-WINDOW.COMPACT-ANY", "IK-WINDOW.WHOLE", "IK-GRAPH.SEQUENCES", "IK-GRAPH.NEW",
    "IK-ABORT.NEVER", "IK-WARM-UP.BEFORE", "IK-WARM-UP.SAME",
    "LC-SPEC-BATCH.SHARED", "LC-SPEC-FULL.OWN", "LC-SLOTS-OPEN.AUTO", "LC-SLOTS-OPEN.ONE",
    "LC-CKPT-NOTE.NONE", "ML-BATCHABLE-LAYERS.any", "ML-EXTRACT", "ML-BATCH-FRESH.EMPTY", "ML-BATCH-FRESH.SIZE",
    "ML-PC-LENGTHS.ALL", "ML-PC-LENGTHS.TAIL", "ML-THINKS.TOKENIZER", *SILENT,
    *PLAIN,
}
"""Rules that are asked without a line in the log."""

FILES_ONLY = "asked where a cache goes into a file, which the server never does; make peers asks the classes"
QUIET = "asked without a line in the log; tests/unit/engines/llama_cpp/test_history.py asks whether it is"
NOT_YET: dict[str, str] = {
    **dict.fromkeys((
        "LC-CKPT-AFTER.NEVER", "LC-CKPT-COUNT.BATCH", "LC-CKPT-COUNT.OWN", "LC-CKPT-PERIODIC.NONE",
        "LC-CKPT-TOLD.GONE", "LC-CKPT-TOLD.NEWEST", "LC-CKPT-TOLD.NEXT", "LC-KV-STATE.RING",
        "LC-PC-ASK.PC4", "LC-BATCH-CHECK.NEXT", "LC-FAIL.CLEAR", "LC-KV-MASK.OWN", "LC-KV-POS.COUNTED",
        "LC-KV-TURN.OWN", "LC-LIST.ALWAYS", "LC-PROMPT-FIT.REFUSE", "LC-RS-TAIL.CLEARED", "LC-SHIFT-WHEN.GENERATING",
        "LC-SLOT-LIKE.PREFIX", "LC-SLOT-LIKE.SUBSTRING", "LC-TRIM-AT.EVALUATED",
    ), QUIET),
    **dict.fromkeys((
        "ML-STATE-SAVE.cut", "ML-STATE-SAVE.whole", "ML-STATE-RESTORE.cut", "ML-STATE-RESTORE.whole",
        "ML-STATE-META.none", "ML-STATE-META.text", "ML-STATE-ROTATED.truth",
        "ML-STATE-ARRAYS.padded", "ML-STATE-ARRAYS.slots",
    ), FILES_ONLY),
    **dict.fromkeys(("LC-SHARED.PREFIX", "LC-SHARED.UNKNOWN"),
                    "no scenario asks for decisions; tests/unit/engines/llama_cpp/test_newer.py does"),
    "IK-MEDIA-PLACE": "differs after equal text in other tokens; tests/unit/engines/ik_llama/test_media.py asks it",
    "IK-MEDIA-OFF": "asked at the start, without a line; tests/unit/engines/ik_llama/test_media.py shows what follows",
    "LC-TASK-REUSE.ALL": "never says no, and only that is written down",
    "LC-SPEC-SPLIT.NONE": "as above; tests/unit/engines/llama_cpp/test_speculative_decoding.py shows what follows",
    "LC-RS-BACK.ONCE": "no way of the server stacks two rollbacks; tests/unit/engines/llama_cpp/test_newer.py asks it",
    **dict.fromkeys(("LC-CKPT-UNREAD.FILE", "LC-CKPT-UNREAD.RESET"),
                    "a checkpoint always finds room again; tests/unit/engines/llama_cpp/test_newer.py takes it"),
    **dict.fromkeys(("LC-SPEC-PLACE.OWN", "LC-RS-SAVED.PENDING"), "asked without a line in the log"),
    "LC-CKPT-RESTORE.RE3": "between two profiles (b8166 to b8256): none has it",
    **dict.fromkeys(("LC-CHILDREN.LAST", "LC-CHILDREN.SELECTED"),
                    "between two profiles (b7508 to b7746); tests/unit/engines/llama_cpp/test_parallel_completions.py"),
    "LC-ALORA-ROWS": "never caps, and only that is written down",
    **dict.fromkeys(("LC-ALORA-READ", "LC-ALORA-READ.NONE", "LC-LORA-IDS"), "asked without a line in the log"),
    "LC-LORA-LEAD.STAYS": "those builds shorten a prompt that does not fit, and no scenario has another failure",
    "LC-LORA-IDS.REFUSED": "no scenario names an unknown adapter; tests/unit/engines/llama_cpp/test_older_adapters.py",
    "LC-IDLE-PURGE.NONE": "slots of those builds share the context equally, so that no shortage arises",
}  # fmt: skip
"""Rules that no scenario reaches, with the reason. One that is reached has to leave this list."""


class Shown(NamedTuple):
    """What a run shows. Requests are named by their numbers. ``outcomes``: cached tokens, equality and status of each
    request. ``decisions``: the first of each rule, by its id. ``seen``: what counts as coverage."""

    wrong: list[str]
    undecided: list[int]
    undecided_in_file: list[int]
    unbalanced: list[int]
    miscounted: list[int]
    wrong_before_expected: list[int]
    has_bad_entry: bool
    outcomes: list[tuple[int, bool | None, int]]
    named_rules: frozenset[str]
    decisions: dict[str, list[Decided]]
    seen: Seen


@cache
def shown(name: str, profile: str) -> Shown:
    """Run a scenario. The run itself is not kept: all of them need 250 MB."""
    run = run_judged(SCENARIOS[name], profile, "provenance")
    decisions: dict[str, list[Decided]] = {}
    named: set[str] = set()
    for event in run.log.events:
        if isinstance(event, Decided):
            same = decisions.setdefault(event.rule, [])
            if len(same) < MOST_DECISIONS:
                same.append(event)
        elif isinstance(event, Gained | Advanced | Lost | Declined):
            named.add(event.rule)
    for one in run.requests:
        named.add(one.answer.deciding)
        named.update(charge.rule for charge in one.ledger.charges)
    first_wrong = run.broken[0] if run.broken else 0
    return Shown(
        wrong=run.wrong, undecided=undecided(run), undecided_in_file=sorted(run.unsettled + run.told),
        unbalanced=[i for i, one in enumerate(run.requests) if not one.ledger.is_balanced],
        miscounted=[i for i, one in enumerate(run.requests) if not _is_counted(one)],
        wrong_before_expected=[i for i, one in enumerate(run.requests[:first_wrong])
                               if not one.judged.equal_cold and i not in run.told],
        outcomes=[(one.answer.cache_n, one.judged.equal_cold, 0 if one.answer.died else one.answer.status)
                  for one in run.requests],
        has_bad_entry=any(one.judged.armed for one in run.requests),
        named_rules=frozenset(named), decisions=decisions, seen=seen(run),
    )  # fmt: skip


def _is_counted(request: Judgement) -> bool:
    """True if cached and evaluated tokens make up the prompt, or the request has no complete answer."""
    is_answered = request.judged.answer is None or request.judged.answer.kind != FaultKind.UNANSWERED
    if request.answer.status != 200 or request.answer.died or request.answer.cancelled or not is_answered:
        return True
    asked = len(prompt_of(request.request, request.answer))
    found = request.answer.first_evaluated + request.answer.prompt_n
    return found == asked or (request.answer.truncated and found < asked)


def undecided(run: Run) -> list[int]:
    return [i for i, one in enumerate(run.requests) if one.judged.equal_cold is None]


@pytest.mark.parametrize("name", SCENARIOS)
def test_runs_are_as_their_file_says_and_their_accounts_balance(name: str) -> None:
    runs = {profile: shown(name, profile) for profile in SCENARIOS[name].profiles}
    assert {profile: run.wrong for profile, run in runs.items() if run.wrong} == {}
    undecided_runs = {profile: run.undecided for profile, run in runs.items()}
    expected = {profile: run.undecided_in_file for profile, run in runs.items()}
    assert undecided_runs == expected, "undecided is never green, unless the file expects it"
    assert {profile: run.unbalanced for profile, run in runs.items() if run.unbalanced} == {}
    assert {profile: run.miscounted for profile, run in runs.items() if run.miscounted} == {}


def test_files_are_complete() -> None:
    for name, scenario in SCENARIOS.items():
        assert all(source.strip() for source in scenario.source) and scenario.source, name
        assert scenario.title.strip() and scenario.why.strip(), name
        assert set(scenario.expect) == set(scenario.profiles), f"{name}: a profile without expectations, or the reverse"
        assert [profile for profile, expect in scenario.expect.items() if expect.cache_n is None] == [], name


def test_corpus_is_not_empty_and_names_every_profile() -> None:
    assert len(SCENARIOS) >= 170
    every = {name for engine in BUILTIN.values() for name in (*engine.line, *engine.beside)}
    newer = {name for engine in BUILTIN.values() for name in unnamed_builds(engine, NAMED)}
    assert every == NAMED | newer


def test_ids_are_unique() -> None:
    files = find([CORPUS])
    assert len({file.stem for file in files}) == len(files) == len(SCENARIOS)


def test_no_two_files_ask_the_same() -> None:
    seen: dict[tuple[Any, ...], str] = {}
    twins = []
    for name, scenario in SCENARIOS.items():
        steps = tuple((step.request, step.action, step.drafts, step.together, step.after) for step in scenario.steps)
        key = (steps, scenario.model, tuple(sorted(scenario.server.items())))
        if key in seen:
            twins.append((seen[key], name))
        seen[key] = name
    assert twins == []


def test_a_wrong_answer_has_a_reason_and_what_came_before_is_right() -> None:
    assert [name for name, _ in BROKEN if len(SCENARIOS[name].why) <= 80] == [], "say what a reader learns"
    assert {run: shown(*run).wrong_before_expected for run in BROKEN if shown(*run).wrong_before_expected} == {}


def _decided() -> set[str]:
    return {rule for run in RUNS for rule in shown(*run).decisions}


NEWER = {name: replaced_rules(engine, unnamed_builds(engine, NAMED)) for name, engine in BUILTIN.items()}
"""Rules that began with builds that no scenario names -> the rules that they replace, by engine."""


def silent() -> frozenset[str]:
    """Return the rules that no scenario has to ask, or that are asked without a line in the log."""
    return frozenset(ASKED_QUIETLY | answers_plainly("sglang") | set(INSIDE_THE_MEMORY) | set(NOT_YET))


def demanded() -> set[str]:
    """Return the rules that a run of a scenario as in its file has to ask."""
    return known() - silent() - set().union(*NEWER.values())


def known() -> set[str]:
    """Return all rules but the cures of tests/fuzz."""
    return {name for name in RULES if not name.startswith("TEST-")}


def test_every_rule_is_cited() -> None:
    assert _decided() - known() == set()
    assert demanded() - _decided() == set()


@pytest.mark.parametrize("engine", BUILTIN)
def test_rules_of_builds_that_no_scenario_names_are_asked_there(engine: str) -> None:
    """``tests/new_build`` runs this with such builds."""
    rules = {rule for rule, before in NEWER[engine].items() if not {rule, before} & silent()}
    mine = [scenario for scenario in SCENARIOS.values() if scenario.engine == engine]
    builds = unnamed_builds(BUILTIN[engine], NAMED)
    assert still_unasked(rules, builds, mine, lambda one, build: set(shown(one.id, build).decisions)) == set()


def test_every_rule_that_is_named_is_registered() -> None:
    """Whatever `run`, `why` or `try` print as the rule behind a change or a reuse, `explain` knows."""
    named = {rule for run in RUNS for rule in shown(*run).named_rules}
    assert named - set(RULES) == {""}


def test_the_list_of_exceptions_is_not_longer_than_needed() -> None:
    assert _decided() & (set(NOT_YET) | set(INSIDE_THE_MEMORY) | ASKED_QUIETLY) == set()


@pytest.mark.parametrize(("rule", "field"), INSIDE_THE_MEMORY.items())
def test_rules_inside_the_memory_are_asked(rule: str, field: str) -> None:
    scenario = SCENARIOS["llama-lesson-window-restore"]
    asked: list[str] = []
    rules = PROFILES["llama_cpp@b10587"]
    watched = replace(rules, **{field: _spy(getattr(rules, field), asked)})
    assert run_judged(scenario, rules.name, "provenance", table=watched).broken == []
    assert set(asked) == {rule}


def _spy(fn: Callable[..., Any], asked: list[str]) -> Callable[..., Any]:
    def spy(*args: Any) -> Any:
        decision = fn(*args)
        asked.append(decision.rule)
        return decision

    return spy


def _pairs(scenario: Scenario) -> list[str]:
    return [profile for profile, expect in scenario.expect.items() if expect.completed]


def test_all_numbers_of_the_files_were_read() -> None:
    assert [name for name, scenario in SCENARIOS.items() if _pairs(scenario)] == []


@pytest.mark.parametrize("readme", readmes(), ids=lambda readme: readme.parent.name)
def test_the_tables_beside_the_files_are_right(readme: Path) -> None:
    """`make docs` writes them."""
    assert readme.read_text("utf-8") == with_table(readme, heads())


def test_an_id_has_its_project_and_a_thread_among_the_sources() -> None:
    """The scheme is <project>-<thread>-<fault>-<memory>, or <project>-<fault>."""
    for name, scenario in SCENARIOS.items():
        parts = ID.fullmatch(name)
        assert parts and PROJECTS[scenario.engine] == parts["project"] and len(name) <= 48, name
        assert not parts["thread"] or any(source.endswith(f"#{parts['thread']}") for source in scenario.source), name


def test_a_scenario_has_a_symptom_and_lies_in_its_folder() -> None:
    for name, scenario in SCENARIOS.items():
        folder = Path(scenario.file).relative_to(CORPUS).parts[1]
        assert scenario.symptom in SYMPTOMS, name
        assert folder == scenario.symptom or folder in ("threads", "lessons", "repairs"), name


def test_the_symptom_fits_what_is_expected() -> None:
    """Scenarios with the symptom "right" expect no broken request; "wrong-answer" and "crash" expect some."""
    broken = {name: any(one.broken for one in scenario.expect.values()) for name, scenario in SCENARIOS.items()}
    symptoms = {"right": False, "wrong-answer": True, "crash": True}
    assert [name for name, scenario in SCENARIOS.items()
            if broken[name] != symptoms.get(scenario.symptom, broken[name])] == []  # fmt: skip


@pytest.mark.long
def test_every_version_starts_or_says_that_it_cannot() -> None:
    """``why`` and ``bisect`` compare all versions, and pass over those that raise NotInBuild."""
    servers = {(one.engine, one.model, str(sorted(one.server.items()))): one for one in corpus()}
    for scenario in servers.values():
        engine = ENGINES[scenario.engine]
        for name in {*engine.line, *engine.beside}:
            with suppress(NotInBuild):
                engine.start(name, scenario.model, scenario.server, "none")
