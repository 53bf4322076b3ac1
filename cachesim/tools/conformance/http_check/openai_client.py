"""Client for OpenAI-compatible completions and chats, with prompts as tokens or text and ways to bypass the cache."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import count as counting
from typing import Any, Callable, Mapping, Sequence

from cachesim.base.media_items import before_image
from cachesim.base.tokens import Tokens
from cachesim.tools.conformance.http_check import replies
from cachesim.tools.conformance.http_check.compare_answers import ScoredAnswer
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.replies import mapping
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply

# Prompts as text: single-token pieces of text, and the answers of a server as further pieces.

# The lengths that a server reports show which pieces are single tokens, wherever they stand.

PIECES_NEEDED, ENOUGH = 64, 256     # required pieces, and the largest number searched for
COMMON = (
    "the of and to in is it for on that as with was at be by are this from or have an not you they but his her which "
    "all can will one more has about when who out up them time what would some other into there its over new only so "
    "no my if their your after than then now could made may like well also back way many these our those just first "
    "people any most two very where much through between life being under three state never become high world school "
    "last family group still house study such before another does own part here while right old great home water room "
    "money book eye job word side kind head far black long both little white children begin got walk example ease "
    "paper often always music mark city tree farm hard start might story saw sea draw left late run press close night "
    "real few north open seem together next care second carry took science eat idea began move face car mile foot "
    "food cut sure watch color main plain girl usual young ready above ever red list feel talk bird soon body dog "
    "direct pose leave song door product short class wind question happen complete ship area half rock order fire "
    "south problem piece knew pass since top whole king space heard best hour better true during hundred five step "
    "early hold west ground interest reach fast verb sing listen six table travel less morning ten simple several "
    "against pattern slow center love person serve appear road map rain rule govern pull cold notice voice unit power "
    "town fine fly fall lead cry dark machine note wait plan figure star box noun field rest able pound done beauty "
    "drive stood contain front teach week final gave green quick develop ocean warm free minute strong special mind "
    "behind clear tail produce fact street inch multiply nothing course stay wheel full force blue object decide"
)
WORDS = tuple(COMMON.split())
SYLLABLES = tuple(first + second for first in "BCDFGHJKLMNPQRSTVWXZ" for second in "aeiou")
CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
Length = Callable[[Sequence[str]], int]
"""Token count of the prompt that is the concatenation of these pieces."""


def find_pieces(length: Length) -> tuple[list[str], int]:
    """Return up to ``ENOUGH`` single-token pieces, and the number of tokens that a prompt has beyond its pieces.
    Calls ``length`` some dozens of times."""
    one, two = length((" the",)), length((" the", " the"))
    base = one - (two - one)                         # tokens of a template or BOS, before the first piece
    found: list[str] = []
    for candidates in ([f" {word}" for word in WORDS], [f" {one}" for one in CHARACTERS], list(CHARACTERS)):
        for begin in range(0, len(candidates), PIECES_NEEDED):
            single = _single(length, base, candidates[begin : begin + PIECES_NEEDED])
            found += single
            if len(found) >= ENOUGH:
                return found[:ENOUGH], base
            if not single:
                break                                # the vocabulary has no such pieces
        if len(found) >= PIECES_NEEDED:
            return found, base
    return max(found, _single(length, base, SYLLABLES), key=len), base


def _single(length: Length, base: int, pieces: Sequence[str]) -> list[str]:
    """Return the single-token pieces, by bisection: all if their total length equals their number."""
    if not pieces:
        return []
    beyond = length(pieces) - base - len(pieces)
    if not beyond:
        return list(pieces)
    if len(pieces) == 1:
        return []
    half = len(pieces) // 2
    return [*_single(length, base, pieces[:half]), *_single(length, base, pieces[half:])]


OWN = 1 << 20                # numbers from here on stand for parts of answers


class Arrays:
    """Prompts as token arrays. Generated tokens are reported as text and never sent back."""

    base = 0

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens

    def prompt(self, tokens: Tokens) -> list[int]:
        """Return the tokens as a list."""
        return list(tokens)

    def encode(self, text: str, n: int) -> None:
        """Return None: the tokens of the answer are unknown."""


class Pieces:
    """Prompts as text; tokens are numbers of pieces of text."""

    def __init__(self, pieces: Sequence[str], base: int = 0) -> None:
        self.pieces, self.base = list(pieces), base
        self.tokens: Sequence[int] = range(len(self.pieces))
        self.lead = ""                               # leading text that a server strips from an answer
        self.own: list[str] = []
        self.numbers: dict[str, int] = {}

    def prompt(self, tokens: Tokens) -> str | list[Any]:
        """Return the text of these pieces."""
        return "".join(self.own[one - OWN] if one >= OWN else self.pieces[one] for one in tokens)

    def encode(self, text: str, n: int) -> Tokens:
        """Return an answer as pieces: a word each if it has ``n`` words, otherwise all of it as the first piece."""
        text = self.lead + text
        parts = re.findall(r"\s*\S+", text.rstrip())            # linear only without white space at the end
        parts = parts if len(parts) == n and "".join(parts) == text else [text] + [""] * (n - 1)
        return tuple(map(self._number, parts))

    def _number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = OWN + len(self.own)
            self.own.append(text)
        return self.numbers[text]


PromptEncoding = Arrays | Pieces
"""Encoding of the tokens of a history: ``prompt`` converts them for a request, ``encode`` converts an answer of
``n`` tokens so that it can be sent back. ``tokens``: available tokens; ``base``: additional tokens of a prompt."""
CHAT = "/v1/chat/completions"
TIMES = (1, 2, 4)            # multiples of the number of other prompts, tried until the cache is empty


class CacheNotEmptied(Exception):
    """Raised if a cache cannot be emptied."""


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """Request format of a server."""

    path: str
    arrays: bool                         # token arrays instead of text
    fields: Mapping[str, Any]            # fields of every request
    cold: Mapping[str, Any] = field(default_factory=dict)            # cold answer: additional fields
    salt: str = ""                       # cold answer: a field that gets a new value each time
    empty: str = ""                      # cold answer: path of a preceding POST
    others: int = 0                      # cold answer: number of other prompts sent before
    reports: bool = True                 # the server reports cached tokens, which confirms cold answers

    @property
    def sentence(self) -> str:
        """Description of the request format and of the way to a cold answer."""
        asked = f"{self.path}, {'token arrays' if self.arrays else 'text'}"
        cold = ", ".join(self.cold) or self.salt or (f"POST {self.empty}" if self.empty else "")
        sure = "" if self.reports else " (unconfirmed: cached tokens are not reported)"
        return f"{asked}; cold answers: {cold or f'after {self.others} other prompts{sure}'}"


class OpenAIClient:
    """Client of a server with a request format."""

    def __init__(self, http: Http, way: RequestFormat, spelling: PromptEncoding) -> None:
        self.http = http
        self.way = way
        self.spelling = spelling
        self.numbers = counting()

    @property
    def cold_is_costly(self) -> bool:
        """True if a cold answer needs additional requests."""
        return bool(self.way.others or self.way.empty)

    def complete(self, ask: CacheRequest) -> Reply:
        """Serve a request. Raise Failed."""
        return self._complete(ask, {} if ask.cache else self.way.cold)

    def cold(self, ask: CacheRequest, often: Sequence[int] = TIMES) -> Reply:
        """Serve a request with an empty cache. Raise Failed, NoCold."""
        for times in often if self.way.others and self.way.reports else often[:1]:
            reply = self._cold(ask, times)
            if not reply.cached:
                return reply
        raise CacheNotEmptied(f"the cache could not be emptied: {reply.cached} tokens are cached after other prompts")

    def _cold(self, ask: CacheRequest, times: int) -> Reply:
        if self.way.empty:
            self.http.post(self.way.empty, {})
        for _ in range(self.way.others * times):
            self._complete(CacheRequest(self._other()), {})
        salt = {self.way.salt: f"cachesim-{next(self.numbers)}"} if self.way.salt else {}
        return self._complete(ask, {**self.way.cold, **salt})

    def length(self, text: str | list[Any]) -> int:
        """Return the token count of a prompt. Raise Failed if the server does not report it."""
        status, said = self.post(text, {"max_tokens": 1})
        total = replies.count(mapping(mapping(said).get("usage")).get("prompt_tokens"))
        if status != 200 or total is None:
            raise Failed("the server does not report prompt_tokens, so the tokens of a text are unknown")
        return total

    def post(self, prompt: str | list[Any], fields: Mapping[str, Any]) -> tuple[int, Any]:
        """Return status and JSON of a completion. Raise Failed."""
        return self.http.post(self.way.path, self._body(prompt, fields))

    def _body(self, prompt: str | list[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        chat = self.way.path == CHAT
        said: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        return {**said, "temperature": 0, **self.way.fields, **fields}

    def _complete(self, ask: CacheRequest, fields: Mapping[str, Any]) -> Reply:
        prompt = self.spelling.prompt(ask.prompt)
        wanted = {**fields, **ask.fields, "max_tokens": ask.n_predict}
        if ask.cancel_after is not None:
            self.http.hang_up(self.way.path, self._body(prompt, {**wanted, "stream": True}), ask.cancel_after)
            return Reply()
        status, said = self.post(prompt, wanted)
        reply = replies.openai(said, ask.n_predict) if status == 200 and isinstance(said, Mapping) else None
        if reply is None:
            return replies.refused(status, said)
        return self._read(ask, reply, replies.count(mapping(said.get("usage")).get("prompt_tokens")))

    def _read(self, ask: CacheRequest, reply: Reply, total: int | None) -> Reply:
        """Return the reply in the history's tokens. Counts exclude those of a template, and are removed if the prompt
        was not tokenized as its pieces are."""
        said, base = reply.fingerprint, self.spelling.base
        n = (len(said.places) or ask.n_predict) if isinstance(said, ScoredAnswer) else 0
        tokens = self.spelling.encode(said.text, n) if n and said.text else None
        if isinstance(self.spelling, Arrays):
            return reply
        if total != base + len(ask.prompt) or reply.cached is None:
            return replace(reply, tokens=tokens, cached=None, evaluated=None)
        cached = before_image(ask.prompt, max(0, reply.cached - base))
        evaluated = len(ask.prompt) - cached if cached <= len(ask.prompt) else None
        return replace(reply, tokens=tokens, cached=cached, evaluated=evaluated)

    def _other(self) -> Tokens:
        """Return a prompt of three pieces that was not sent before, as long as there are any."""
        number, size = next(self.numbers), len(self.spelling.tokens)
        places = (number, number // size * 5 + 1, number // size // size * 11 + 2)
        return tuple(self.spelling.tokens[one % size] for one in places)
