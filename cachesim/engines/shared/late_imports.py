"""Parts of an engine that are imported on first use, because only reports or log readers need them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable, Mapping

from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.sentences import Sentences


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
