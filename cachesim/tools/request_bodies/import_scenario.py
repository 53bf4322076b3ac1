"""Scenario made from request bodies, and its simulation.

Prompts are sequences of words: shared prefixes reuse the words of the earlier request, and new text gets a new word.
The scenario contains no text, only lengths in tokens and the start of the newest user message.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import Any, Hashable, Mapping, NamedTuple, Sequence

from cachesim.base import limits
from cachesim.base.errors import NotInBuild, OverLimit
from cachesim.engines.capabilities import MAX_TOKENS
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.notation.normalise import letters
from cachesim.scenarios.notation.tree import LineRequest, Piece
from cachesim.scenarios.option_checks import model_named
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import AnswerCollector, play
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.request_bodies.body import Body
from cachesim.tools.request_bodies.body_stages import AnsweredBody
from cachesim.tools.request_bodies.sent_again import SentRange


class WordPart(NamedTuple):
    """Tokens ``start`` to ``start + take`` of a word of ``full`` tokens. ``user``: a user message begins with it."""

    word: str
    take: int
    full: int
    user: bool = False
    start: int = 0

    def piece(self) -> Piece:
        """Return the part in the notation."""
        stop = self.start + self.take
        return Piece(self.word, self.user, self.start or None, None if stop == self.full else stop)


def first(text: Sequence[WordPart], tokens: int) -> list[WordPart]:
    """Return the first ``tokens`` tokens of a text, or all if there are fewer."""
    out = []
    for part in text:
        if tokens > 0:
            out.append(part._replace(take=min(part.take, tokens)))
        tokens -= part.take
    return out


def cut(text: Sequence[WordPart], start: int, tokens: int) -> list[WordPart]:
    """Return ``tokens`` tokens of a text from token ``start`` on, or as many as there are, without marks."""
    out, at = [], 0
    for part in text:
        low, high = max(start - at, 0), min(start + tokens - at, part.take)
        if low < high:
            out.append(part._replace(start=part.start + low, take=high - low, user=False))
        at += part.take
    return out


def size(text: Sequence[WordPart]) -> int:
    """Return the length of a text in tokens."""
    return sum(part.take for part in text)


class TokenRequest(NamedTuple):
    """Request in tokens."""

    prompt: int              # tokens of the prompt
    base: int                # request whose prompt and answer it shares most with, -1 = none
    common: int              # tokens shared with that prompt and answer
    answer: int              # tokens of the answer
    user: int = -1           # position of the newest user message, -1 = unknown
    before: int = -1         # previous request of the conversation, -1 = none
    shared: int = 0          # tokens shared with its prompt
    adapters: str = ""       # list of adapters, "" = none
    again: Sequence[SentRange] = ()    # what follows them: text of that request, or other text
    max_tokens: int = 0      # most tokens of the answer that the body allows, 0 = not stated


class ScenarioWords:
    """Builder for the words of a scenario."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.texts: list[list[WordPart]] = []
        self.names = map(letters, count())

    def add(self, request: TokenRequest) -> LineRequest:
        """Add a request and return it in the notation."""
        base = self.texts[request.base] if request.base >= 0 else []
        prompt = first(base, request.common)
        prompt += self._sent_again(request, base)
        at = size(prompt)
        cuts = [cut for cut in (request.user,) if at < cut < request.prompt]
        for stop in (*cuts, request.prompt):
            if stop > at:
                word = self._word(next(self.names), stop - at)
                prompt.append(WordPart(word, stop - at, stop - at, user=at == request.user))
                at = stop
        name = next(self.names).lower()
        answer = WordPart(self._word(name, request.answer), request.answer, request.answer)
        self.texts.append([*prompt, answer])
        extra: tuple[tuple[str, Any], ...] = (("lora", request.adapters),) if request.adapters else ()
        extra += ((MAX_TOKENS.name, request.max_tokens),) if request.max_tokens else ()
        return LineRequest(tuple(part.piece() for part in prompt), (answer.piece(),), extra=extra)

    def _sent_again(self, request: TokenRequest, base: Sequence[WordPart]) -> list[WordPart]:
        """Return the text after the first ``common`` tokens that the previous request contains, too, with other text
        between. Its first token differs from the text of ``base``; at least a token is left for new text."""
        before = self.texts[request.before] if request.before >= 0 else []
        parts: list[WordPart] = []
        for start, tokens in request.again:
            size_now = min(tokens, request.prompt - 1 - request.shared - size(parts))
            if start >= 0:
                parts += cut(before, start, size_now)
            elif size_now > 0:
                parts.append(WordPart(self._word(next(self.names), size_now), size_now, size_now))
        parts = cut(parts, request.common - request.shared, size(parts))
        if parts and cut(parts, 0, 1) == cut(base, request.common, 1):
            return [WordPart(self._word(next(self.names), 1), 1, 1), *cut(parts, 1, size(parts))]
        return parts

    def _word(self, name: str, tokens: int) -> str:
        self.words[name] = tokens
        return name


ROOM = 120_000               # context of a toy model [tokens], for prompt and answer
ANSWER = 4_096               # simulated tokens of an answer, at most
ANSWER_LIMITS = ("max_tokens", "max_completion_tokens")
"""Parameters with the most tokens of an answer; with that of the Responses API no server refuses a prompt."""


class SimulatedImport(NamedTuple):
    """Simulated import."""

    scenario: Scenario
    reused: Sequence[int | None]     # tokens reused by each simulated request, None = refused
    toml: str                        # scenario file, "" if no request was simulated
    left: int                        # requests not simulated because of the limits
    limit: str                       # the limit that the first of them exceeds, with its place and flag; "" = none
    refused: str = ""                # error of the first request that the server refuses, "" = it refuses none
    adapters: str = ""               # how adapters are simulated, "" = no request names any
    is_assumed: bool = False            # the server's adapters are assumed, and matter


def scales_text(scales: Mapping[int, float]) -> str:
    """Return a list of adapters as scenario files write it: ``0:1,2:0.5``."""
    return ",".join(f"{i}:{f'{scale:.6f}'.rstrip('0').rstrip('.')}" for i, scale in sorted(scales.items()))


def adapter_keys(bodies: Sequence[Body], scales: str) -> list[Hashable]:
    """Return what the prompts of these requests are computed under: adapters with another scale than 0. Requests
    without a list have those of the server, ``scales`` separated by commas; "" = unknown, a key of its own."""
    found = [_SCALE.match(part) for part in scales.split(",")]
    served = frozenset((i, float(scale[0])) for i, scale in enumerate(found) if scale) or None
    keys = [frozenset(body.adapters.items()) or served for body in bodies]
    return [key and frozenset((i, scale) for i, scale in key if scale) for key in keys]


def scales_option(profile: str) -> str:
    """Return the option of a profile's server with the scales of its adapters, "" if it has no adapters."""
    return ENGINES[profile.partition("@")[0]].manual.adapter_scales


_SCALE = re.compile(r" *-?\d+(\.\d+)?")
MOST = 64                    # adapters of a simulated server, at most; it ignores other ids


def simulate_bodies(
    records: Sequence[AnsweredBody], profile: str, model: str, server: Mapping[str, Any], head: Mapping[str, Any]
) -> SimulatedImport:
    """Simulate the requests, from the first on, as far as the limits of a run allow. ``head``: id, title and why of the
    scenario file. Raise BadInput."""
    lists, option = [record.body.adapters for record in records], scales_option(profile)
    number = min(MOST, 1 + max((i for each in lists for i in each), default=-1))
    if not number:
        return _simulate(records, profile, model, server, head)
    said, assumed = f"adapters simulated: {number}, as in the lists of the requests", False
    if server.get(option):
        said = "adapters simulated"
    elif not all(lists):
        said, assumed = f"{said}; assumed: scale 1 for requests without a list (--set {option}=...)", True
    try:
        if not option:
            raise NotInBuild(f"{profile} has no adapters")
        options = {option: ",".join(["1"] * number), **server}
        found = _simulate(records, profile, model, options, head, adapters=True)
        return found._replace(adapters=said, is_assumed=assumed)
    except NotInBuild as error:
        apart = [replace(record, base=record.under, best=record.usable) for record in records]
        found = _simulate(apart, profile, model, server, head)
        return found._replace(adapters=f"{error}: simulated as other text under each list of adapters")


def _simulate(
    records: Sequence[AnsweredBody], profile: str, model: str, server: Mapping[str, Any], head: Mapping[str, Any],
    adapters: bool = False,
) -> SimulatedImport:
    """Simulate the requests, with or without their lists of adapters."""
    words = ScenarioWords()
    fitting, over = _fitting_count(records)
    engine = profile.partition("@")[0]
    limits_sum = MAX_TOKENS in ENGINES[engine].manual.fields
    steps = [words.add(_token_request(record, adapters, limits_sum)) for record in records[:fitting]]
    named = model_named(model, engine, files=True)
    options = {**_context(engine, records[: len(steps)]), **named.server(server)}
    made = make_steps(steps, words.words, options)
    scenario = Scenario(
        id=head["id"], title=head["title"], source=("cachesim",), why=head["why"], engine=engine, model=named.model,
        profiles=(profile,), server=options, words=words.words, steps=made,
    )
    answers = AnswerCollector()
    try:
        play(scenario, profile, "none", answers)
    except OverLimit as error:                   # keep the requests simulated so far
        over = error.at(records[len(answers.found)].body.place)
        steps = steps[: len(answers.found)]
        names = {piece.word for step in steps for piece in (*step.prompt, *(step.answer or ()))}
        used = {name: size for name, size in words.words.items() if name in names}
        scenario = replace(scenario, steps=made[: len(steps)], words=used)
    found = [answers.found[number][1] if number in answers.found else None for number in range(len(steps))]
    reused = [None if answer is None or answer.error else answer.cache_n for answer in found]
    top = {**head, "source": ["cachesim"], "engine": engine, "model": named.model, "profiles": [profile]}
    text = to_toml(top, scenario.server, scenario.words, steps) if steps else ""
    refused = next((answer.error for answer in found if answer is not None and answer.error), "")
    return SimulatedImport(scenario, reused, text, len(records) - len(steps), str(over or ""), refused)


def max_tokens_of(body: Body) -> int:
    """Return the most tokens of an answer that a body allows; 0 if it states none, or two different numbers, of which
    each server reads another one."""
    stated = {body.parameters[name] for name in ANSWER_LIMITS if type(body.parameters.get(name)) is int}
    return max(0, *stated) if len(stated) == 1 else 0


def _token_request(record: AnsweredBody, adapters: bool, limits_sum: bool) -> TokenRequest:
    """Return a request in tokens. The start of the newest user message is estimated from its share of the plain
    rendering. ``limits_sum``: the server limits the sum of a prompt and the stated length of its answer."""
    user = -1
    messages = record.body.messages
    last = max((number for number, message in enumerate(messages) if message.role == "user"), default=-1)
    if last >= 0 and not record.body.is_raw and record.plain.text:
        user = round(record.tokens * record.plain.begins[last] / len(record.plain.text))
    return TokenRequest(record.tokens, record.base, record.best, min(record.answer, ANSWER), user, record.link.before,
                        record.shared, scales_text(record.body.adapters) if adapters else "", record.again,
                        max_tokens_of(record.body) if limits_sum else 0)  # fmt: skip


def _fitting_count(records: Sequence[AnsweredBody]) -> tuple[int, OverLimit | None]:
    """Return the number of requests that fit into a scenario, and the limit that the next request exceeds: prompt
    tokens, answer tokens, requests, or length of a word; None if all fit."""
    prompts = answers = 0
    for number, record in enumerate(records):
        prompts, answers = prompts + record.tokens, answers + min(record.answer, ANSWER)
        try:
            limits.WORD_LENGTH.check(record.tokens - record.best, f"request {number}")
            limits.PROMPT_TOKENS.check(prompts, "all prompts together")
            limits.NEW_TOKENS.check(answers, "all answers together")
            limits.REBUILT.check(number + 1, "the scenario")
        except OverLimit as over:
            return number, over.at(record.body.place)
    return len(records), None


def _context(engine: str, records: Sequence[AnsweredBody]) -> dict[str, Any]:
    """Return server options for a context that holds the longest prompt, {} if the model's own context suffices."""
    needed = max((record.tokens + min(record.answer, ANSWER) for record in records), default=0)
    if needed <= ROOM:
        return {}
    manual = ENGINES[engine].manual
    found = ENGINES[engine].log().options({"needed": needed, "n_slots": 1})
    return {name: value for name, value in found.items() if manual.flag(name) is not None and name != "n_slots"}

