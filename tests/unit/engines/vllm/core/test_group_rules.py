"""Each kind of group asks the rules of its kind."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm import ENGINE


@pytest.mark.parametrize(("model", "names"), [
    ("A", [("find_full", "mask_full")]), ("W8 A", [("find_full", "mask_full"), ("find_swa", "mask_swa")]),
    ("GA", [("find_full", "mask_full"), ("find_mamba", "mask_mamba")]),
    ("K8", [("find_chunked", "mask_full")]),
])  # fmt: skip
def test_a_group_asks_the_rules_of_its_kind(model: str, names: list[tuple[str, str]]) -> None:
    server = ENGINE.start("vllm@0.33.0", model, {"block_size": 4}, "none")
    managers = server.scheduler.kv_cache_manager.coordinator.single_type_managers
    rules = server.scheduler.kv_cache_manager.coordinator.single_type_managers[0].rules
    asked = [(one.find_rule, one.mask_rule) for one in managers]
    assert asked == [(getattr(rules, find), getattr(rules, mask)) for find, mask in names]
