"""Memory of conversations in mlx-lm's caches."""

import pytest

from cachesim.engines.mlx_lm.memory_use import agent_settings, conversation_bytes, use
from cachesim.engines.registry import ENGINES, rules_of
from cachesim.engines.shared.memory_use import MemoryQuestion
from cachesim.engines.shared.model_sizes import real_model


def used(model, draft="", room=0, **options):
    found = {**ENGINES["mlx_lm"].manual.defaults, **options}
    drafter = real_model(draft) if draft else None
    return use(MemoryQuestion(real_model(model), found, rules_of("mlx_lm@0.32.2"), room, 1000, drafter))


def parts(model, draft="", **options):
    return {part.name: part.bytes for part in used(model, draft, **options).parts}


def test_rows_grow_by_steps_and_windows_stop():
    assert conversation_bytes(real_model("qwen3"), 257) == 512 * 36 * 4096
    assert conversation_bytes(real_model("gpt-oss-20b"), 1000) == 12 * 2048 * (1024 + 128)


def test_matrices_have_four_bytes_and_convolutions_two():
    assert conversation_bytes(real_model("qwen3-next"), 1) == 12 * 2048 * 256 + 36 * (24576 * 2 + 524288 * 4)


def test_running_requests_and_the_cache_count_until_its_limit():
    each = conversation_bytes(real_model("qwen3"), 1000)
    assert parts("qwen3", decode_concurrency=2) == {"running requests": 2 * each, "prompt cache": 10 * each}
    assert parts("qwen3", prompt_cache_bytes=5)["prompt cache"] == 5


def test_a_draft_model_runs_alone():
    each = conversation_bytes(real_model("qwen3"), 1000) + conversation_bytes(real_model("gemma-3"), 1000)
    assert parts("qwen3", "gemma-3")["running requests"] == each


def test_clients_keep_their_number_of_conversations_or_more_in_the_room_that_is_left():
    model = real_model("qwen3")
    each = conversation_bytes(model, 1000)
    ask = MemoryQuestion(model, ENGINES["mlx_lm"].manual.defaults, rules_of("mlx_lm@0.32.2"), 5 * each, 1000, None)
    found = [(one["decode_concurrency"], one["prompt_cache_size"], one["prompt_cache_bytes"])
             for one in agent_settings(ask, 3)]  # fmt: skip
    assert found == [(running, kept, (5 - running) * each) for running in (3, 1) for kept in (3, 10, 40, 160)]
    assert {one["prompt_cache_bytes"] for one in agent_settings(ask, 9) if one["decode_concurrency"] == 9} == {1}
    assert len([*agent_settings(ask, 1)]) == 4


@pytest.mark.parametrize(("spare", "entries"), [
    (-1, (1, "limit")), (0, (10, "conversations")), (1, (10, "conversations"))])
def test_a_limit_of_bytes_counts_only_below_the_entries_that_the_cache_may_hold(spare, entries):
    each = conversation_bytes(real_model("qwen3"), 1000)
    _, part = used("qwen3", prompt_cache_bytes=10 * each + spare).parts
    size = 10 * each + spare if spare < 0 else each
    assert (part.each, part.number, part.unit) == (size, *entries)


def test_a_room_holds_whole_conversations():
    each = conversation_bytes(real_model("qwen3"), 1000)
    assert [used("qwen3", room=room).pool for room in (0, each - 1, each, 3 * each - 1)] == [
        {}, {"conversations": 0}, {"conversations": 1}, {"conversations": 2}]
    found = used("qwen3-next")
    assert (found.token, found.window, found.checkpoint, found.chosen) == (12 * 2048, 0, 0, {"tokens": 1000})
    assert found.state == 36 * (24576 * 2 + 524288 * 4)
