"""Share of a chunk among waiting prompts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.sglang.managers.schedule_policy import SchedulePolicy
from tests.unit.engines.sglang.trees import make_cache, make_req

TEXT = tuple(range(100, 140))


def test_a_chunk_is_shared_by_what_is_left_of_its_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, _ = make_cache(schedule_policy="shortest-prefill-first")
    made, asked = SchedulePolicy(cache.context, cache), []
    monkeypatch.setattr(made, "rules", SimpleNamespace(chunk_share=lambda *args: asked.append(args) or 4))
    req = make_req(2, TEXT)
    req.prefix_len = 12
    assert made.shortest_prefill_chunk_limit(req, 16) == 4
    assert (asked[0][0], asked[0][2]) == (len(TEXT) - 12, 16)
