"""The requests as a scenario, and what the simulator reuses of each."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.notation.normalise import letters
from cachesim.scenarios.notation.tree import Asked, Piece
from cachesim.scenarios.option_checks import model_named
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.request_bodies.request_diff import PromptRecord

# Prompts as stretches of words: what is shared with an earlier text is its words, what is new is a new word.
#
# No text is in it, only lengths in tokens, and where the newest user message begins.

class WordPart(NamedTuple):
    """The first ``take`` of a word's ``full`` tokens; ``user``: a user message begins there."""

    word: str
    take: int
    full: int
    user: bool = False

    def piece(self) -> Piece:
        """It in the notation."""
        return Piece(self.word, self.user, None, None if self.take == self.full else self.take)


def first(text: Sequence[WordPart], tokens: int) -> list[WordPart]:
    """The beginning of a text, of at most so many tokens."""
    out = []
    for one in text:
        if tokens <= 0:
            break
        out.append(one._replace(take=min(one.take, tokens)))
        tokens -= one.take
    return out


def size(text: Sequence[WordPart]) -> int:
    """The length of a text in tokens."""
    return sum(one.take for one in text)


class TokenRequest(NamedTuple):
    """A request in tokens: its ``prompt``, of which ``common`` are shared with the text that request ``base`` left (its
    prompt and ``answer``), -1 = with none; the newest user message begins behind ``user`` tokens, -1 = not known.
    ``returned``: of the answer, so many tokens come back as they were generated."""

    prompt: int
    base: int
    common: int
    answer: int
    user: int = -1


class ScenarioWords:
    """The words of a scenario, as they are made."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.texts: list[list[WordPart]] = []
        self.names = map(letters, count())

    def add(self, asking: TokenRequest) -> Asked:
        """One more request."""
        base = self.texts[asking.base] if asking.base >= 0 else []
        prompt = first(base, asking.common)
        at = size(prompt)
        cuts = [cut for cut in (asking.user,) if at < cut < asking.prompt]
        for stop in (*cuts, asking.prompt):
            if stop > at:
                word = self._word(next(self.names), stop - at)
                prompt.append(WordPart(word, stop - at, stop - at, user=at == asking.user))
                at = stop
        name = next(self.names).lower()
        answer = WordPart(self._word(name, asking.answer), asking.answer, asking.answer)
        self.texts.append([*prompt, answer])
        return Asked(tuple(one.piece() for one in prompt), (answer.piece(),))

    def _word(self, name: str, tokens: int) -> str:
        self.words[name] = tokens
        return name


ROOM = 120_000               # tokens that a toy model's own context holds, with an answer
ANSWER = 4_096               # most tokens of an answer that are played


class PlayedImport(NamedTuple):
    """``reused``: tokens for each request that was played, None = it was refused; ``toml``: the scenario file;
    ``left``: how many requests are too many to be played."""

    scenario: Scenario
    reused: Sequence[int | None]
    toml: str
    left: int


class _Answers(Silent):
    def __init__(self) -> None:
        self.found: dict[int, Answer] = {}

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        self.found[number] = answer


def play_bodies(
    asked: Sequence[PromptRecord], profile: str, model: str, server: Mapping[str, Any], head: Mapping[str, Any]
) -> PlayedImport:
    """Play as many of the requests as the limits of a run allow, from the first on. ``head``: id, title and why of the
    scenario file. Raises BadInput."""
    words = ScenarioWords()
    steps = [words.add(_asking(one)) for one in asked[: _fitting(asked)]]
    engine = profile.partition("@")[0]
    named = model_named(model, engine)
    options = {**_context(engine, asked[: len(steps)]), **server}
    made = make_steps(steps, words.words, options)
    scenario = Scenario(
        id=head["id"], title=head["title"], source=("cachesim",), why=head["why"], engine=engine, model=named.model,
        profiles=(profile,), server=options, words=words.words, steps=made,
    )
    answers = _Answers()
    try:
        play(scenario, profile, "none", answers)
    except BadInput:                             # more tokens than a run may have: what was played by then stands
        if not answers.found:
            raise
        steps = steps[: len(answers.found)]
        names = {piece.word for step in steps for piece in (*step.prompt, *(step.answer or ()))}
        used = {name: size for name, size in words.words.items() if name in names}
        scenario = replace(scenario, steps=made[: len(steps)], words=used)
    found = [answers.found.get(number) for number in range(len(steps))]
    reused = [None if answer is None or answer.error else answer.cache_n for answer in found]
    top = {**head, "source": ["cachesim"], "engine": engine, "model": named.model, "profiles": [profile]}
    text = to_toml(top, scenario.server, scenario.words, steps)
    return PlayedImport(scenario, reused, text, len(asked) - len(steps))


def _asking(one: PromptRecord) -> TokenRequest:
    user = -1
    messages = one.body.messages
    last = max((number for number, said in enumerate(messages) if said.role == "user"), default=-1)
    if last >= 0 and not one.body.raw and one.plain.text:
        user = round(one.tokens * one.plain.begins[last] / len(one.plain.text))
    return TokenRequest(one.tokens, one.base, one.best, min(one.answer, ANSWER), user)


def _fitting(asked: Sequence[PromptRecord]) -> int:
    """How many of the requests a scenario may hold: its prompts and answers, and its file."""
    prompts = answers = 0
    for number, one in enumerate(asked):
        prompts, answers = prompts + one.tokens, answers + min(one.answer, ANSWER)
        if (prompts > limits.PROMPT_TOKENS.now or answers > limits.NEW_TOKENS.now or number >= limits.REBUILT.now
                or one.tokens > limits.WORD_LENGTH.now):
            return number
    return len(asked)


def _context(engine: str, asked: Sequence[PromptRecord]) -> dict[str, Any]:
    """A context as long as the longest prompt needs, where the model's own is too short."""
    needed = max((one.tokens + min(one.answer, ANSWER) for one in asked), default=0)
    if needed <= ROOM:
        return {}
    manual = ENGINES[engine].manual
    found = ENGINES[engine].log().options({"needed": needed, "n_slots": 1})
    return {name: value for name, value in found.items() if manual.flag(name) is not None and name != "n_slots"}

