"""The registry of engines and their rule sets: look-ups, names that are taken, and rules that do not fit."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines import registry
from cachesim.engines.registry import BUILTIN, ENGINES, Engines, ProfileView
from cachesim.engines.rule import RULES, Decision, Role, rule
from tests.shared import forget_engines, restore_rules

NAMES = ["llama_cpp", "ik_llama", "mlx_lm", "vllm", "sglang"]
OLD = ENGINES["llama_cpp"].profiles["llama_cpp@b10587"]


@pytest.fixture
def engines():
    """A registry that knows the built-in engines alone."""
    before = dict(RULES)
    yield Engines()
    restore_rules(before)


def test_the_built_in_engines_are_known_by_name(engines):
    assert [*BUILTIN] == [*engines] == NAMES and len(BUILTIN) == len(engines) == 5
    assert engines["vllm"] is BUILTIN["vllm"] is engines["vllm"]
    assert "vllm" in engines and "vllm2" not in engines
    for table in (BUILTIN, engines):
        with pytest.raises(KeyError, match="vllm2"):
            table["vllm2"]


def test_an_added_rule_set_stands_beside_the_one_that_it_differs_least_from(engines):
    mine = replace(OLD, name="llama_cpp@mine")
    engines.add(mine, "a note")
    found = engines["llama_cpp"]
    assert found.profiles["llama_cpp@mine"] is mine
    assert (found.beside["llama_cpp@mine"], found.notes["llama_cpp@mine"]) == ("llama_cpp@b10587", "a note")
    assert "llama_cpp@mine" not in ENGINES["llama_cpp"].profiles
    engines.add(replace(OLD, name="llama_cpp@between"), "a note", between=True)
    assert "llama_cpp@between" not in engines["llama_cpp"].beside


@pytest.mark.parametrize(("name", "text"), [
    ("llama_cpp@b10587", "name already taken: 'llama_cpp@b10587'"), ("llama_cpp@latest", "name already taken"),
    ("mine", r"rule set name 'mine', expected ENGINE@NAME \(llama_cpp, ik_llama, mlx_lm, vllm, sglang\)"),
    ("other@mine", "expected ENGINE@NAME"), ("llama_cpp@a b", "expected ENGINE@NAME"),
    ("vllm@mine", "'vllm@mine' is not a rule set of vllm"),
])  # fmt: skip
def test_a_rule_set_needs_a_free_name_of_its_engine(engines, name, text):
    with pytest.raises(BadInput, match=text):
        engines.add(replace(OLD, name=name), "a note")


def variant(*arguments, id_="REGISTRY-PICK", decides=True):
    """A rule with these parameters."""
    space = {"Decision": Decision}
    note = " -> Decision" if decides else ""
    exec(f"def pick({', '.join(arguments)}){note}:\n    return Decision(None, {{}})", space)
    return rule(id_, Role.PICK, "a test")(space["pick"])


@pytest.mark.parametrize("arguments", [
    ("ckpts", "ask", "thold"), ("*all",), ("a", "*rest"), ("a", "b", "c", "d=1"), ("a", "b", "c=2"),
])  # fmt: skip
def test_a_rule_accepts_the_arguments_of_the_one_that_it_replaces(engines, arguments):
    engines.add(replace(OLD, name="llama_cpp@mine", ckpt_pick=variant(*arguments)), "a note")


@pytest.mark.parametrize(("made", "text"), [
    (lambda: variant("a"), "does not accept the arguments of"),
    (lambda: variant("a", "b", "c", "d"), "does not accept the arguments of"),
    (lambda: variant("a", "b", "c", decides=False), "lacks the return annotation Decision"),
    (lambda: len, "is not a rule"), (lambda: None, "is not a rule"),
])  # fmt: skip
def test_a_rule_that_does_not_fit_its_field_is_refused(engines, made, text):
    with pytest.raises(BadInput, match=f"ckpt_pick of 'llama_cpp@mine' {text}"):
        engines.add(replace(OLD, name="llama_cpp@mine", ckpt_pick=made()), "a note")


def test_a_rule_whose_id_another_one_took_is_refused(engines):
    first = variant("a", "b", "c")
    RULES["REGISTRY-PICK"] = len
    with pytest.raises(BadInput, match="has the id of another rule: REGISTRY-PICK"):
        engines.add(replace(OLD, name="llama_cpp@mine", ckpt_pick=first), "a note")


def test_rule_sets_are_those_of_a_list_or_the_public_ones_of_a_module():
    mine, other = replace(OLD, name="llama_cpp@mine"), replace(OLD, name="llama_cpp@other")
    module = ModuleType("rules")
    module.MINE, module._OTHER, module.KNOWN, module.n = mine, other, OLD, 3
    assert registry.rule_sets(module) == registry.rule_sets(mine) == registry.rule_sets([mine, OLD, mine, 3]) == [mine]
    assert registry.rule_sets((mine, other)) == [mine, other]
    for brought in ([OLD], ModuleType("empty"), 3):
        with pytest.raises(BadInput, match="contains no rule set"):
            registry.rule_sets(brought)


def test_a_view_has_the_tables_of_all_engines():
    view = ProfileView(lambda engine: engine.profiles)
    assert len(view) == sum(len(engine.profiles) for engine in ENGINES.values()) == len([*view])
    assert view["llama_cpp@b10587"] is OLD and registry.profiles()["llama_cpp@b10587"] is OLD
    assert registry.rules_of("llama_cpp@b10587") is OLD and registry.engine_of("llama_cpp@b10587").name == "llama_cpp"


@pytest.mark.parametrize(("name", "text"), [
    ("llama_cpp@b10588", r"unknown profile 'llama_cpp@b10588' \(did you mean .*llama_cpp@b10587"),
    ("lama_cpp", r"unknown profile 'lama_cpp' \(did you mean .*llama_cpp"),
    ("zzz@zzzzzzzzzz", r"unknown profile 'zzz@zzzzzzzzzz' \(see cachesim profiles list"),
])  # fmt: skip
def test_an_unknown_rule_set_is_refused_with_a_near_name(name, text):
    with pytest.raises(BadInput, match=text):
        registry.engine_of(name)


def test_an_unknown_engine_is_refused_with_a_near_name_or_with_all():
    assert registry.engine_named("vllm").name == "vllm"
    with pytest.raises(BadInput, match=r"unknown engine 'vlm' \(did you mean .*vllm"):
        registry.engine_named("vlm")
    with pytest.raises(BadInput, match=r"unknown engine 'zzzzzz' \(llama_cpp, ik_llama, mlx_lm, vllm, sglang\)"):
        registry.engine_named("zzzzzz")


def test_an_engine_is_known_by_its_name_in_recordings():
    for engine in ENGINES.values():
        assert registry.recorded_as(engine.recorded.name) is engine
    with pytest.raises(BadInput, match=r"unknown engine 'llama\.cp'"):
        registry.recorded_as("llama.cp")
    assert registry.commits() == {commit: name for engine in ENGINES.values()
                                  for commit, name in engine.recorded.commits.items()} != {}  # fmt: skip


def test_latest_and_an_engine_denote_its_newest_rule_set():
    newest = ENGINES["llama_cpp"].newest
    assert registry.latest()["llama_cpp@latest"] == newest
    assert registry.present_name("llama_cpp@latest") == registry.present_name("llama_cpp") == newest
    assert registry.present_name("llama_cpp@b10587") == "llama_cpp@b10587" and registry.present_name("x") == "x"
    noted = {name: note for engine in ENGINES.values() for name, note in engine.notes.items()}
    assert {name: registry.notes()[name] for name in noted} == noted


def test_a_rule_set_that_is_added_belongs_to_no_place_of_the_line_unless_it_is_between(monkeypatch):
    forget_engines(monkeypatch)
    made = [replace(OLD, name=f"llama_cpp@{name}") for name in ("mine", "composed")]
    registry.add(made[0], "a note")
    registry.add(made[1], "another", between=True)
    engine = registry.ENGINES["llama_cpp"]
    assert (engine.beside.get("llama_cpp@mine"), "llama_cpp@composed" in engine.beside) == ("llama_cpp@b10587", False)
    assert [engine.notes[rules.name] for rules in made] == ["a note", "another"]
