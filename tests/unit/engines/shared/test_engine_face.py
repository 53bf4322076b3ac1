"""What an engine imports on first use, and what its functions find there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Mapping

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import BUILTIN, rules_of
from cachesim.engines.shared.engine_face import (
    classes_of,
    command_of,
    events_of,
    log_of,
    memory_of,
    say_of,
    serve_of,
)
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.sentences import Sentences
from cachesim.events import Log
from cachesim.model import parse

LISTED = """
import sys
from cachesim.engines.registry import ENGINES
print(*(name for engine in ENGINES.values() for name in engine.profiles))
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def modules() -> set[str]:
    """Names of the modules that a list of all rule sets imports."""
    child = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=True)
    profiles, imported = child.stdout.splitlines()
    assert all(engine.line[-1] in profiles.split() for engine in BUILTIN.values())
    return set(imported.split())


@pytest.mark.parametrize("engine", BUILTIN)
@pytest.mark.parametrize("part", ["server", "sentences", "log_lines", "memory_use", "recordings", "command_table"])
def test_a_list_of_rule_sets_imports_no_server_and_no_report(engine: str, part: str, modules: set[str]) -> None:
    assert f"cachesim.engines.{engine}" in modules and f"cachesim.engines.{engine}.{part}" not in modules


@dataclass(frozen=True, repr=False)
class Toy(RuleSet):
    """A rule set whose default of ``size`` is 5."""

    defaults: Mapping[str, Any] = field(default_factory=lambda: {"size": 5, "kind": "toy"})


TOY = Toy("toy@one", "b1", "a/b#1")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package ``toy`` with the rule sets ``Toy``, whose server is a record of its arguments."""
    package = ModuleType("toy.server")
    package.Server = lambda *args: args  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy", ModuleType("toy"))
    monkeypatch.setitem(sys.modules, "toy.server", package)
    rules = ModuleType("toy.profiles")
    rules.Rules = Toy  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy.profiles", rules)


def test_a_server_starts_with_its_rules_its_layers_and_its_options(server: None) -> None:
    log = Log()
    serve = serve_of("toy", dict)
    rules, kind, options, model, used = serve(TOY, "AG", {"size": 6}, "none", log)
    assert rules is TOY and used is log and model is None
    assert (kind, options) == (parse("AG"), {"size": 6, "kind": "toy"})


@pytest.mark.parametrize(("mode", "exact"), [("provenance", False), ("exact", True)])
def test_the_mode_says_what_the_model_computes(server: None, mode: str, exact: bool) -> None:
    *_, model, _ = serve_of("toy", dict)(TOY, "A", {}, mode, Log())
    assert model.exact is exact and model.spec == parse("A")


def test_a_rule_set_of_another_engine_is_refused(server: None) -> None:
    with pytest.raises(BadInput, match="'llama_cpp@b11549' is not a rule set of this engine"):
        serve_of("toy", dict)(rules_of("llama_cpp@b11549"), "A", {}, "none", Log())


def test_parts_of_an_engine_are_found_in_their_modules() -> None:
    package = "cachesim.engines.vllm"
    assert memory_of(package)() is import_module(f"{package}.memory_use").FORMS
    assert command_of(package)() is import_module(f"{package}.command_table").COMMAND_TABLE
    assert log_of(package)() is import_module(f"{package}.log_lines").GRAMMAR
    assert classes_of(package)() is import_module(f"{package}.recordings").CLASSES
    assert events_of("cachesim.engines.llama_cpp")() is import_module("cachesim.engines.llama_cpp.events").LOGGED


def test_a_decision_is_said_with_the_sentences_of_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ModuleType("toy.sentences")
    words.SENTENCES = Sentences({"TOY": lambda value, because: f"{value} of {because['n']}"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy.sentences", words)
    assert say_of("toy")("TOY.ONE", 2, {"n": 3}) == "2 of 3"
    assert say_of("toy")("OTHER", 2, {"n": 3}) is None
