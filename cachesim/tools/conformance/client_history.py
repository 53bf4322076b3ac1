"""Client histories: turns of conversations, and the scenario in words that they make.

A turn relates to an earlier turn: it appends to prompt and answer ("append"), continues the prompt without the answer
("extend"), branches off ("branch"), or sends a part ("prefix") or all of it again ("repeat"). The answer of a turn is a
word too (``A5>a2/A.a.B3``: the client sends it back).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items, is_item, item_at
from cachesim.base.tokens import Tokens
from cachesim.scenarios.notation.normalise import check_asked
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.scenarios.notation.tree import PLAIN, Action, LineRequest, Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.scenarios.request_spec import FIRST, STRIDE, make_steps
from cachesim.scenarios.schema import DEFAULT_PROFILE, Scenario

# Tokens of the implementation's vocabulary for the words of a history.
#
# Two words never share a token, so histories part where their line says so. The word of an answer stands for the tokens
# that the implementation generated, so that a client can send them back.

SLOTS = 32                   # most words of a history: each has every 32nd token of the vocabulary
FEWEST = 64                  # smallest usable vocabulary


class TokenDictionary:
    """Mapping of a history's tokens to a vocabulary of at least ``FEWEST`` tokens. ``name`` makes its images differ
    from those of other dictionaries."""

    def __init__(self, vocabulary: Sequence[int], name: str = "") -> None:
        self.vocabulary, self.name = vocabulary, name
        self.size = len(vocabulary) // SLOTS * SLOTS
        self.said: dict[int, int] = {}               # token of an answer's word -> what was generated there

    def real(self, tokens: Tokens) -> Tokens:
        """Return the implementation's tokens for tokens of the scenario."""
        return tuple(self.said[one] if one in self.said else self._word(one) for one in tokens)

    def bind(self, answer: Tokens | None, generated: Tokens | None) -> None:
        """Map the answer's word to the generated tokens from now on; the mapping of other tokens stays."""
        self.said |= dict(zip(answer or (), generated or (), strict=False))

    def _word(self, token: int) -> int:
        if item := item_at((token,), 0):
            return image_items(f"{self.name}/{token - item.number}", item.n_tokens, item.n_pos)[item.number]
        word, index = divmod(token - FIRST, STRIDE)
        return self.vocabulary[(index * SLOTS + word) % self.size]


def fits(tokens: Tokens) -> bool:
    """True if these tokens belong to at most ``SLOTS`` words and none of them is spelled out."""
    return all(FIRST <= one < FIRST + SLOTS * STRIDE or is_item(one) for one in tokens)


KINDS = ("new", "append", "extend", "branch", "prefix", "repeat")
MOST = 12                    # most turns of a history; each may need two words


class HistoryTurn(NamedTuple):
    """A request of a client."""

    kind: str                            # relation to an earlier turn, see ``KINDS``; "new" = unrelated
    after: int                           # that turn, counted back from the last, modulo the number of turns
    cut: int                             # "branch", "prefix": tokens removed from the end, less 1
    new: int                             # tokens of the turn's own word
    predict: int                         # tokens generated
    cache: bool = True
    cancel_after: int | None = None
    together: bool = False               # sent while the turn before is served


class HistoryPart(NamedTuple):
    """First tokens of a word."""

    word: str
    tokens: int


Parts = tuple[HistoryPart, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Requests in words that every cache can serve: prompts with an answer or a number of tokens, with or without the
    cache, cancelled or not, alone or together."""

    scenario: Scenario

    @property
    def line(self) -> str:
        """The history in the project's notation."""
        return repr(self.scenario)

    @property
    def tokens(self) -> int:
        """Total tokens of all prompts."""
        return sum(len(step.request.prompt) for step in self.scenario.steps)

    @property
    def has_images(self) -> bool:
        """True if a prompt has an image."""
        return any(is_item(token) for step in self.scenario.steps for token in step.request.prompt)

    @property
    def is_keyed(self) -> bool:
        """True if a request names adapters, has images or asks for several completions, which only servers take."""
        return self.has_images or any(one.extra or one.n_cmpl > 1 for one in self.asked)

    @property
    def has_bursts(self) -> bool:
        """True if requests arrive together, or one asks for several completions."""
        return any(one.together or one.n_cmpl > 1 for one in self.asked)

    @property
    def is_spread(self) -> bool:
        """True if requests may use several slots: some arrive together, or name slots."""
        return self.has_bursts or any(one.id_slot >= 0 for one in self.asked)

    @property
    def uncached(self) -> History:
        """The history with the cache switched off in every request and without named slots. A request that arrives
        together with the others takes the place of each further completion."""
        off = tuple(one._replace(cache_prompt=False, id_slot=-1, n_cmpl=1, together=one.together or number > 0)
                    for one in self.asked for number in range(one.n_cmpl))  # fmt: skip
        return history_from_tree(ScenarioLine(self.scenario.words, off))

    @property
    def asked(self) -> tuple[LineRequest, ...]:
        """The requests in words."""
        return tuple(step.asked for step in self.scenario.steps if isinstance(step.asked, LineRequest))

    @property
    def hang_ups(self) -> tuple[int | None, ...]:
        """Generated tokens after which the client disconnects, per request; None = never."""
        return tuple(one.cancel_after for one in self.asked)

    @property
    def shrinkable(self) -> ShrinkCase:
        """The history as a shrinkable scenario."""
        return ShrinkCase(self.scenario.line)

    def reduced_to(self, small: ShrinkCase) -> History | None:
        """Return the history of a shrunk line, None if it is invalid or has too many words."""
        try:
            return history_from_tree(normal(small.line)) if len(small.line.words) <= SLOTS else None
        except BadInput:
            return None

    def without(self, *names: str) -> History:
        """Return the prompts without these special request options: "cache", "cancel", "burst"."""
        gone = {field: getattr(PLAIN, field) for name in names for field in SPECIAL[name]}
        return history_from_tree(ScenarioLine(self.scenario.words, tuple(one._replace(**gone) for one in self.asked)))


SPECIAL: Mapping[str, tuple[str, ...]] = {"cache": ("cache_prompt",), "cancel": ("cancel_after",),
                                          "burst": ("together", "after")}  # fmt: skip
"""Request fields that each special option sets."""
KNOWN = ("prompt", "answer", "n_predict", "cache_prompt", "id_slot", "cancel_after", "together", "extra", "n_cmpl")
"""Fields that a request of a history may set. Slots belong to servers, other caches ignore them; ``line_history``
admits ``n_cmpl`` and, of the extra fields, ``lora`` for servers only."""


def parse_history(text: str) -> History:
    """Parse a history in the project's notation. Raise BadInput."""
    return history_from_tree(parse(text))


def history_from_tree(line: ScenarioLine) -> History:
    """Convert a parsed line to a history. Raise BadInput for a request that some cache cannot serve."""
    for number, step in enumerate(line.steps):
        if isinstance(step, Action):
            other = [step.do]
        else:
            other = [name for name in step._fields if name not in KNOWN and getattr(step, name) != getattr(PLAIN, name)]
            other += [name for name, _ in step.extra if name != "lora"]
        if other:
            known = "supported: prompts with an answer, !, cancel_after=N, together"
            raise BadInput(f"request {number}: {other[0]} is not supported by conform", hint=known)
        assert isinstance(step, LineRequest)         # an action was refused
        check_asked(step, line.words)
    engine = DEFAULT_PROFILE.partition("@")[0]
    steps = make_steps(line.steps, line.words)
    return History(Scenario("kit", "", ("cachesim",), "", engine, "A", (DEFAULT_PROFILE,), {}, line.words, steps))


def history_from_turns(turns: Sequence[HistoryTurn], most: int) -> History:
    """Convert turns to a history in words; prompts are cut to ``most`` tokens."""
    prompts: list[Parts] = []
    for number, turn in enumerate(turns):
        prompts.append(_first(_prompt(number, turn, turns, prompts), most))
    said = {part.word for prompt in prompts for part in prompt}
    asked = tuple(_asked(number, turn, prompts[number], said) for number, turn in enumerate(turns))
    words: dict[str, int] = {}
    for number, turn in enumerate(turns):
        words |= {part.word: turn.new for part in prompts[number] if part.word == _word(number)}
        words |= {_answer(number): turn.predict} if _answer(number) in said else {}
    return history_from_tree(ScenarioLine(words, asked))


def _prompt(number: int, turn: HistoryTurn, turns: Sequence[HistoryTurn], prompts: Sequence[Parts]) -> Parts:
    own = (HistoryPart(_word(number), turn.new),)
    if turn.kind == "new" or not number:
        return own
    at = number - 1 - turn.after % number
    if turn.kind == "repeat":
        return prompts[at]
    if turn.kind == "extend":
        return (*prompts[at], *own)
    whole = (*prompts[at], HistoryPart(_answer(at), turns[at].predict))
    if turn.kind == "append":
        return (*whole, *own)
    left = _first(whole, max(1, _size(whole) - 1 - turn.cut))
    return left if turn.kind == "prefix" else (*left, *own)


def _word(number: int) -> str:
    return chr(ord("A") + number)


def _answer(number: int) -> str:
    return chr(ord("a") + number)


def _size(parts: Parts) -> int:
    return sum(part.tokens for part in parts)


def _first(parts: Parts, most: int) -> Parts:
    """Return the first ``most`` tokens, or all if there are fewer."""
    out: list[HistoryPart] = []
    for part in parts:
        left = most - _size(tuple(out))
        if left > 0:
            out.append(part._replace(tokens=min(part.tokens, left)))
    return tuple(out)


def _asked(number: int, turn: HistoryTurn, prompt: Parts, said: set[str]) -> LineRequest:
    answer = (Piece(_answer(number)),) if _answer(number) in said else None
    pieces = tuple(Piece(part.word, False, 0, part.tokens) for part in prompt)
    return LineRequest(pieces, answer, turn.predict, cache_prompt=turn.cache, cancel_after=turn.cancel_after,
                       together=turn.together and number > 0)  # fmt: skip
