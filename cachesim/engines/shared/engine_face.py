"""Functions with which an engine presents itself: start of a server, sentences, log lines, sizes.

Server, sentences, log lines, sizes and recordings are imported on first use: lists of rule sets and options need none
of them.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.capabilities import Option
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.events import Event, Log
from cachesim.model import Spec, make_model, parse

if TYPE_CHECKING:
    from cachesim.engines.chat_bodies import ChatBodies
    from cachesim.engines.contract import ClassTest
    from cachesim.engines.shared.capacity import CapacityForms
    from cachesim.engines.shared.class_recording import ClassRecording
    from cachesim.engines.shared.command_table import CommandTable
    from cachesim.engines.shared.log_grammar import LogGrammar
    from cachesim.engines.shared.memory_use import MemoryForms
    from cachesim.engines.shared.sentences import Sentences


class Layout(NamedTuple):
    """A model as a server takes it, ``kind``, and its layers."""

    kind: Any
    spec: Spec


class RuleSetsOnDemand(Mapping[str, RuleSet]):
    """Rule sets of an engine by name. The names are those of the engine's history; ``profiles`` of its package, and
    with it all rules, are imported with the first rule set, and by an iteration, which has their order."""

    def __init__(self, package: str, line: Sequence[str], beside: Mapping[str, str]) -> None:
        self._package = package
        self._names = frozenset((*line, *beside))

    @cached_property
    def _loaded(self) -> Mapping[str, RuleSet]:
        package = self._package
        found: Mapping[str, RuleSet] = import_module(f"{package}.profiles").PROFILES
        return found

    def __getitem__(self, name: str) -> RuleSet:
        if name not in self._names:
            raise KeyError(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


def layers_of(model: str, rules: RuleSet) -> Layout:
    """Return the layers of a model, for a server that needs nothing else. Raise BadInput."""
    spec = parse(split_sizes(model)[0])
    return Layout(spec, spec)


def layout_of(module: str) -> Callable[[str, RuleSet], Layout]:
    """Return a function that lays out a model as ``model_kind`` of a module reads it, whatever the rule set."""

    def layout(model: str, rules: RuleSet) -> Layout:
        """Return a model as the engine lays it out. Raise BadInput."""
        kind = import_module(module).model_kind(model)
        return Layout(kind, kind.spec)

    return layout


def as_given(rules: RuleSet, spec: Spec, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of a server that resolves none of them at its start."""
    return given


def serve_of(package: str, options: Callable[[Mapping[str, Any]], Any],
             layout: Callable[[str, Any], Layout] = layers_of,
             resolve: Callable[[Any, Spec, Mapping[str, Any]], Mapping[str, Any]] = as_given) -> Callable[..., Any]:
    """Return a function that starts the ``Server`` of an engine with its ``Rules`` and options. ``layout`` reads a
    model and raises BadInput for one that is not simulated; ``resolve`` adds the defaults that the server chooses at
    its start, from its model and the options given."""

    def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> Any:
        """Start a server of this version and model. ``mode``: "none", "provenance" or "exact". Raise BadInput."""
        if not isinstance(rules, import_module(f"{package}.profiles").Rules):
            raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
        found = layout(model, rules)
        tiny = None if mode == "none" else make_model(found.spec, exact=mode == "exact")
        server = import_module(f"{package}.server").Server
        given = resolve(rules, found.spec, rules.options(flags))
        return server(rules, found.kind, options(given), tiny, log)

    return serve


def say_of(package: str) -> Callable[[str, object, Mapping[str, Any]], str | None]:
    """Return a function that states a decision in words with the ``SENTENCES`` of an engine."""

    def say(rule: str, value: object, because: Mapping[str, Any]) -> str | None:
        """Return a decision in words, or None without a sentence for it."""
        sentences: Sentences = import_module(f"{package}.sentences").SENTENCES
        return sentences.say(rule, value, because)

    return say


def log_of(package: str) -> Callable[[], LogGrammar]:
    """Return a function that returns the ``GRAMMAR`` of the log of an engine's server."""

    def log() -> LogGrammar:
        """Return the grammar of the server's log."""
        grammar: LogGrammar = import_module(f"{package}.log_lines").GRAMMAR
        return grammar

    return log


def memory_of(package: str) -> Callable[[], MemoryForms | None]:
    """Return a function that returns the ``FORMS`` of the sizes of an engine's caches."""

    def memory() -> MemoryForms | None:
        """Return the sizes of the server's caches."""
        forms: MemoryForms = import_module(f"{package}.memory_use").FORMS
        return forms

    return memory


def capacity_of(package: str) -> Callable[[], CapacityForms | None]:
    """Return a function that returns the ``FORMS`` of the options that set how much an engine's caches hold."""

    def capacity() -> CapacityForms | None:
        """Return the sizes of the server's caches, and for which of them one run tells the reuse with all values."""
        forms: CapacityForms = import_module(f"{package}.capacity").FORMS
        return forms

    return capacity


def bodies_of(package: str) -> Callable[[str], ChatBodies]:
    """Return a function that returns how the server of a rule set reads request bodies: the function ``chat_bodies`` of
    an engine's module of this name."""

    def chat_bodies(profile: str) -> ChatBodies:
        """Return how the server of a rule set reads request bodies."""
        reading: ChatBodies = import_module(f"{package}.chat_bodies").chat_bodies(profile)
        return reading

    return chat_bodies


def command_of(package: str) -> Callable[[], CommandTable | None]:
    """Return a function that returns the ``COMMAND_TABLE`` of the arguments of an engine's server."""

    def command() -> CommandTable | None:
        """Return the table of the server's arguments."""
        table: CommandTable = import_module(f"{package}.command_table").COMMAND_TABLE
        return table

    return command


def classes_of(package: str) -> Callable[[], ClassRecording | None]:
    """Return a function that returns the ``CLASSES`` of an engine, which plays recordings of its server's classes."""

    def classes() -> ClassRecording | None:
        """Return the player of recordings of the server's classes."""
        played: ClassRecording = import_module(f"{package}.recordings").CLASSES
        return played

    return classes


def class_test_of(package: str) -> Callable[[], ClassTest | None]:
    """Return a function that returns the ``CLASS_TEST`` of an engine, which writes tests on the released classes."""

    def class_test() -> ClassTest | None:
        """Return the writer of tests on the released classes."""
        found: ClassTest = import_module(f"{package}.class_test").CLASS_TEST
        return found

    return class_test


def events_of(package: str) -> Callable[[], Sequence[type[Event]]]:
    """Return a function that returns the events that an engine's server logs besides those of all engines."""

    def events() -> Sequence[type[Event]]:
        """Return the events that the server logs."""
        logged: Sequence[type[Event]] = import_module(f"{package}.events").LOGGED
        return logged

    return events
