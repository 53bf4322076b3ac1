"""Tokens with the key that they were evaluated under: adapters with their scales, a salt.

A server that keeps tokens alone takes rows for the same that were computed under other keys. Its lists here hold
``KeyedToken``: equal to its id, so that the server decides as the real one, with the key beside it. The model and the
judge see both as a single number, the identity: ``id + key * 2**64``. Key 0 stands for none: the identity is the id.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Iterable, Self, Sequence

from cachesim.base.tokens import Tokens

IDS = 2**64                  # token ids are below this


class KeyedToken(int):
    """A token id, and the key under which the token was evaluated."""

    key: int

    def __new__(cls, token: int, key: int) -> Self:
        made = super().__new__(cls, token)
        made.key = key
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[int, int]]:
        return type(self), (int(self), self.key)


def under(tokens: Sequence[int], key: int) -> Sequence[int]:
    """Return these tokens, evaluated under a key."""
    return [KeyedToken(token, key) for token in tokens] if key else tokens


def identity(token: int) -> int:
    """Return the identity of a token. An identity stays as it is."""
    return token + token.key * IDS if type(token) is KeyedToken else token


def identities(tokens: Iterable[int]) -> Tokens:
    """Return the identity of each token."""
    return tuple(map(identity, tokens))


def key_of(identity: int) -> int:
    """Return the key in an identity."""
    return identity // IDS


Keys = tuple[tuple[int, int], ...]
"""Keys of the tokens of a list: (first position, key), ascending; () = no keys."""


def with_keys(tokens: Tokens, keys: Keys, start: int = 0) -> Tokens:
    """Return the identities of tokens from position ``start`` on under these keys."""
    cuts = [*(max(0, first - start) for first, _ in keys), len(tokens)]
    pieces = zip(pairwise(cuts), keys, strict=True)
    return tuple([int(token) + key * IDS for (a, b), (_, key) in pieces for token in tokens[a:b]])


def plain_tokens(identities: Iterable[int]) -> Tokens:
    """Return the token ids in identities."""
    return tuple([identity % IDS for identity in identities])
