"""Request fields that a search draws for a server with slots, shared by two engines with equal option names."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.model.hash_mixing import Rng


def slot_count(server: Mapping[str, Any]) -> int:
    """Return the number of slots that these options request."""
    return int(server.get("parallel", 1))


def context_parts(server: Mapping[str, Any]) -> int:
    """Return the number of equal parts in which slots share the context: 1 with a unified cache or an open number of
    slots."""
    return 1 if server.get("kv_unified") else max(1, slot_count(server))


def draw_fields(rng: Rng, server: Mapping[str, Any], completions: bool = False) -> dict[str, Any]:
    """Draw request fields other than prompt and answer; ``completions``: a request may have several completions."""
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
