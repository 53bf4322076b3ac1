"""Memory of conversations in mlx-lm's caches."""

from cachesim.engines.mlx_lm.memory_use import agent_settings, conversation_bytes, use
from cachesim.engines.registry import ENGINES, rules_of
from cachesim.engines.shared.memory_use import MemoryQuestion
from cachesim.engines.shared.model_sizes import real_model


def parts(model, draft="", **options):
    found = {**ENGINES["mlx_lm"].manual.defaults, **options}
    used = use(
        MemoryQuestion(
            real_model(model), found, rules_of("mlx_lm@0.32.2"), 0, 1000, (draft and real_model(draft)) or None
        )
    )
    return {part.name: part.bytes for part in used.parts}


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
