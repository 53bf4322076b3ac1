"""Kinds of restore points, as the first part of their keys and as the sources of reused tokens, and the roles of the
rules that decide about their use.

An engine calls every other kind as it likes ("block", "node", "state"). Only code that needs one of these kinds names
it; all other code asks for a role.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

from cachesim.engines.inspection import Key
from cachesim.engines.rule import Role

RUNNING = "slot"
"""Kind of the state of a request in progress. The next evaluated token overwrites it; all other kinds are copies, which
stay until a rule removes them."""
CHECKPOINT = "checkpoint"
"""Kind of a copy of a state that belongs to a slot."""
CONVERSATION = "entry"
"""Kind of a stored conversation."""


class ChoiceRoles(NamedTuple):
    """Roles of the rules that decide whether a request uses a restore point: ``usual``, and ``searching`` for a request
    that needs a copy (``Role.NEED``)."""

    usual: Role
    searching: Role


CHOICES: Mapping[str, ChoiceRoles] = {
    RUNNING: ChoiceRoles(Role.ASSIGN, Role.NEED),
    CHECKPOINT: ChoiceRoles(Role.NEED, Role.PICK),
}
"""Roles by kind; stored objects of all other kinds are loaded."""
LOADED = ChoiceRoles(Role.LOAD, Role.LOAD)


def choice_role(kind: str, searching: bool) -> Role:
    """Return the role of the rule that decides whether a request uses a restore point of this kind."""
    roles = CHOICES.get(kind, LOADED)
    return roles.searching if searching else roles.usual


def is_copy(kind: str) -> bool:
    """True for a kind of stored copies, False for the state of a request in progress and for no kind ("")."""
    return kind not in ("", RUNNING)


def slot_of(key: Key) -> int:
    """Return the slot that holds a restore point, -1 = none."""
    return key[1] if key[0] in (RUNNING, CHECKPOINT) else -1


def running_key(slot: int) -> Key:
    """Return the key of the state of the request in a slot."""
    return RUNNING, slot, 0
