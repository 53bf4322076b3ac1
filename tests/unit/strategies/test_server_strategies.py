"""Models, servers, rule sets and cases, of every engine, and the fault of a changed rule."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest
from hypothesis import Phase, find, given, settings

import cachesim
from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.strategies import (
    BadArgument,
    PropertyBroken,
    case,
    models,
    rule_sets,
    server,
    servers,
    workloads,
)
from cachesim.tools.search.drawn_conversation import small_models

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=12, phases=[Phase.generate, Phase.shrink],
                 print_blob=False)  # fmt: skip
each_engine = pytest.mark.parametrize("engine", BUILTIN)
EATS = "llama_cpp@b10587"            # a stored conversation is removed when it is used
LINE = "S40.A60/B70/S.C25/S.A.D12"


def drawn(strategy, most=12):
    found = []
    settings(FIXED, max_examples=most, phases=[Phase.generate])(given(strategy)(lambda value: found.append(value)))()
    return found


@each_engine
def test_models_are_those_of_the_engine(engine):
    assert set(drawn(models(engine), 60)) <= set(small_models(ENGINES[engine].manual))
    assert len(find(models(engine), lambda model: True)) == 1


def test_models_with_the_fewest_layers_come_first():
    """Values shrink towards the first, and a strategy prints all of them."""
    known = ast.literal_eval(repr(models("llama_cpp")).partition("(")[2][:-1])
    assert known == sorted(known, key=lambda model: (len(model), model)) != sorted(known)


def test_models_may_be_of_some_layers_only():
    assert set(drawn(models("llama_cpp", layers="A"), 30)) == {"A", "AA"}
    assert all({*model} <= {*"AGS"} for model in drawn(models(layers="AGS"), 30))


@each_engine
def test_servers_start_and_print_their_flags(engine):
    for one in drawn(servers(engine)):
        assert repr(one).startswith("--model ")
        options = {name: str(value) for name, value in one.options.items()}
        assert server(engine, one.model, **options).options == one.options


def test_a_server_shrinks_to_no_options():
    assert repr(find(servers("vllm"), lambda one: True, settings=FIXED)) == "--model A"
    found = find(servers("llama_cpp"), lambda one: one.options.get("parallel", 1) > 1, settings=FIXED)
    assert list(found.options) == ["parallel"]


@each_engine
def test_rule_sets_are_those_of_the_main_branch_and_print_their_name(engine):
    tables = drawn(rule_sets(engine), 30)
    assert {table.name for table in tables} <= set(ENGINES[engine].line)
    newest = ENGINES[engine].rules(ENGINES[engine].line[-1])
    assert find(rule_sets(engine), lambda table: True) is newest
    assert repr(newest) == f"<rule set {newest.name}>"


def test_fields_of_a_rule_set_are_drawn():
    older = cachesim.rules("llama_cpp@b9518")
    changes = {"min_step": [64], "ckpt_need": [older.ckpt_need]}
    strategy = rule_sets("llama_cpp", names=["llama_cpp@b11549"], changes=changes)
    found = find(strategy, lambda table: table.min_step == 64)
    assert (found.name, found.ckpt_need) == ("llama_cpp@b11549+min_step", cachesim.rules("llama_cpp@b11549").ckpt_need)
    assert {table.name for table in drawn(strategy, 40)} == {
        "llama_cpp@b11549", "llama_cpp@b11549+min_step", "llama_cpp@b11549+ckpt_need",
        "llama_cpp@b11549+min_step+ckpt_need",
    }


@pytest.mark.part(5)
@each_engine
def test_cases_of_an_engine_run_and_shrink_to_a_request(engine):
    for one in drawn(workloads(engine), 6):
        assert one.scenario.engine == engine and repr(one) in one.command
        one.failures()
    least = find(workloads(engine), lambda one: True, settings=FIXED)
    assert repr(least) == f"A1 -p {ENGINES[engine].newest or ENGINES[engine].line[-1]} --model A"


def test_without_rules_those_of_the_newest_recorded_build_or_else_of_the_newest_are_taken():
    for engine in ("llama_cpp", "ik_llama"):
        (one,) = drawn(workloads(engine, max_requests=1), 1)
        assert one.profile == (ENGINES[engine].newest or ENGINES[engine].line[-1])


def test_parts_of_a_case_may_be_given():
    setup = server("llama_cpp", "GA", ctx_size=512)
    for one in drawn(workloads(rules=cachesim.rules("llama_cpp@b9518"), server=setup, max_requests=2, max_prompt=30)):
        assert one.profile == "llama_cpp@b9518" and one.server is setup
        assert len(one.conversation.tree.steps) <= 2


def test_a_failing_test_prints_the_command_of_its_case():
    @settings(FIXED, max_examples=5)
    @given(workloads(rules=cachesim.rules("llama_cpp@b9518"), server=server("llama_cpp", "A"), max_requests=1))
    def test(drawn):
        raise AssertionError

    with pytest.raises(AssertionError) as failed:
        test()
    assert failed.value.__notes__[0] == "again: cachesim run A1 -p llama_cpp@b9518 --model A"


def test_parts_of_different_engines_are_refused():
    strategy = workloads("llama_cpp", server=server("vllm", "A"))
    with pytest.raises(BadArgument, match=r"^workloads of llama_cpp: found rules .* and a server of vllm"):
        drawn(strategy)


def test_a_case_is_judged_and_its_failure_has_line_sentence_and_command():
    one = case(LINE, EATS, "A")
    assert one.judge().verdict.word == "correct"
    one.check()
    with pytest.raises(PropertyBroken) as broken:
        one.check("no-lost-conversation")
    first, second, last = str(broken.value).splitlines()
    assert first.startswith(f"{LINE} under {EATS}: request ")
    assert second.startswith("  no-lost-conversation: ")
    assert last == f"  again: cachesim run {LINE} -p {EATS} --model A"


CHANGED = replace(cachesim.rules(EATS), name="llama_cpp@changed", min_step=64)


def test_a_changed_table_runs_in_place_of_that_of_its_build():
    """The command names the file and the variable of the table."""
    one = case(LINE, CHANGED, "A")
    assert one.profile == EATS and one.judge().profile == "llama_cpp@changed"
    assert one.command == f"cachesim run {LINE} -p {__file__}:CHANGED --model A"


def test_a_table_without_a_place_is_repeated_under_that_of_its_build():
    unnamed = replace(CHANGED, name="llama_cpp@unnamed")
    assert case("A5/A", unnamed).command == f"cachesim run A5/A -p {EATS} --model GGGA"


@pytest.mark.long
def test_a_known_fault_is_found_and_shrinks():
    """b9518 restores states of a window that it has left behind."""
    runs = []

    def fails(found):
        runs.append(bool(found.failures()))
        return runs[-1]

    setup = server("llama_cpp", "W8 A", parallel=1)
    strategy = workloads(rules=cachesim.rules("llama_cpp@b9518"), server=setup, max_prompt=60)
    found = find(strategy, fails, settings=settings(FIXED, max_examples=200))
    assert runs.index(True) < 60
    assert len(found.conversation.tree.steps) <= 3 and sum(found.conversation.tree.words.values()) <= 16


def test_layers_that_no_drawn_model_has_are_refused_with_the_models():
    with pytest.raises(BadArgument, match="layers: no drawn model has only layers of 'K'") as bad:
        models("mlx_lm", layers="K")
    assert bad.value.hint.split(", ") == list(small_models(ENGINES["mlx_lm"].manual))


@pytest.mark.parametrize(("arguments", "text"), [
    ({"names": "b9518"}, "names: expected a list of rule sets, found 'b9518'"),
    ({"names": ["llama_cpp@b1"]}, "names: "),
    ({"changes": {"ckpt_pik": [1]}}, "changes: llama_cpp has no field 'ckpt_pik'"),
    ({"changes": {"ckpt_pick": "x"}}, "changes: expected a list of rules or numbers for ckpt_pick, found 'x'"),
    ({"changes": {"ckpt_pick": []}}, "changes: expected a list"), ({"changes": {"ckpt_pick": 3}}, "changes: expected"),
])  # fmt: skip
def test_names_and_changes_of_rule_sets_are_checked(arguments, text):
    with pytest.raises(BadArgument, match=text) as bad:
        rule_sets("llama_cpp", **arguments)
    assert "ckpt_pik" not in text or bad.value.hint == "did you mean 'ckpt_pick'?"


@pytest.mark.parametrize("value", ["llama_cpp@b11549", 3])
def test_a_part_of_a_case_is_a_value_or_a_strategy(value):
    with pytest.raises(BadArgument, match="rules: expected a RuleSet or a strategy of them, found "):
        workloads("llama_cpp", rules=value)
    with pytest.raises(BadArgument, match="server: expected a ServerSetup or a strategy of them, found "):
        workloads("llama_cpp", server=value)
