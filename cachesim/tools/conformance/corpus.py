"""Histories to run: drawn histories, given lines, and known faults.

Histories of known faults are also scaled to the sizes of the implementation: prompts shorter than a block never reach
the end of a block.
"""

from __future__ import annotations

from typing import AbstractSet, Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load
from cachesim.scenarios.notation.normalise import unmarked
from cachesim.scenarios.notation.tree import LineRequest, Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.schema import Scenario
from cachesim.tools.conformance.client_history import (
    KINDS,
    MOST,
    SLOTS,
    History,
    HistoryTurn,
    fits,
    history_from_tree,
    history_from_turns,
    parse_history,
)

# Drawn histories: a number determines the turns, on every machine and in every version.

LENGTH = 24                  # usual word length [tokens] if the implementation states no sizes
PREDICT = 4                  # most generated tokens
SPECIAL = ("cache", "cancel", "burst")
PLAIN = 6                    # plain requests per request of each special kind
TRIES = 20                   # draws per new history, after which the supply counts as exhausted


class DrawBounds(NamedTuple):
    """Bounds for drawing: histories of at most ``most_requests`` requests, prompts of at most ``most_prompt`` tokens.
    ``near``: sizes of the implementation (chunk, block, window, limit) around which lengths cluster;
    ``abilities``: those of the implementation, which limit the requests."""

    most_requests: int
    most_prompt: int
    near: Sequence[int]
    abilities: AbstractSet[str]


def histories(space: DrawBounds, examples: int, first: int = 0) -> Iterator[History]:
    """Yield ``examples`` different histories, fewer if there are no more. ``first``: number of the first draw."""
    seen: set[str] = set()
    for number in range(first, first + TRIES * examples):
        history = history_from_turns(_turns(Rng(number, "conform"), space), space.most_prompt)
        if history.line not in seen:
            seen.add(history.line)
            yield history
        if len(seen) == examples:
            return


def _turns(rng: Rng, space: DrawBounds) -> list[HistoryTurn]:
    """Draw the turns of a history: every third has 1 or 2 turns, the others 3 or more."""
    most = min(space.most_requests, MOST)
    n = rng.between(1, min(2, most)) if rng.chance(33) else rng.between(min(3, most), most)
    return [_turn(rng, space) for _ in range(n)]


def _turn(rng: Rng, space: DrawBounds) -> HistoryTurn:
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
    """Draw a length: the smallest, short, longer, or next to a size of the implementation."""
    beside = sorted({size + by for size in near for by in (-1, 0, 1) if size + by >= low})
    if beside and rng.chance(33):
        return rng.one(beside)
    return rng.between(low, rng.one((low, 4, 4, LENGTH)))


REQUESTS = 12                # most requests of a history from the corpus
TOKENS, SCALED = 1_000, 3_000  # most tokens of all its prompts, unscaled and scaled


def line_history(line: str, keyed: bool = False) -> History:
    """Parse a line as a history. ``keyed``: requests may name adapters, have images and ask for several completions.
    Raise BadInput."""
    history = parse_history(line)
    if history.is_keyed and not keyed:
        raise BadInput(f"{quoted(line)}: adapters, images and n_cmpl are supported by 'cachesim check' only",
                       hint="name what requests are computed under with keys=")  # fmt: skip
    if not _playable(history.scenario):
        raise BadInput(f"{quoted(line)}: expected at most {SLOTS} words and at least one generated token per request")
    return history


def corpus_histories(most_prompt: int, near: Sequence[int] = ()) -> Iterator[History]:
    """Yield the scenarios that consist of plain prompts and answers, each history once, in the order of their files. A
    scaled copy follows each: its words are multiplied by the largest size with which it still fits."""
    seen = set()
    for file in find([corpus_root()]):
        scenario = load(file)
        history = _plain(scenario) if _playable(scenario) else None
        if history is None or history.is_keyed or history.line in seen:
            continue
        for one, most in ((history, TOKENS), (_largest(history, most_prompt, near), SCALED)):
            if one is not None and one.line not in seen and _fits(one, most_prompt, most):
                seen.add(one.line)
                yield one


def _fits(history: History, most_prompt: int, most: int) -> bool:
    lengths = [len(step.request.prompt) for step in history.scenario.steps]
    return len(lengths) <= REQUESTS and max(lengths) <= most_prompt and sum(lengths) <= most


def _largest(history: History, most_prompt: int, near: Sequence[int]) -> History | None:
    """Return the history scaled by the largest size with which it fits, None if none does."""
    longest = max(len(step.request.prompt) for step in history.scenario.steps)
    size = max((one for one in near if one > 1 and one * longest <= most_prompt), default=0)
    return scaled(history, size) if size else None


def scaled(history: History, size: int) -> History:
    """Return the history with every word (and slice) ``size`` times as long, except answers."""
    answers = {piece.word for step in history.asked for piece in step.answer or ()}

    def longer(piece: Piece) -> Piece:
        if piece.word in answers:
            return piece
        ends = [None if end is None else end * size for end in (piece.start, piece.stop)]
        return piece._replace(start=ends[0], stop=ends[1])

    words = {word: n if word in answers else n * size for word, n in history.scenario.words.items()}
    asked = tuple(step._replace(prompt=tuple(map(longer, step.prompt))) for step in history.asked)
    return history_from_tree(ScenarioLine(words, asked))


def _plain(scenario: Scenario) -> History | None:
    """Return the scenario without slots and marks, which are engine-specific; None if it needs more than an answer."""
    steps = tuple(step.asked._replace(id_slot=-1) for step in scenario.steps if isinstance(step.asked, LineRequest))
    if any(step._replace(cache_prompt=True) != LineRequest(step.prompt, step.answer, step.n_predict) for step in steps):
        return None
    return history_from_tree(normal(unmarked(ScenarioLine(scenario.words, steps))))


def _playable(scenario: Scenario) -> bool:
    """True if all steps complete prompts, in words without special tokens."""
    return all(step.action is None and step.request.prompt and step.request.n_predict > 0
               and not step.request.messages and fits(step.request.prompt) and fits(step.request.forced or ())
               for step in scenario.steps)  # fmt: skip
