"""Requests of whole conversations after each turn of the scheduler's loop (requests.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cachesim.engines.sglang.server import Server
from tests.unit.engines.event_lines import sections
from tests.unit.engines.sglang.conversations import CONVERSATIONS
from tests.unit.engines.sglang.state_lines import show_requests, turns

EXPECTED = sections(Path(__file__).with_name("requests.txt"))


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_requests_after_each_turn(
    conversation: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert turns(conversation, show_requests, monkeypatch) == EXPECTED[conversation.__name__]
