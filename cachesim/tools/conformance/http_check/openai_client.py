"""Speaks to a server with OpenAI's completions or chats, in tokens or in text, and gets its cache out of the way."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import count as counting
from typing import Any, Callable, Mapping, Sequence

from cachesim.base.tokens import Tokens
from cachesim.tools.conformance.http_check import replies
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.replies import Answered, mapping
from cachesim.tools.conformance.protocol import Ask, Failed, Reply

# Prompts as text: which tokens are which piece of text, the answers of a server included.

# Pieces of text that are one token each, wherever they stand: found by the lengths that a server reports.

PIECES_NEEDED, ENOUGH = 64, 256     # pieces that are needed, and that are looked for at most
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
CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
Length = Callable[[Sequence[str]], int]
"""Tokens of the prompt that these pieces make, one behind the other."""


def find_pieces(length: Length) -> tuple[list[str], int]:
    """Pieces of one token each, as many as are wanted, fewer where there are no more, and the tokens that a prompt has
    beyond its pieces. ``length`` is asked some dozens of times."""
    one, two = length((" the",)), length((" the", " the"))
    base = one - (two - one)                         # of a template, a mark of the beginning: before the first piece
    found: list[str] = []
    for candidates in ([f" {word}" for word in WORDS], [f" {one}" for one in CHARACTERS], list(CHARACTERS)):
        for begin in range(0, len(candidates), PIECES_NEEDED):
            found += _single(length, base, candidates[begin : begin + PIECES_NEEDED])
            if len(found) >= ENOUGH:
                return found[:ENOUGH], base
        if len(found) >= PIECES_NEEDED:
            break
    return found, base


def _single(length: Length, base: int, pieces: Sequence[str]) -> list[str]:
    """Those of the pieces that are one token each: all where together they are so many tokens, else half by half."""
    if not pieces:
        return []
    beyond = length(pieces) - base - len(pieces)
    if not beyond:
        return list(pieces)
    if len(pieces) == 1:
        return []
    half = len(pieces) // 2
    return [*_single(length, base, pieces[:half]), *_single(length, base, pieces[half:])]


OWN = 1 << 20                # pieces from here on are parts of answers


class Arrays:
    """Tokens are sent as they are. What was generated is reported as text, and never sent back."""

    base = 0

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens

    def prompt(self, tokens: Tokens) -> list[int]:
        """The tokens."""
        return list(tokens)

    def heard(self, text: str, n: int) -> None:
        """Nobody knows its tokens."""


class Pieces:
    """Tokens are numbers of pieces of text."""

    def __init__(self, pieces: Sequence[str], base: int = 0) -> None:
        self.pieces, self.base = list(pieces), base
        self.tokens: Sequence[int] = range(len(self.pieces))
        self.lead = ""                               # what a server takes off the beginning of an answer
        self.own: list[str] = []
        self.numbers: dict[str, int] = {}

    def prompt(self, tokens: Tokens) -> str:
        """The text that these pieces make."""
        return "".join(self.own[one - OWN] if one >= OWN else self.pieces[one] for one in tokens)

    def heard(self, text: str, n: int) -> Tokens:
        """An answer in pieces: word by word where it has as many, else all of it as the first one."""
        text = self.lead + text
        parts = re.findall(r"\s*\S+", text)
        parts = parts if len(parts) == n and "".join(parts) == text else [text] + [""] * (n - 1)
        return tuple(map(self._number, parts))

    def _number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = OWN + len(self.own)
            self.own.append(text)
        return self.numbers[text]


Spelling = Arrays | Pieces
"""How the tokens of a history are sent: ``prompt`` says what is sent, ``heard`` an answer of ``n`` tokens, so that it
can be sent back. ``tokens``: those that there are; ``base``: tokens that a prompt has beyond its own."""
CHAT = "/v1/chat/completions"
TIMES = (1, 2, 4)            # as many other prompts where fewer left something
SHORT = 3                    # pieces of a prompt that pushes another one out of a cache


class NoCold(Exception):
    """A cache is not to be emptied."""


@dataclass(frozen=True, slots=True)
class AskingWay:
    """How a server is asked: ``fields`` of every request. A cold answer is had by the fields ``cold``, by another value
    of the field ``salt``, by a request to ``empty`` before, or behind ``others`` other prompts; ``reports``: cached
    tokens are reported, so that it was seen to work."""

    path: str
    arrays: bool
    fields: Mapping[str, Any]
    cold: Mapping[str, Any] = field(default_factory=dict)
    salt: str = ""
    empty: str = ""
    others: int = 0
    reports: bool = True

    @property
    def sentence(self) -> str:
        """How it is asked, and how a cold answer is had."""
        asked = f"{self.path}, {'token arrays' if self.arrays else 'text'}"
        cold = ", ".join(self.cold) or self.salt or (f"POST {self.empty}" if self.empty else "")
        sure = "" if self.reports else " (cached tokens are not reported: nothing confirms it)"
        return f"{asked}; cold answers: {cold or f'behind {self.others} other prompts{sure}'}"


class Speaker:
    """Asks one server in one way."""

    def __init__(self, http: Http, way: AskingWay, spelling: Spelling) -> None:
        self.http, self.way, self.spelling = http, way, spelling
        self.numbers = counting()

    @property
    def dear(self) -> bool:
        """Returns True if a cold answer takes requests of its own."""
        return bool(self.way.others or self.way.empty)

    def complete(self, ask: Ask) -> Reply:
        """Serve one request. Raises Failed."""
        return self._complete(ask, {} if ask.cache else self.way.cold)

    def cold(self, ask: Ask, often: Sequence[int] = TIMES) -> Reply:
        """Serve it with nothing in the cache. Raises Failed, NoCold."""
        for times in often if self.way.others and self.way.reports else often[:1]:
            reply = self._cold(ask, times)
            if not reply.cached:
                return reply
        raise NoCold(f"its cache could not be emptied: {reply.cached} tokens are cached behind other prompts")

    def _cold(self, ask: Ask, times: int) -> Reply:
        if self.way.empty:
            self.http.post(self.way.empty, {})
        for _ in range(self.way.others * times):
            self._complete(Ask(self._other()), {})
        salt = {self.way.salt: f"cachesim-{next(self.numbers)}"} if self.way.salt else {}
        return self._complete(ask, {**self.way.cold, **salt})

    def length(self, text: str) -> int:
        """Tokens of the prompt that a text makes. Raises Failed where that is not reported."""
        status, said = self.post(text, {"max_tokens": 1})
        total = replies.count(mapping(mapping(said).get("usage")).get("prompt_tokens"))
        if status != 200 or total is None:
            raise Failed("the server does not report prompt_tokens: nothing says how a text is tokenized")
        return total

    def post(self, prompt: str | list[int], fields: Mapping[str, Any]) -> tuple[int, Any]:
        """Status and JSON of a completion. Raises Failed."""
        return self.http.post(self.way.path, self._body(prompt, fields))

    def _body(self, prompt: str | list[int], fields: Mapping[str, Any]) -> dict[str, Any]:
        chat = self.way.path == CHAT
        said: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        return {**said, "temperature": 0, **self.way.fields, **fields}

    def _complete(self, ask: Ask, fields: Mapping[str, Any]) -> Reply:
        prompt, wanted = self.spelling.prompt(ask.prompt), {**fields, "max_tokens": ask.n_predict}
        if ask.cancel_after is not None:
            self.http.hang_up(self.way.path, self._body(prompt, {**wanted, "stream": True}), ask.cancel_after)
            return Reply()
        status, said = self.post(prompt, wanted)
        reply = replies.openai(said) if status == 200 and isinstance(said, Mapping) else None
        if reply is None:
            return replies.refused(status, said)
        return self._read(ask, reply, replies.count(mapping(said.get("usage")).get("prompt_tokens")))

    def _read(self, ask: Ask, reply: Reply, total: int | None) -> Reply:
        """The reply in the history's tokens: counts without those of a template, and none where a text was tokenized in
        another way than its pieces are."""
        said, base = reply.fingerprint, self.spelling.base
        n = (len(said.places) or ask.n_predict) if isinstance(said, Answered) else 0
        tokens = self.spelling.heard(said.text, n) if n and said.text else None
        if isinstance(self.spelling, Arrays):
            return reply
        if total != base + len(ask.prompt) or reply.cached is None:
            return replace(reply, tokens=tokens, cached=None, evaluated=None)
        cached = max(0, reply.cached - base)
        evaluated = len(ask.prompt) - cached if cached <= len(ask.prompt) else None
        return replace(reply, tokens=tokens, cached=cached, evaluated=evaluated)

    def _other(self) -> Tokens:
        """A prompt that was not sent before, as long as there are any."""
        number, size = next(self.numbers), len(self.spelling.tokens)
        places = (number, number // size * 5 + 1, number // size // size * 11 + 2)
        return tuple(self.spelling.tokens[one % size] for one in places[:SHORT])
