"""Metadata of rules: id, role, source and life time."""

import re
from collections import namedtuple
from types import ModuleType

import pytest

from cachesim.base.errors import BadInput, Crash
from cachesim.engines.registry import profiles
from cachesim.engines.rule import (
    RULES,
    About,
    Decision,
    Role,
    Source,
    about,
    has_effect,
    role_of,
    rule,
    rule_id,
    rule_text,
)

ENGINES = list(profiles())              # imports them all, and with them their rules
SHIPPED = [name for name, fn in RULES.items() if fn.__module__.startswith("cachesim.")]


@pytest.fixture
def registry():
    """The registry, as it was before when the test is over."""
    before = dict(RULES)
    yield RULES
    RULES.clear()
    RULES.update(before)


def test_a_decision_bears_the_id_of_its_rule(registry):
    @rule("TEST-A", Role.PICK, "a test")
    def first(n: int) -> Decision:
        """The number itself."""
        return Decision(n, {"n": n})

    @rule("TEST-B", Role.PICK, "a test")
    def second(n: int) -> Decision:
        """As A."""
        return first(n + 1)

    assert first(3) == Decision(3, {"n": 3}, "TEST-A")
    assert second(3) == Decision(4, {"n": 4}, "TEST-B")
    assert rule_id(second) == "TEST-B"
    assert role_of("TEST-B") is Role.PICK


def test_a_rule_that_returns_a_plain_value_is_the_function_itself(registry):
    def keep() -> bool:
        """Yes."""
        return True

    assert rule("TEST-PLAIN", Role.MEMORY, "a test")(keep) is keep


def test_an_id_belongs_to_one_function(registry):
    @rule("TEST-A", Role.PICK, "a test")
    def first() -> Decision:
        """Nothing."""
        return Decision(None, {})

    def second() -> Decision:
        """Nothing."""
        return Decision(None, {})

    with pytest.raises(Crash, match="TEST-A is used twice"):
        rule("TEST-A", Role.PICK, "a test")(second)


def test_a_module_may_be_loaded_twice(registry):
    code = compile('def mine() -> "Decision":\n    return Decision(1, {})\n', "mine.py", "exec")
    for _ in range(2):
        space = {"Decision": Decision}
        exec(code, space)
        rule("TEST-MINE", Role.PICK, "a test")(space["mine"])
    assert RULES["TEST-MINE"]().rule == "TEST-MINE"


def test_a_rule_needs_a_source(registry):
    with pytest.raises(Crash, match="names no source"):
        rule("TEST-A", Role.PICK, "")(lambda: None)


def test_what_is_no_rule_is_named():
    with pytest.raises(Crash, match="is not a rule"):
        rule_id(len)
    assert role_of("NO-SUCH") is None


@pytest.mark.parametrize("role, value, done", [
    (Role.PICK, 0, True), (Role.PICK, None, False), (Role.LOAD, False, True), (Role.CREATE, False, False),
    (Role.CREATE, True, True), (Role.STORE, (), False),
])
def test_a_number_zero_is_an_object_where_objects_are_numbered(role, value, done):
    assert has_effect(role, value) is done


@pytest.mark.parametrize("source, link, text", [
    (Source("a/b", "src/c.cpp", "f", "1a2b3c4d5"), "https://github.com/a/b/blob/1a2b3c4d5/src/c.cpp",
     "a/b src/c.cpp f (1a2b3c4d5)"),
    (Source("a/b", "c.py", "f", "0.32.2"), "https://github.com/a/b/blob/v0.32.2/c.py", "a/b c.py f (0.32.2)"),
    (Source("a/b", "c.py", "f", "3f9d179f to 0.32.2"), "https://github.com/a/b/blob/3f9d179f/c.py",
     "a/b c.py f (3f9d179f to 0.32.2)"),
    (Source("a/b", pull=7, note="open"), "https://github.com/a/b/pull/7", "a/b#7; open"),
    (Source("a/b", "c.py", "f", "b12", pull=7), "https://github.com/a/b/blob/b12/c.py", "a/b c.py f (b12); a/b#7"),
    (Source("a/b", "", "Class.f", "1a2b3c4d5", pull=7), "https://github.com/a/b/pull/7", "a/b#7 Class.f (1a2b3c4d5)"),
    (Source("", note="a patch of mine"), "", "a patch of mine"),
])
def test_a_source_has_an_address_and_a_line(source, link, text):
    assert source.link == link
    assert str(source) == text


def test_shipped_rules_name_a_public_place():
    projects = r"(ggml-org/llama|ikawrakow/ik_llama)\.cpp|ml-explore/mlx-lm|vllm-project/vllm|sgl-project/sglang"
    for name in SHIPPED:
        known = about(RULES[name])
        assert known.id == name and known.role in Role
        assert re.fullmatch(projects, known.source.project), known
        assert known.source.link or known.since or known.source.path, known
        for number in (known.since, known.until):
            assert re.fullmatch(r"(#\d+( \([0-9a-z]+\))?(, )?)+|b\d+|\d+\.\d+\.\d+|", number), known     # a release


@pytest.mark.parametrize(("since", "until", "life"), [
    ("", "", ""), ("#3", "", ", since #3"), ("", "#9", ", before #9"), ("#3", "#9", ", #3 to #9"),
])
def test_a_rule_is_cited_with_its_life_time(since, until, life):
    known = About("R", Role.PICK, Source("a/b", "c.py", "f", "b12"), since, until)
    assert known.cited == f"a/b c.py f (b12){life}"


def test_a_rule_of_a_user_must_return_a_decision(registry):
    @rule("TEST-A", Role.PICK, "a test")
    def wrong(n: int) -> Decision:
        """The number itself."""
        return n

    with pytest.raises(BadInput, match="rule TEST-A returned 3, expected a Decision") as refused:
        wrong(3)
    assert refused.value.file.endswith("test_rule.py") and refused.value.line

    @rule("TEST-B", Role.PICK, Source("a/b", pull=1))
    def shipped(n: int) -> Decision:
        """The number itself."""
        return n

    with pytest.raises(AttributeError):                  # a bug of ours is not the user's
        shipped(3)


def test_the_text_of_a_rule_is_its_docstring_which_is_read_from_the_file_if_python_dropped_it(monkeypatch):
    known = RULES["LC-CKPT-PICK.PK3"]
    text = rule_text(known)
    assert text == known.__doc__ and rule_text(lambda: None) == ""
    python = ModuleType("sys")
    python.flags = namedtuple("Flags", "optimize")(2)
    monkeypatch.setattr("cachesim.engines.rule.sys", python)
    assert rule_text(known) == text and rule_text(lambda: None) == ""
    space = {}
    exec("def made():\n    'a text'", space)             # it has no file
    assert rule_text(space["made"]) == ""
