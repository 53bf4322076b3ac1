"""Client model that draws prompts: appended, edited, branched, repeated and truncated turns, texts without a part of
them. A client usually continues an earlier exchange."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import NamedTuple

from cachesim.engines.capabilities import DrawnServer
from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.notation.tree import Piece, Pieces
from cachesim.scenarios.notation.word_lengths import FIXED, NULL, THINK, ImageSize, read_length, size, span


class ClientExchange(NamedTuple):
    """A prompt and its answer, both drawn for a simulated client. ``chat``: the messages (role, text) if the request
    was a chat."""

    prompt: Pieces
    answer: Pieces
    chat: tuple[tuple[str, Pieces], ...] = ()


@dataclass
class Clients:
    """All clients of a server. ``words``: words used so far with their lengths in tokens. ``talks``: exchanges so far.
    ``parted``: lengths at which a prompt diverged from an earlier conversation. ``named``: words that options name
    (``@WORD``), which texts contain now and then."""

    rng: Rng
    world: DrawnServer
    words: dict[str, int] = field(default_factory=dict)
    talks: list[ClientExchange] = field(default_factory=list)
    parted: list[int] = field(default_factory=list)
    named: list[Piece] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in dict.fromkeys(re.findall(r"@([A-Za-z_]+)", " ".join(map(str, self.world.server.values())))):
            self.words[name] = self.rng.between(1, 3)
            self.named.append(Piece(name))

    def word(self, length: int, capital: bool = False) -> Piece:
        """Return a new word of this length in tokens."""
        n = len(self.words)
        name = (ascii_lowercase[n // 26 - 1] if n >= 26 else "") + ascii_lowercase[n % 26]
        name = name.upper() if capital else name
        name += "_" if name in self.words else ""
        self.words[name] = length
        return Piece(name)

    def think(self) -> Piece:
        """Return the token that opens a thought, for use inside a text."""
        self.words[THINK] = 1
        return Piece(THINK)

    def shared(self) -> list[str]:
        """Return the texts that several conversations begin with: the words in capitals."""
        return [name for name in self.words if name.isupper() and name not in FIXED and Piece(name) not in self.named]

    def invalid(self) -> Pieces:
        """Draw a prompt with a token that no model has: at the end of a text, or in place of an image."""
        self.words[NULL] = 1
        prompt = self.prompt()
        images = [i for i, piece in enumerate(prompt) if self._image(piece)]
        return (*(prompt[: self.rng.one(images)] if images else prompt), Piece(NULL))

    def length(self, most: int) -> int:
        """Draw the length of a text in tokens: near an edge of the memory, short, or arbitrary."""
        rng = self.rng
        if rng.chance(50 if "W" in self.world.model else 35):
            near = rng.one(self.world.edges) * rng.one((1, 1, 1, 2)) + rng.between(-2, 2)
            return max(1, min(near, most))
        return rng.between(1, min(most, rng.one((4, 12, 40, 120))))

    def size(self, pieces: Pieces) -> int:
        """Return the number of tokens of a text given as pieces (slices of words)."""
        return size(pieces, self.words)

    def cut(self, pieces: Pieces, n: int) -> Pieces:
        """Return the first n tokens of a text given as pieces (slices of words)."""
        out: list[Piece] = []
        for piece in pieces:
            start, stop = span(piece, self.words)
            if n <= 0:
                break
            if stop - start <= n:
                out.append(piece)
            elif not self._image(piece):
                out.append(piece._replace(start=start, stop=start + n))
            n -= stop - start
        return tuple(out)

    def behind(self, pieces: Pieces, n: int) -> Pieces:
        """Return a text given as pieces (slices of words) without its first n tokens."""
        out: list[Piece] = []
        for piece in pieces:
            start, stop = span(piece, self.words)
            if n <= 0 or (n < stop - start and not self._image(piece)):
                out.append(piece if n <= 0 else piece._replace(start=start + n, stop=stop))
            n -= stop - start
        return tuple(out)

    def remember(self, exchange: ClientExchange) -> None:
        """Record a request that was sent."""
        self.talks.append(exchange)

    def prompt(self) -> Pieces:
        """Draw the next text that a client sends."""
        rng, most = self.rng, self.world.most
        if not self.talks or rng.chance(12):
            return self._new(most)
        old = rng.one(self.talks[-3:]) if rng.chance(70) else rng.one(self.talks)
        whole = (*old.prompt, *old.answer)
        n = self.size(old.prompt)
        move = rng.below(100)
        if move < 30:
            found = (*whole, *self._turn(most))                                             # the next turn
        elif move < 48:
            found = (*self.cut(whole, self._near(n, self.size(whole))), *self._turn(most))  # edited, branched
        elif move < 56:
            found = old.prompt                                                              # regenerated
        elif move < 62:
            found = whole                                                                   # sent back unchanged
        elif move < 70:
            found = self.cut(whole, self._near(n, self.size(whole)))                        # a prefix of what is held
        elif move < 77:
            found = (*old.prompt, *self.behind(old.answer, rng.between(1, 4)), *self._turn(most))   # thinking stripped
        elif move < 84:
            at = rng.between(0, min(n, rng.one((3, 20, 60))))
            found = (*self.cut(old.prompt, at), self.word(rng.between(1, 3)), *self.behind(old.prompt, at))
        elif move < 90:
            found = self.cut(whole, rng.between(1, 3))                                      # tiny
        else:
            found = (*self.cut(whole, rng.between(1, n)), *self._turn(most))                # anywhere
        return self.cut(found, most) or self._new(most)

    def _new(self, most: int) -> Pieces:
        """Draw a new conversation; half of the time it begins with a shared system text."""
        rng = self.rng
        capitals = self.shared()
        if capitals and rng.chance(60):
            system = Piece(rng.one(capitals))
        else:
            system = self.word(self.length(most // 2), capital=True)
        begins = (self.rng.one(self.named),) if self.named and self.rng.chance(15) else (system,)
        return self.cut((*begins, *self._turn(most)), most)

    def _turn(self, most: int) -> Pieces:
        """Draw a message: a text with an image, and words that options name, as the server has them."""
        message = self._message(most)
        if not self.named or not self.rng.chance(60):
            return message
        at = self.rng.one((0, len(message), len(message)))
        return (*message[:at], self.rng.one(self.named), *message[at:], *((self._user(most),) * self.rng.chance(50)))

    def _message(self, most: int) -> Pieces:
        """Draw a text, often with a new or an earlier image before it when the server takes images."""
        user, rng = self._user(most), self.rng
        if not self.world.images or not rng.chance(50):
            return (user,)
        known = [Piece(name) for name in self.words if self._image(Piece(name))]
        image = rng.one(known) if known and rng.chance(40) else self.word(read_length(rng.one(self.world.images)))
        return (image._replace(user=user.user), user._replace(user=False))

    def _image(self, piece: Piece) -> bool:
        return isinstance(self.words[piece.word], ImageSize)

    def _user(self, most: int) -> Piece:
        length = self.rng.between(1, 6) if self.rng.chance(20) else self.length(max(1, most // 2))
        return self.word(length)._replace(user=self.rng.chance(40))

    def _near(self, n: int, most: int) -> int:
        """Draw a length to cut at: near an earlier length, near the end of the prompt, at an edge, or anywhere."""
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
