"""One conversation with one server: drawn from an integer, made smaller piece by piece, written as a scenario."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Callable, Mapping

from cachesim.engines.manual import World
from cachesim.engines.registry import ENGINES
from cachesim.fuzz.clients import Clients, Said
from cachesim.fuzz.worlds import draw_world
from cachesim.model.rng import Rng
from cachesim.scenarios.options import filled
from cachesim.scenarios.schema import Action, Scenario
from cachesim.scenarios.steps import Asked, Pieces, check_asked, make_steps
from cachesim.scenarios.words import THINK, Piece, span

SYSTEM, TURN = "system", "user"


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked of a server of this model with these options; ``seed`` it was drawn from."""

    engine: str
    model: str
    server: Mapping[str, Any]
    words: Mapping[str, int]
    asked: tuple[Asked, ...]
    seed: int

    def scenario(self, profile: str) -> Scenario:
        """The case as a scenario for one version. Raises BadInput where it cannot be one."""
        words = {name: n for name, n in self.words.items() if n}
        server = filled(dict(self.server), self.engine)
        for one in self.asked:
            if one.action is None:
                check_asked(one, words)
        return Scenario(
            id=f"fuzz-{self.seed}", title=f"conversation {self.seed} of cachesim fuzz", source=("cachesim",), why="",
            engine=self.engine, model=self.model, profiles=(profile,), server=server, words=words,
            steps=make_steps(list(self.asked), words, server),
        )

    def given(self) -> dict[str, Any]:
        """The options that are not the defaults of scenarios."""
        return {name: value for name, value in self.server.items() if filled({}, self.engine)[name] != value}


def draw_case(seed: int, engine: str, models: tuple[str, ...] = ()) -> Case:
    """The conversation that an integer stands for; ``models`` narrows the choice of models."""
    rng = Rng(seed, engine, *models)
    return _drawn(rng, draw_world(rng, engine, models), seed)


def draw_in(world: World, seed: int) -> Case:
    """The conversation that an integer stands for with a server that is there already."""
    return _drawn(Rng(seed, "conversation"), world, seed)


def _drawn(rng: Rng, world: World, seed: int) -> Case:
    drawer = _Drawer(rng, world, Clients(rng, world))
    asked = drawer.all()
    return Case(world.engine, world.model, world.server, drawer.clients.words, tuple(asked), seed)


@dataclass
class _Drawer:
    """Draws one request after the other."""

    rng: Rng
    world: World
    clients: Clients
    saved: int = 0

    @property
    def batches(self) -> bool:
        """Does this server take chats, and work on what comes together as one batch? It has no slots then."""
        return not ENGINES[self.world.engine].manual.slots

    def all(self) -> list[Asked]:
        """Two to nine steps, six as a rule."""
        found: list[Asked] = []
        for _ in range(self.rng.one((2, 3, 4, 5, 6, 6, 7, 8, 9))):
            if found and not self.batches and self.rng.chance(7):
                found.append(self._action())
            else:
                found.append(self._request(found))
        return found

    def _action(self) -> Asked:
        rng, slots = self.rng, int(self.world.server.get("parallel", 1))
        do = rng.one(("save", "restore", "erase", "restart", "save"))
        if do == "restore" and not self.saved:
            do = "save"
        if do == "restart":
            return Asked((), action=Action("restart"))
        file = ""
        if do == "save":
            self.saved += 1
        if do in ("save", "restore"):
            file = f"f{_letter(rng.below(self.saved))}" if do == "restore" else f"f{_letter(self.saved - 1)}"
        return Asked((), action=Action(do, rng.below(slots), file))

    def _request(self, before: list[Asked]) -> Asked:
        rng = self.rng
        burst = bool(before) and before[-1].action is None and rng.chance(45 if self.batches else 18)
        chat = self._chat(burst) if self.batches and rng.chance(65) else ()
        prompt: Pieces = () if chat else self.clients.prompt()
        answer = (self.clients.word(rng.one((1, 1, 1, 2, 2, 3, 4, 8))),)
        self.clients.remember(Said(prompt or tuple(p for _, pieces in chat for p in pieces), answer, chat))
        more: dict[str, Any] = {}
        if burst:
            more["together"], more["after"] = True, rng.one((0, 0, 0, 1, 2, 4))
        if rng.chance(6):
            more["cancel_after"] = rng.below(max(1, self.clients.size(answer)))
        return Asked(prompt, answer, chat=chat, **self._flags(), **more)

    def _flags(self) -> dict[str, Any]:
        """What only one engine knows."""
        rng, server = self.rng, self.world.server
        flags: dict[str, Any] = {}
        if self.batches:
            if rng.chance(6):
                flags["seed"] = True
            if "draft_model" in server:
                flags["draft_else"] = rng.below(int(server["num_draft_tokens"]) + 1)
            return flags
        if rng.chance(4):
            flags["cache_prompt"] = False
        if server.get("parallel", 1) > 1 and rng.chance(30):
            flags["id_slot"] = rng.below(int(server["parallel"]))
        if ENGINES[self.world.engine].manual.completions and server.get("parallel", 1) > 1 and rng.chance(5):
            flags["n_cmpl"] = rng.between(2, int(server["parallel"]))
        if "spec_type" in server:
            most = int(server["spec_draft_n_max"])
            flags["drafts"] = tuple((d, rng.between(0, d)) for d in (rng.between(1, most) for _ in range(rng.below(3))))
        return flags

    def _chat(self, burst: bool) -> tuple[tuple[str, Pieces], ...]:
        """Messages: a new chat, the next turn of an old one, its last message written anew, a tool's answer, a
        repeat. Who comes at the same time as somebody else often has a chat of his own."""
        rng, clients = self.rng, self.clients
        chats = [one for one in clients.talks if one.chat]
        move = rng.below(100)
        if not chats or move < 30 or (burst and rng.chance(30)):
            capitals = clients.shared()
            system: Pieces = (
                (Piece(rng.one(capitals), False, None, None, None),) if capitals and rng.chance(50)
                else (clients.word(self._system(), capital=True),)
            )
            if self.world.server["template"] != "plain" and rng.chance(15):
                system = (*system, clients.think())     # a system text that talks about thinking
            return (*(((SYSTEM, system),) if rng.chance(80) else ()), (TURN, self._user()))
        old = rng.one(chats)
        if move < 60:
            return (*old.chat, ("assistant", old.answer), (TURN, self._user()))
        if move < 82:
            return (*old.chat[:-1], (TURN, self._user()))
        if move < 88:
            return (*old.chat, ("tool", self._user()))
        return old.chat

    def _system(self) -> int:
        """Tokens of a system text. With its headers it often is one token longer than so many steps: then the last of
        them is a tick of one token."""
        rng, step = self.rng, int(self.world.server["prefill_step_size"])
        if step <= 8 and rng.chance(50):
            header = 3 if self.world.server["template"] == "terse" else 8
            return 1 + step * (header // step + rng.between(1, 5)) - header
        return rng.between(1, rng.one((4, 12, 40)))

    def _user(self) -> Pieces:
        n = self.rng.one((0, 1, 2, 3, 5, 8, 13, 30))
        return (self.clients.word(n),) if n else ()


def _letter(n: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[n % 26]


def clipped(pieces: Pieces, words: Mapping[str, int]) -> Pieces:
    """Pieces of words that have become shorter: slices end with their word, empty ones go."""
    out = []
    for piece in pieces:
        n = words.get(piece.word, 0)
        start = min(piece.start or 0, n)
        stop = n if piece.stop is None else min(piece.stop, n)
        if start < stop:
            whole = start == 0 and stop == n
            out.append(piece._replace(start=None if whole else start, stop=None if whole else stop))
    return tuple(out)


def renamed(case: Case) -> Case:
    """The case with its words called A, B, C in the order in which they come."""
    pieces = [piece for one in case.asked for text in _texts(one) for piece in text]
    used = dict.fromkeys(piece.word for piece in pieces)
    new = {THINK: THINK} if THINK in used else {}
    new |= {word: _letters(i) for i, word in enumerate(word for word in used if word != THINK)}

    def said(text: Pieces) -> Pieces:
        return tuple(piece._replace(word=new[piece.word]) for piece in text)

    return replace(case, words={new[word]: case.words[word] for word in used},
                   asked=tuple(_said(one, said) for one in case.asked))


def split(case: Case) -> Case:
    """The case without slices: every word is several words, one from each place where it is cut to the next."""
    ends: dict[str, set[int]] = {word: {0, n} for word, n in case.words.items()}
    for piece in (piece for one in case.asked for text in _texts(one) for piece in text):
        ends[piece.word] |= set(span(piece, case.words))
    cuts = {word: list(pairwise(sorted(found))) for word, found in ends.items()}

    def said(text: Pieces) -> Pieces:
        out: list[Piece] = []
        for piece in text:
            start, stop = span(piece, case.words)
            parts = [f"{piece.word}_{_letters(i)}" if len(cuts[piece.word]) > 1 else piece.word
                     for i, (a, b) in enumerate(cuts[piece.word]) if start <= a and b <= stop]
            out += [Piece(part, piece.user and i == 0, None, None, None) for i, part in enumerate(parts)]
        return tuple(out)

    words = {f"{word}_{_letters(i)}" if len(found) > 1 else word: b - a
             for word, found in cuts.items() for i, (a, b) in enumerate(found)}
    return replace(case, words=words, asked=tuple(_said(one, said) for one in case.asked))


def unmarked(case: Case) -> Case:
    """The case in which no user message is told to begin anywhere."""

    def said(text: Pieces) -> Pieces:
        return tuple(piece._replace(user=False) for piece in text)

    return replace(case, asked=tuple(_said(one, said) for one in case.asked))


def merged(case: Case) -> Case:
    """The case with words that only come one behind the other, whole and without a mark between them, made one."""
    texts = [text for one in case.asked for text in _texts(one)]
    for first in case.words:
        behind = {text[i + 1] if i + 1 < len(text) else None
                  for text in texts for i, piece in enumerate(text) if piece.word == first}
        second = behind.pop() if len(behind) == 1 else None
        if second is None or second.word in (first, THINK) or first == THINK:
            continue
        before = {text[i - 1].word if i else "" for text in texts for i, piece in enumerate(text)
                  if piece.word == second.word}
        whole = all(piece.start is None and piece.stop is None for text in texts for piece in text
                    if piece.word in (first, second.word))
        if before == {first} and whole and not second.user:
            return merged(_made_one(case, first, second.word))
    return case


def _made_one(case: Case, first: str, second: str) -> Case:
    def said(text: Pieces) -> Pieces:
        return tuple(piece for piece in text if piece.word != second)

    words = {word: n + case.words[second] * (word == first) for word, n in case.words.items() if word != second}
    return replace(case, words=words, asked=tuple(_said(one, said) for one in case.asked))


def _texts(one: Asked) -> tuple[Pieces, ...]:
    return (one.prompt, *(text for _, text in one.chat), one.answer or ())


def _said(one: Asked, said: Callable[[Pieces], Pieces]) -> Asked:
    return one._replace(prompt=said(one.prompt), answer=None if one.answer is None else said(one.answer),
                        chat=tuple((role, said(text)) for role, text in one.chat))


def _letters(i: int) -> str:
    return ("" if i < 26 else chr(ord("A") + i // 26 - 1)) + chr(ord("A") + i % 26)


def longest(case: Case) -> int:
    """The longest request of a case, prompt and answer, without what a template adds."""
    return max((_size(one, case.words) for one in case.asked if one.action is None), default=0)


def _size(one: Asked, words: Mapping[str, int]) -> int:
    texts = _texts(one)
    return sum(stop - start for pieces in texts for start, stop in (span(piece, words) for piece in pieces))
