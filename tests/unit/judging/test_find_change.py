"""Tests that bisect names the version and exactly the rules that changed the outcome."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import pytest

from cachesim.base import limits
from cachesim.base.errors import OverLimit
from cachesim.cli.main import main
from cachesim.engines.build_names import builds_in_order
from cachesim.engines.registry import ENGINES, rules_of
from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.timeline import Timeline
from cachesim.judging.find_change import bisect, neighbours
from cachesim.judging.outcomes import observed
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.schema import DEFAULT_PROFILE
from tests.shared import SMALL

ENGINE = ENGINES["llama_cpp"]


@cache
def courses(line):
    return bisect(from_line(line, model="GGGA", profiles=(DEFAULT_PROFILE,), server=SMALL), ENGINE)


def of_versions(line, beside=None):
    """Return the engine with these versions and proposals alone."""
    beside = beside or {}
    tables = {name: rules_of(name) for name in (*line, *beside)}
    return replace(ENGINE, profiles=tables, line=tuple(line), when=Timeline(), beside=beside)


def short(course):
    """Return (new profile, tokens kept, correct?, fields) of every change."""
    return [
        (turn.new.partition("@")[2], turn.now.cache_n, turn.now.equal_cold,
         [[change.field for change in cause.changes] for cause in turn.causes])
        for turn in course.turns
    ]  # fmt: skip


def test_every_version_and_every_proposal_has_a_neighbour():
    pairs = neighbours(ENGINE)
    versions = [*builds_in_order(ENGINE)[1:], *ENGINE.beside]
    assert [new for _, new in pairs] == versions and {*ENGINE.line[1:]} < {*versions}
    assert all(old in [ENGINE.line[0], *versions] for old, _ in pairs)


def test_the_same_prompt_again_through_the_years():
    """History document, section 2, TRIM refusal."""
    first, again = courses("A130/A")
    assert short(first) == [
        ("b5851", 0, True, [["memories"]]),                      # hybrid models load
        ("b6925", 0, True, [["slots_open", "slot_ctx", "auto_slots"]]), ("b7433", 0, True, [["slots_open"]]),
    ]  # fmt: skip
    assert first.beside == []
    assert short(again) == [
        ("b5851", 0, True, [["memories"]]),
        ("b6685", 129, False, [["rs_rm"]]),
        ("b6925", 129, False, [["slots_open", "auto_slots"]]),       # -np 1 means four slots until b7433
        ("b7011", 0, True, [["rs_rm"]]),
        ("b7078", 129, False, [["trim"]]),          # the server dies
        ("b7543", 0, True, [["trim"]]),
        ("b9230", 129, False, [["trim"]]),          # the server dies, since b9180
        ("b9231", 110, True, [["ckpt_need"]]),
        ("b9978", 126, True, [["ckpt_create"]]),
    ]
    assert [turn.causes[0].changes[0].source for turn in again.turns] == [
        "#14534", "#16382", "#16736", "#17009", "#17267", "#18391", "#22673", "#23280", "#25472",
    ]  # fmt: skip
    assert [turn.new.partition("@")[2] for turn in again.turns if turn.now.status == 0] == ["b7078", "b9230"]
    assert [turn.new.partition("@")[2] for turn in again.turns if not turn.causes[0].is_alone] == ["b6925"]


def test_changes_are_found_for_the_requests_that_were_asked_for():
    scenario = from_line("S40.A60/B80/S.C50/S.A.D5", model="GGGA", profiles=(DEFAULT_PROFILE,))
    beside = {"llama_cpp@pr24143-on-b9518": "llama_cpp@b9518"}
    engine = of_versions(["llama_cpp@b6740", "llama_cpp@b6914", "llama_cpp@b6998", "llama_cpp@b8450"], beside)
    every = bisect(scenario, engine)
    some = bisect(scenario, engine, requests=(2,))
    assert [len(one.turns) for one in every].count(0) < 4 and every[2].turns
    assert some[2] == every[2] and [one.outcomes for one in some] == [one.outcomes for one in every]
    assert not any(one.turns or one.beside for number, one in enumerate(some) if number != 2)


def test_a_server_error_is_an_outcome():
    course = courses("S100.A30/S.B40")[1]
    broken = next(turn for turn in course.turns if turn.new.endswith("b8152"))
    assert (broken.was.status, broken.now.status) == (200, 500)
    assert [c.field for c in broken.causes[0].changes] == ["ckpt_restore"]


def test_fields_that_only_do_it_together_are_named_together():
    """A checkpoint before the last chunk needs the mark and the creation."""
    turn = next(t for t in courses("S100.A30/S.B40")[1].turns if t.new.endswith("b6711"))
    (cause,) = turn.causes
    assert not cause.is_alone and {c.field for c in cause.changes} == {"ckpt_break", "ckpt_create"}


def test_a_proposal_is_compared_with_its_base():
    server = {**SMALL, "slot_prompt_similarity": 0.0}
    scenario = from_line("A100/B80/A[:40].C40/A.D4", model="AAAA", profiles=(DEFAULT_PROFILE,), server=server)
    base, name = "llama_cpp@b9518", "llama_cpp@pr24143-on-b9518"
    (turn,) = bisect(scenario, of_versions([base], {name: base}))[3].beside
    assert (turn.old, turn.new) == (base, name)
    assert [c.field for c in turn.causes[0].changes] == ["pc_after_hit"]
    assert turn.causes[0].changes[0].source == "#24143"


@pytest.mark.part(2)
@pytest.mark.parametrize("number", [0, 1])
def test_every_cause_really_does_it_and_none_of_its_parts_alone(number):
    """Checked on the rule sets themselves, independently of the search."""
    from cachesim.judging.judged_run import run_judged

    scenario = from_line("S100.A30/S.B40", model="GGGA", profiles=(DEFAULT_PROFILE,), server=SMALL)

    def outcome(old, new, names):
        table = rules_of(old).mixed(rules_of(new), names)
        run = run_judged(scenario, old, "provenance", table=table)
        one = run.requests[number]
        return one.answer.cache_n, one.judged.equal_cold, one.answer.status, observed(run, number)

    for turn in bisect(scenario, ENGINE)[number].turns:
        for cause in turn.causes:
            names = [change.field for change in cause.changes]
            assert turn.matches(outcome(turn.old, turn.new, names))
            if not cause.is_alone:
                parts = [names[:i] + names[i + 1 :] for i in range(len(names))]
                assert not any(turn.matches(outcome(turn.old, turn.new, part)) for part in parts)


def test_the_command_speaks_json(capsys):
    assert main(["bisect", "A130/A", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    versions = [*builds_in_order(ENGINE), *ENGINE.beside]
    assert data["schema"] == 1 and [one["profile"] for one in data["requests"][1]["outcomes"]] == versions
    turn = data["requests"][1]["turns"][1]
    assert turn["new"] == "llama_cpp@b6685"
    assert turn["now"] == {"cache_n": 129, "equal_cold": False, "status": 200}
    assert turn["causes"][0]["changes"][0] == {
        "field": "rs_rm", "old": "LC-RS-RM.RM0", "new": "LC-RS-RM.RM1", "source": "#16382",
        "build": "b6685 (2025-10-03)"}  # fmt: skip


def test_the_command_says_what_changed(capsys):
    assert main(["bisect", "A130/A", "-v"]) == 0
    out = capsys.readouterr().out
    assert "id_slot: 0 -> 3" in out                                  # a client sees that servers got more slots
    assert "reuses 129, WRONG OUTPUT by b6685 (2025-10-03), llama_cpp@b6685" in out
    assert "rs_rm LC-RS-RM.RM0 -> LC-RS-RM.RM1 (#16382, b6685" in out


def ctx_rule(name, context):
    """Return a rule that gives a slot a context of so many tokens, from that of its sequence."""
    @rule(f"TEST-CHANGE.{name}", Role.PLAN, "context of a slot")
    def slot_ctx(n_ctx_seq: int, *others: object) -> Decision:
        return Decision(context(n_ctx_seq), {})

    return slot_ctx


def padded_alone(n: int) -> int:
    if n < 256:
        raise TypeError("a rule that fits no other padding")
    return n


OLD_NAME, NEW_NAME, BESIDE_NAME = "llama_cpp@b10587", "llama_cpp@b11549", "llama_cpp@b11549-repaired"
PADDED, BARE = {"ctx_pad": 256}, {"ctx_pad": 8}
WHOLE, FEW = ctx_rule("WHOLE", int), ctx_rule("FEW", lambda n: 40)


def made_up(old, new, beside=None, **more):
    """Return the history of a request of 60 tokens to a server with a context of 40 tokens, which is padded, under two
    versions with these fields, and a proposal for the older one."""
    fields = {OLD_NAME: {**PADDED, **old}, NEW_NAME: new, **({BESIDE_NAME: beside} if beside else {})}
    tables = {name: rules_of(OLD_NAME).changed({"name": name, **of}) for name, of in fields.items()}
    engine = replace(ENGINE, profiles=tables, line=(OLD_NAME, NEW_NAME), when=Timeline(),
                     beside={BESIDE_NAME: OLD_NAME} if beside else {})  # fmt: skip
    scenario = from_line("A60", model="A", server={"ctx_size": 40, "parallel": 1})
    return bisect(scenario, engine, **more)[0]


def causes(turn):
    return [([(change.field, change.new) for change in cause.changes], cause.is_alone) for cause in turn.causes]


def test_of_fields_that_each_suffice_every_one_is_named_and_no_other():
    (turn,) = made_up({"slot_ctx": WHOLE}, {**BARE, "slot_ctx": FEW, "tail": 7}).turns
    assert (turn.was.status, turn.now.status) == (200, 400)
    assert sorted(causes(turn)) == [([("ctx_pad", "8")], True), ([("slot_ctx", FEW.rule)], True)]


def test_a_mixture_whose_rules_do_not_fit_together_is_no_cause():
    (turn,) = made_up({"slot_ctx": ctx_rule("PADDED", padded_alone)}, {**BARE, "slot_ctx": WHOLE}).turns
    [(fields, is_alone)] = causes(turn)
    assert ({field for field, _ in fields}, is_alone) == ({"ctx_pad", "slot_ctx"}, False)


def test_a_mixture_that_exceeds_a_limit_ends_the_search():
    """Both versions refuse the request, and the mixture evaluates it."""
    limits.lift({"tokens": 50})
    with pytest.raises(OverLimit):
        made_up({"slot_ctx": FEW}, {"ctx_pad": 16, "slot_ctx": WHOLE})


def test_a_proposal_and_the_next_version_may_change_the_same_field():
    found = made_up({}, BARE, {"ctx_pad": 64})
    assert [causes(turn) for turn in found.turns] == [[([("ctx_pad", "8")], True)]]
    assert [causes(turn) for turn in found.beside] == [[([("ctx_pad", "64")], True)]]


def test_a_rule_set_without_a_neighbour_has_an_outcome_and_no_change():
    found = made_up({}, BARE, pairs=())
    assert [(name, one.status) for name, one in found.outcomes.items()] == [(OLD_NAME, 200), (NEW_NAME, 400)]
    assert found.turns == found.beside == []


@pytest.mark.parametrize("argv, cause", [
    (["bisect", "nowhere.toml"], "no such file"),
    (["bisect", "A13O/A"], "A13O"),
    (["bisect", "A10", "--set", "ctx_sise=5"], "ctx_size"),
])  # fmt: skip
def test_bad_input(capsys, argv, cause):
    assert main(argv) == 2
    assert cause in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mlx-1169-join-partial-prompt-hybrid", "mlx-1736-join-padding-in-state-recurrent"])
def test_a_mixture_of_versions_that_ends_the_server_is_an_outcome(capsys, name):
    """Between two versions of mlx-lm a mixture lacks a state where rows join: the thread ends there."""
    assert main(["bisect", name]) == 0
    assert "cachesim" not in capsys.readouterr().err
