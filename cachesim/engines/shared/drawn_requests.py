"""What a search draws for a request to a server with slots, whose options are named alike in two engines."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.model.hash_mixing import Rng


def slot_count(server: Mapping[str, Any]) -> int:
    """How many slots these options ask for."""
    return int(server.get("parallel", 1))


def context_parts(server: Mapping[str, Any]) -> int:
    """In how many equal parts slots share the context: in one where they have a unified cache, or where the number of
    slots is left open."""
    return 1 if server.get("kv_unified") else max(1, slot_count(server))


def draw_fields(rng: Rng, server: Mapping[str, Any], completions: bool = False) -> dict[str, Any]:
    """Fields of a request besides prompt and answer; ``completions``: may it ask for several?"""
    fields: dict[str, Any] = {}
    slots = slot_count(server)
    if rng.chance(4):
        fields["cache_prompt"] = False
    if slots > 1 and rng.chance(30):
        fields["id_slot"] = rng.below(slots)
    if completions and slots > 1 and rng.chance(5):
        fields["n_cmpl"] = rng.between(2, slots)
    if "spec_type" in server:
        most = int(server.get("spec_draft_n_max", 16))
        fields["drafts"] = tuple((d, rng.between(0, d)) for d in (rng.between(1, most) for _ in range(rng.below(3))))
    return fields
