"""Tokens with the key that they were evaluated under: adapters with their scales, a salt.

A server that keeps tokens alone takes rows for the same that were computed under other keys. Its lists here hold
``KeyedToken``: equal to its id, so that the server decides as the real one, with the key beside it. The model and the
judge see both as a single number, the identity: ``id + key * 2**64``. Key 0 is no key, and then the identity is the id.
"""

from __future__ import annotations

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


def under(tokens: Sequence[int], key: int) -> Sequence[int]:
    """Return these tokens, evaluated under a key."""
    return [KeyedToken(token, key) for token in tokens] if key else tokens


def identities(tokens: Iterable[int]) -> Tokens:
    """Return the identity of each token. One that is an identity already stays as it is."""
    return tuple([token + token.key * IDS if type(token) is KeyedToken else token for token in tokens])


def key_of(identity: int) -> int:
    """Return the key in an identity."""
    return identity // IDS


def plain(identities: Iterable[int]) -> Tokens:
    """Return the token ids in identities."""
    return tuple([identity % IDS for identity in identities])
