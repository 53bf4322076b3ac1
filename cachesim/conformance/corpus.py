"""Which histories are played beside the drawn ones? Lines that somebody wrote, and those of the known bugs."""

from __future__ import annotations

from typing import Iterator

from cachesim.conformance.history import History, of_line, of_tree
from cachesim.conformance.vocabulary_map import SLOTS, fits
from cachesim.errors import BadInput, quoted
from cachesim.notation.tidy import unmarked
from cachesim.notation.tree import Asked, Line
from cachesim.notation.words import normal
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load
from cachesim.scenarios.schema import Scenario

REQUESTS = 12                # requests of a history from the corpus at most
TOKENS = 1_000               # tokens of its prompts together at most


def line_history(line: str) -> History:
    """A history in one line. Raises BadInput."""
    history = of_line(line)
    if not _playable(history.scenario):
        raise BadInput(f"{quoted(line)}: at most {SLOTS} words, and at least one token generated per request")
    return history


def corpus_histories(most_prompt: int) -> Iterator[History]:
    """The scenarios that are plain prompts and answers, each history once, in the order of their files."""
    seen = set()
    for file in find([corpus_root()]):
        scenario = load(file)
        if not _playable(scenario):
            continue
        history = _plain(scenario)
        if history is None or history.line in seen:
            continue
        lengths = [len(step.request.prompt) for step in scenario.steps]
        if len(lengths) <= REQUESTS and max(lengths) <= most_prompt and sum(lengths) <= TOKENS:
            seen.add(history.line)
            yield history


def _plain(scenario: Scenario) -> History | None:
    """The scenario without slots and marks, which are the engines' own; None if it asks for more than an answer."""
    steps = tuple(step.asked._replace(id_slot=-1) for step in scenario.steps if isinstance(step.asked, Asked))
    if any(step._replace(cache_prompt=True) != Asked(step.prompt, step.answer, step.n_predict) for step in steps):
        return None
    return of_tree(normal(unmarked(Line(scenario.words, steps))))


def _playable(scenario: Scenario) -> bool:
    """Are all steps completions of prompts, in words that are no special tokens?"""
    return all(
        step.action is None and step.request.prompt and step.request.n_predict > 0 and not step.request.messages
        and fits(step.request.prompt) and fits(step.request.forced or ())
        for step in scenario.steps
    )  # fmt: skip
