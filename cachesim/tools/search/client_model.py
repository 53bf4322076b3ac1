"""What do clients send? Turns that are appended, edited, branched, repeated, cut short; texts that have lost a part.

A conversation is a prompt in pieces of words and the answer that followed. A client goes on from one that it had
before. """

from __future__ import annotations

from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import NamedTuple

from cachesim.engines.capabilities import DrawnServer
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.notation.tree import Piece, Pieces
from cachesim.scenarios.notation.word_lengths import THINK, size, span


class Exchange(NamedTuple):
    """A prompt and what was answered; ``chat`` where it was one: roles and texts."""

    prompt: Pieces
    answer: Pieces
    chat: tuple[tuple[str, Pieces], ...] = ()


@dataclass
class Clients:
    """Everybody who talks to one server. ``words`` are those used so far, with their lengths; ``parted``: lengths at
    which a conversation left the one before."""

    rng: Rng
    world: DrawnServer
    words: dict[str, int] = field(default_factory=dict)
    talks: list[Exchange] = field(default_factory=list)
    parted: list[int] = field(default_factory=list)

    def word(self, length: int, capital: bool = False) -> Piece:
        """A new word."""
        n = len(self.words)
        name = (ascii_lowercase[n // 26 - 1] if n >= 26 else "") + ascii_lowercase[n % 26]
        name = name.upper() if capital else name
        self.words[name] = length
        return Piece(name)

    def think(self) -> Piece:
        """The token that opens a thought, in the middle of somebody's text."""
        self.words[THINK] = 1
        return Piece(THINK)

    def shared(self) -> list[str]:
        """Texts that several conversations begin with: those in capitals."""
        return [name for name in self.words if name.isupper() and name != THINK]

    def length(self, most: int) -> int:
        """Tokens of a text: near an edge, short, or anything."""
        rng = self.rng
        if rng.chance(50 if "W" in self.world.model else 35):
            near = rng.one(self.world.edges) * rng.one((1, 1, 1, 2)) + rng.between(-2, 2)
            return max(1, min(near, most))
        return rng.between(1, min(most, rng.one((4, 12, 40, 120))))

    def size(self, pieces: Pieces) -> int:
        """Tokens of some pieces."""
        return size(pieces, self.words)

    def cut(self, pieces: Pieces, n: int) -> Pieces:
        """The first n tokens."""
        out: list[Piece] = []
        for piece in pieces:
            start, stop = span(piece, self.words)
            if n <= 0:
                break
            out.append(piece if stop - start <= n else piece._replace(start=start, stop=start + n))
            n -= stop - start
        return tuple(out)

    def behind(self, pieces: Pieces, n: int) -> Pieces:
        """Everything behind the first n tokens."""
        out: list[Piece] = []
        for piece in pieces:
            start, stop = span(piece, self.words)
            if n < stop - start:
                out.append(piece if n <= 0 else piece._replace(start=start + n, stop=stop))
            n -= stop - start
        return tuple(out)

    def remember(self, said: Exchange) -> None:
        """A request that was sent."""
        self.talks.append(said)

    def prompt(self) -> Pieces:
        """The next text that a client sends."""
        rng, most = self.rng, self.world.most
        if not self.talks or rng.chance(12):
            return self._new(most)
        old = rng.one(self.talks[-3:]) if rng.chance(70) else rng.one(self.talks)
        whole = (*old.prompt, *old.answer)
        n = self.size(old.prompt)
        move = rng.below(100)
        if move < 30:
            found = (*whole, self._user(most))                                              # the next turn
        elif move < 48:
            found = (*self.cut(whole, self._near(n, self.size(whole))), self._user(most))   # edited, branched
        elif move < 56:
            found = old.prompt                                                              # regenerated
        elif move < 62:
            found = whole                                                                   # sent back word for word
        elif move < 70:
            found = self.cut(whole, self._near(n, self.size(whole)))                        # a prefix of what is held
        elif move < 77:
            found = (*old.prompt, *self.behind(old.answer, rng.between(1, 4)), self._user(most))    # thinking stripped
        elif move < 84:
            at = rng.between(0, min(n, rng.one((3, 20, 60))))
            found = (*self.cut(old.prompt, at), self.word(rng.between(1, 3)), *self.behind(old.prompt, at))
        elif move < 90:
            found = self.cut(whole, rng.between(1, 3))                                      # tiny
        else:
            found = (*self.cut(whole, rng.between(1, n)), self._user(most))                 # anywhere
        return self.cut(found, most) or self._new(most)

    def _new(self, most: int) -> Pieces:
        """A conversation from its beginning, half the time behind a system text that others have too."""
        rng = self.rng
        capitals = self.shared()
        if capitals and rng.chance(60):
            system = Piece(rng.one(capitals))
        else:
            system = self.word(self.length(most // 2), capital=True)
        return self.cut((system, self._user(most)), most)

    def _user(self, most: int) -> Piece:
        length = self.rng.between(1, 6) if self.rng.chance(20) else self.length(max(1, most // 2))
        return self.word(length)._replace(user=self.rng.chance(40))

    def _near(self, n: int, most: int) -> int:
        """A place to cut at: where one was cut before, around the end of the prompt or an edge, or anywhere."""
        at = self._place(n, most)
        self.parted.append(at)
        return at

    def _place(self, n: int, most: int) -> int:
        rng = self.rng
        if self.parted and rng.chance(45):
            return max(1, min(most, rng.one(self.parted[-3:]) + rng.one((0, 0, 0, -1, 1, 2))))
        if rng.chance(50):
            return max(1, min(most, n - rng.between(-3, 7)))
        if rng.chance(50):
            return max(1, min(most, n - rng.one(self.world.edges) + rng.between(-2, 2)))
        return rng.between(1, most)
