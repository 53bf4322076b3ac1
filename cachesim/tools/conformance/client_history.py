"""What does a client send? Turns of conversations, and the scenario in words that they make.

A turn continues the prompt and the answer of an earlier turn: all of it and more, its prompt without the answer and
more, a part of it and something else, a part and nothing, the same again. The answer of a turn is a word too
(``A5>a2/A.a.B3``: the client sends it back).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens
from cachesim.scenarios.notation.normalise import check_asked
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.scenarios.notation.tree import PLAIN, Action, Asked, Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.request_spec import FIRST, STRIDE, make_steps
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario

# Which tokens of the implementation's vocabulary do the words of a history stand for?
#
# Two words never share a token, so histories part where their line says so. A word that is an answer stands for what
# the implementation said, so that a client can send it back.

SLOTS = 32                   # words of a history at most: each has every 32nd token of the vocabulary
FEWEST = 64                  # tokens that the kit needs


class Dictionary:
    """The tokens of one history, from a vocabulary of at least ``FEWEST`` tokens."""

    def __init__(self, vocabulary: Sequence[int]) -> None:
        self.vocabulary = vocabulary
        self.size = len(vocabulary) // SLOTS * SLOTS
        self.said: dict[int, int] = {}               # token of an answer's word -> what was generated there

    def real(self, tokens: Tokens) -> Tokens:
        """The implementation's tokens for those of the scenario."""
        return tuple(self.said[one] if one in self.said else self._word(one) for one in tokens)

    def bind(self, answer: Tokens | None, generated: Tokens | None) -> None:
        """From here on the answer's word stands for what was generated; for tokens of its own where nothing was."""
        self.said |= dict(zip(answer or (), generated or (), strict=False))

    def _word(self, token: int) -> int:
        word, index = divmod(token - FIRST, STRIDE)
        return self.vocabulary[(index * SLOTS + word) % self.size]


def fits(tokens: Tokens) -> bool:
    """Are these tokens of at most ``SLOTS`` words, none of them spelled out?"""
    return all(FIRST <= one < FIRST + SLOTS * STRIDE for one in tokens)


KINDS = ("new", "append", "extend", "branch", "prefix", "repeat")
MOST = 12                    # turns of a history; every one may need two words


class HistoryTurn(NamedTuple):
    """One request. ``kind`` says what it does with an earlier turn: the one ``after`` turns before the last, modulo
    those there are (none yet = "new"). ``cut``: tokens taken off the end, less one, where something is; ``new`` tokens
    of a word of its own, where something comes on; ``predict`` tokens are generated. ``together``: sent while the turn
    before is served."""

    kind: str
    after: int
    cut: int
    new: int
    predict: int
    cache: bool = True
    cancel_after: int | None = None
    together: bool = False


class HistoryPart(NamedTuple):
    """Tokens start .. stop-1 of a word."""

    word: str
    start: int
    stop: int


Parts = tuple[HistoryPart, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Requests in words, as far as every cache can be sent them: prompts with an answer or a number of tokens, with or
    without the cache, cancelled or not, alone or together."""

    scenario: Scenario

    @property
    def line(self) -> str:
        """The history in the project's notation."""
        return repr(self.scenario)

    @property
    def tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(len(step.request.prompt) for step in self.scenario.steps)

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The requests in words."""
        return tuple(step.asked for step in self.scenario.steps if isinstance(step.asked, Asked))

    @property
    def hang_ups(self) -> tuple[int | None, ...]:
        """After how many generated tokens the client disconnects from each request, None = never."""
        return tuple(one.cancel_after for one in self.asked)

    @property
    def shrinkable(self) -> ShrinkCase:
        """What of it can be made smaller."""
        return ShrinkCase(self.scenario.line)

    def reduced_to(self, small: ShrinkCase) -> History | None:
        """The history that a line is, None if it is none or has too many words."""
        try:
            return of_tree(normal(small.line)) if len(small.line.words) <= SLOTS else None
        except BadInput:
            return None

    def without(self, *names: str) -> History:
        """The same prompts without these special ways of asking: "cache", "cancel", "burst"."""
        gone = {field: getattr(PLAIN, field) for name in names for field in SPECIAL[name]}
        return of_tree(ScenarioLine(self.scenario.words, tuple(one._replace(**gone) for one in self.asked)))


SPECIAL: Mapping[str, tuple[str, ...]] = {"cache": ("cache_prompt",), "cancel": ("cancel_after",),
                                          "burst": ("together", "after")}  # fmt: skip
"""The fields of a request that make each special kind."""
KNOWN = ("prompt", "answer", "n_predict", "cache_prompt", "id_slot", "cancel_after", "together")
"""What a request of a history may say. Slots belong to servers: a cache has none."""


def of_line(text: str) -> History:
    """A history in the project's notation. Raises BadInput."""
    return of_tree(parse(text))


def of_tree(line: ScenarioLine) -> History:
    """The history that a line is. Raises BadInput if not every cache could be sent it."""
    for number, step in enumerate(line.steps):
        if isinstance(step, Action):
            other = [step.do]
        else:
            other = [name for name in step._fields if name not in KNOWN and getattr(step, name) != getattr(PLAIN, name)]
        if other:
            known = "supported: prompts with an answer, !, cancel_after=N, together"
            raise BadInput(f"request {number}: {other[0]} is not supported by conform", hint=known)
        if isinstance(step, Asked):
            check_asked(step, line.words)
    engine = DEFAULT_PROFILE.partition("@")[0]
    steps = make_steps(line.steps, line.words)
    return History(Scenario("kit", "", ("cachesim",), "", engine, "A", (DEFAULT_PROFILE,), {}, line.words, steps))


def of_turns(turns: Sequence[HistoryTurn], most: int) -> History:
    """The turns in words, prompts cut to ``most`` tokens."""
    prompts: list[Parts] = []
    for number, turn in enumerate(turns):
        prompts.append(_first(_prompt(number, turn, turns, prompts), most))
    said = {part.word for prompt in prompts for part in prompt}
    asked = tuple(_asked(number, turn, prompts[number], said) for number, turn in enumerate(turns))
    words: dict[str, int] = {}
    for number, turn in enumerate(turns):
        words |= {part.word: turn.new for part in prompts[number] if part.word == _word(number)}
        words |= {_answer(number): turn.predict} if _answer(number) in said else {}
    return of_tree(ScenarioLine(words, asked))


def _prompt(number: int, turn: HistoryTurn, turns: Sequence[HistoryTurn], prompts: Sequence[Parts]) -> Parts:
    own = (HistoryPart(_word(number), 0, turn.new),)
    if turn.kind == "new" or not number:
        return own
    at = number - 1 - turn.after % number
    if turn.kind == "repeat":
        return prompts[at]
    if turn.kind == "extend":
        return (*prompts[at], *own)
    whole = (*prompts[at], HistoryPart(_answer(at), 0, turns[at].predict))
    if turn.kind == "append":
        return (*whole, *own)
    left = _first(whole, max(1, _size(whole) - 1 - turn.cut))
    return left if turn.kind == "prefix" else (*left, *own)


def _word(number: int) -> str:
    return chr(ord("A") + number)


def _answer(number: int) -> str:
    return chr(ord("a") + number)


def _size(parts: Parts) -> int:
    return sum(part.stop - part.start for part in parts)


def _first(parts: Parts, most: int) -> Parts:
    """The first ``most`` tokens, or all where there are fewer."""
    out: list[HistoryPart] = []
    for part in parts:
        left = most - _size(tuple(out))
        if left > 0:
            out.append(part._replace(stop=min(part.stop, part.start + left)))
    return tuple(out)


def _asked(number: int, turn: HistoryTurn, prompt: Parts, said: set[str]) -> Asked:
    answer = (Piece(_answer(number)),) if _answer(number) in said else None
    pieces = tuple(Piece(part.word, False, part.start, part.stop) for part in prompt)
    return Asked(pieces, answer, turn.predict, cache_prompt=turn.cache, cancel_after=turn.cancel_after,
                 together=turn.together and number > 0)  # fmt: skip
