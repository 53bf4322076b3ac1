"""Nodes of the tree, with their parts and locks, after each turn of whole conversations (tree.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.sglang.server import Server
from tests.unit.engines.event_lines import sections
from tests.unit.engines.sglang.conversations import CONVERSATIONS
from tests.unit.engines.sglang.state_lines import show_tree, turns

EXPECTED = sections(Path(__file__).with_name("tree.txt"))


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_nodes_after_each_turn(
    conversation: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert turns(conversation, show_tree, monkeypatch) == EXPECTED[conversation.__name__]
