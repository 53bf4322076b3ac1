"""Which histories are played beside the drawn ones? Lines that are given, and those of the known faults, which are also
scaled to the sizes of the implementation: what happens at a block's end is not seen in prompts shorter than a block.
"""

from __future__ import annotations

from typing import AbstractSet, Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load
from cachesim.scenarios.notation.normalise import unmarked
from cachesim.scenarios.notation.tree import Asked, Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.schema import Scenario
from cachesim.tools.conformance.client_history import (
    KINDS,
    MOST,
    SLOTS,
    History,
    HistoryTurn,
    fits,
    of_line,
    of_tree,
    of_turns,
)

# Which histories are tried? Turns drawn from a number: the same ones on every machine and in every version.

LENGTH = 24                  # tokens of a word where the implementation's own sizes say nothing
PREDICT = 4                  # tokens generated at most
SPECIAL = ("cache", "cancel", "burst")
PLAIN = 6                    # plain requests for one of each special kind
TRIES = 20                   # histories drawn for one that is new, before there are taken to be no more


class Space(NamedTuple):
    """What may be drawn: histories of at most ``most_requests`` requests and prompts of at most ``most_prompt`` tokens.
    ``near``: sizes of the implementation (chunk, block, window, limit) around which lengths crowd; ``abilities``: only
    what it is able to do is drawn."""

    most_requests: int
    most_prompt: int
    near: Sequence[int]
    abilities: AbstractSet[str]


def histories(space: Space, examples: int, first: int = 0) -> Iterator[History]:
    """So many different histories, fewer where there are no more. ``first``: the number that they are drawn from on."""
    seen: set[str] = set()
    for number in range(first, first + TRIES * examples):
        history = of_turns(_turns(Rng(number, "conform"), space), space.most_prompt)
        if history.line not in seen:
            seen.add(history.line)
            yield history
        if len(seen) == examples:
            return


def _turns(rng: Rng, space: Space) -> list[HistoryTurn]:
    """Every third history has one or two turns, the others three or more."""
    most = min(space.most_requests, MOST)
    n = rng.between(1, min(2, most)) if rng.chance(33) else rng.between(min(3, most), most)
    return [_turn(rng, space) for _ in range(n)]


def _turn(rng: Rng, space: Space) -> HistoryTurn:
    able = {"cancel" if name.startswith("cancel_") else name for name in space.abilities}
    special = rng.one([""] * PLAIN + [name for name in SPECIAL if name in able])
    predict = 1 if rng.chance(50) else rng.between(1, PREDICT)
    hang_up = 0 if rng.chance(50) else rng.below(PREDICT)
    if special == "cancel" and "cancel_prompt" not in space.abilities:
        hang_up, predict = max(hang_up, 1), max(predict, 2)
    elif special == "cancel" and "cancel_answer" not in space.abilities:
        hang_up = 0
    cancel_after = min(hang_up, predict - 1) if special == "cancel" else None
    return HistoryTurn(rng.one(KINDS), rng.below(MOST), _length(rng, space.near, 0), _length(rng, space.near, 1),
                       predict, special != "cache", cancel_after, special == "burst")  # fmt: skip


def _length(rng: Rng, near: Sequence[int], low: int) -> int:
    """The least, short, longer, or beside one of the sizes."""
    beside = sorted({size + by for size in near for by in (-1, 0, 1) if size + by >= low})
    if beside and rng.chance(33):
        return rng.one(beside)
    return rng.between(low, rng.one((low, 4, 4, LENGTH)))


REQUESTS = 12                # requests of a history from the corpus at most
TOKENS, SCALED = 1_000, 3_000  # tokens of its prompts together at most, as it is and scaled


def line_history(line: str) -> History:
    """A history in one line. Raises BadInput."""
    history = of_line(line)
    if not _playable(history.scenario):
        raise BadInput(f"{quoted(line)}: at most {SLOTS} words, and at least one token generated per request")
    return history


def corpus_histories(most_prompt: int, near: Sequence[int] = ()) -> Iterator[History]:
    """The scenarios that are plain prompts and answers, each history once, in the order of their files; and behind each
    the same with words as many times as long as the largest of these sizes with which it still fits."""
    seen = set()
    for file in find([corpus_root()]):
        scenario = load(file)
        history = _plain(scenario) if _playable(scenario) else None
        if history is None or history.line in seen:
            continue
        for one, most in ((history, TOKENS), (_largest(history, most_prompt, near), SCALED)):
            if one is not None and one.line not in seen and _fits(one, most_prompt, most):
                seen.add(one.line)
                yield one


def _fits(history: History, most_prompt: int, most: int) -> bool:
    lengths = [len(step.request.prompt) for step in history.scenario.steps]
    return len(lengths) <= REQUESTS and max(lengths) <= most_prompt and sum(lengths) <= most


def _largest(history: History, most_prompt: int, near: Sequence[int]) -> History | None:
    """The history scaled by the largest of these sizes with which it fits, None if there is none."""
    longest = max(len(step.request.prompt) for step in history.scenario.steps)
    size = max((one for one in near if one > 1 and one * longest <= most_prompt), default=0)
    return scaled(history, size) if size else None


def scaled(history: History, size: int) -> History:
    """The history with ``size`` times as many tokens in every word, and in every slice of it, that is no answer."""
    answers = {piece.word for step in history.asked for piece in step.answer or ()}

    def longer(piece: Piece) -> Piece:
        if piece.word in answers:
            return piece
        ends = [None if end is None else end * size for end in (piece.start, piece.stop)]
        return piece._replace(start=ends[0], stop=ends[1])

    words = {word: n if word in answers else n * size for word, n in history.scenario.words.items()}
    asked = tuple(step._replace(prompt=tuple(map(longer, step.prompt))) for step in history.asked)
    return of_tree(ScenarioLine(words, asked))


def _plain(scenario: Scenario) -> History | None:
    """The scenario without slots and marks, which are the engines' own; None if it asks for more than an answer."""
    steps = tuple(step.asked._replace(id_slot=-1) for step in scenario.steps if isinstance(step.asked, Asked))
    if any(step._replace(cache_prompt=True) != Asked(step.prompt, step.answer, step.n_predict) for step in steps):
        return None
    return of_tree(normal(unmarked(ScenarioLine(scenario.words, steps))))


def _playable(scenario: Scenario) -> bool:
    """Are all steps completions of prompts, in words that are no special tokens?"""
    return all(step.action is None and step.request.prompt and step.request.n_predict > 0
               and not step.request.messages and fits(step.request.prompt) and fits(step.request.forced or ())
               for step in scenario.steps)  # fmt: skip
