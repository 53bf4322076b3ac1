"""Sizes that real ik_llama.cpp servers printed, beside those that are computed from the model and the flags.

Logs: ../shared/logs. Recordings: tests/data.
"""

import json
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.ik_llama import memory_use
from cachesim.engines.ik_llama.memory_use import FORMS, checkpoint_bytes, use
from cachesim.engines.registry import ENGINES, rules_of
from cachesim.engines.shared.memory_use import MIB, MemoryQuestion
from cachesim.engines.shared.model_sizes import real_model

ROOT = Path(__file__).resolve().parents[4]
MODELS = ROOT.parent / "shared" / "models"
RECORDED = sorted(file for folder in ("ik_llama", "ik_llama_odd")
                  for file in (ROOT / "tests/data" / folder).glob("*.json"))  # fmt: skip
LOGS = [
    # thread, tokens, printed MiB; the model is Qwen3.5-27B
    ("1931", 4096, "149.659"), ("1931", 8192, "149.690"), ("1931", 12288, "149.721"),
    ("1931", 20480, "149.784"), ("2088", 50376, "150.012"), ("2088", 51124, "150.018"), ("2088", 51378, "150.019"),
    ("2226", 3072, "149.651"), ("2226", 6144, "149.674"),
]  # fmt: skip
DIFFERS = ("1931", 16384, "149.753", "149.752")
"""The only line that differs, by two bytes at the edge of its last digit: an unknown build and quantisation."""


def ask(model, **options):
    rules = rules_of(ENGINES["ik_llama"].line[-1])
    sizes = {flag.name: flag.default for flag in FORMS.flags}
    return MemoryQuestion(
        real_model(model), {**ENGINES["ik_llama"].manual.defaults, **sizes, **rules.defaults, **options}, rules
    )


@pytest.mark.parametrize(("thread", "tokens", "printed"), LOGS)
def test_checkpoints_have_the_size_that_logs_print(thread, tokens, printed):
    assert f"{checkpoint_bytes(real_model('qwen3.5-27b'), tokens) / MIB:.3f}" == printed


def test_one_line_of_a_log_differs_in_its_last_digit():
    _, tokens, printed, computed = DIFFERS
    found = checkpoint_bytes(real_model("qwen3.5-27b"), tokens)
    assert f"{found / MIB:.3f}" == computed and f"{(found + 2) / MIB:.3f}" == printed


@pytest.mark.skipif(not MODELS.is_dir(), reason="the models of ../shared are missing")
def test_checkpoints_have_the_size_that_recorded_servers_logged():
    compared = 0
    for file in RECORDED:
        recording = json.loads(file.read_text())
        model = real_model(str(MODELS / recording["model"]))
        steps = [one for step in recording["steps"] for one in (step, *step.get("steps", ()))]
        for event in (event for step in steps for event in step.get("events", ()) if event["ev"] == "ckpt_create"):
            found = checkpoint_bytes(model, event["n_tokens"])
            assert float(f"{found / MIB:.3f}") == event["mib"], (file.name, event)
            compared += 1
    assert compared > 10


def test_windows_are_masks_and_need_all_cells():
    found = use(ask("gpt-oss-20b", ctx_size=4096))
    assert [(part.name, part.each, part.number) for part in found.parts[:1]] == [("attention rows", 24 * 2048, 4096)]
    assert found.checkpoint == 0
    with pytest.raises(BadInput, match="compacted windows"):
        use(ask("gpt-oss-20b", swa_compress=True))


def test_a_head_that_does_not_draft_is_not_loaded_and_has_no_rows():
    found = use(ask("qwen3.5-27b", ctx_size=8192))
    assert found.parts[0][1:3] == (16 * 4096, 8192) and found.token == 16 * 4096


def test_rule_sets_without_checkpoints_need_no_memory_for_them():
    older = ask("qwen3.5-27b")._replace(rules=rules_of("ik_llama@1295"))
    assert use(older).checkpoint == 0 and "checkpoints" not in [part.name for part in use(older).parts]


FLASH_RINGS = 21 * 2 * 4 * 8 * 2 * (512 + 128) + 20 * 2 * 4 * 128 * 512
"""DeepSeek-V4-Flash has 43 layers: 21 compress 4 tokens, 20 compress 128."""


def test_every_slot_of_deepseek_v4_has_compressed_rows_for_the_whole_context():
    found = use(ask("deepseek-v4", ctx_size=65536, parallel=2, ctx_checkpoints=0, cache_ram=0))
    rows = 21 * 16384 * (1024 + 256) + 20 * 512 * 1024
    assert [(part.name, part.each, part.number) for part in found.parts] == [
        ("attention rows", 43 * 1024, 65536), ("compressed rows", rows, 2), ("rings", FLASH_RINGS, 2)]
    assert (found.token, found.window, found.state, found.checkpoint) == (0, 43 * 1024, 0, 0)
    assert found.notes == (
        "each of 2 slots has room for the compressed rows of the whole context", memory_use.NOT_RECORDED)


def test_room_for_compressed_rows_is_a_multiple_of_256():
    found = use(ask("deepseek-v4", ctx_size=1056, ctx_checkpoints=0, cache_ram=0, flash_attn=False))
    assert found.parts[0].number == 1056
    assert found.parts[1].each == 21 * 512 * (1024 + 256) + 20 * 256 * 1024


def test_a_checkpoint_of_deepseek_v4_has_all_compressed_rows_of_its_slot():
    """Beside them 20 and 16 bytes of headers, for each layer 12 and 4, and 8 for each token."""
    found = use(ask("deepseek-v4", ctx_size=4096, parallel=2, ctx_checkpoints=3, cache_ram=-1))
    rows = 21 * 1024 * (1024 + 256) + 20 * 256 * 1024
    one = 20 + 16 + 43 * (12 + 4) + 2048 * 8 + rows + FLASH_RINGS
    parts = {part.name: (part.each, part.number) for part in found.parts}
    assert found.checkpoint == one and parts["checkpoints"] == (one, 6)
    assert parts["prompt cache"] == (one + 2048 * 43 * 1024 + 3 * one, 1)
    assert any("however short the conversation is" in note for note in found.notes)


def test_rows_and_index_rows_of_deepseek_v4_have_types_of_their_own():
    smaller = {"cache_type_k": "q8_0", "cache_type_v": "q4_0", "indexer_cache_type_k": "bf16"}
    found = use(ask("deepseek-v4", ctx_size=4096, ctx_checkpoints=0, cache_ram=0, **smaller))
    assert found.parts[0].each == 43 * 544
    assert found.parts[1].each == 21 * 1024 * (544 + 256) + 20 * 256 * 544
    with pytest.raises(BadInput, match="index rows of this model cannot be stored as q4_0"):
        use(ask("deepseek-v4", indexer_cache_type_k="q4_0"))
    with pytest.raises(BadInput, match="rows of this model cannot be stored as f32"):
        use(ask("deepseek-v4", cache_type_k="f32"))


def test_the_rows_of_a_head_that_may_have_its_own_file_are_refused():
    with pytest.raises(BadInput, match="MTP head are not known"):
        use(ask("deepseek-v4", spec_type="mtp"))


def test_minimax_m3_has_rows_of_plain_attention_and_no_index():
    found = use(ask("minimax-m3", ctx_size=4096, cache_ram=0))
    assert [(part.name, part.each, part.number) for part in found.parts] == [("attention rows", 60 * 2048, 4096)]
    assert found.checkpoint == 0
    assert found.notes == ("all rows are read: ik_llama.cpp has no index for this model", memory_use.NOT_RECORDED)


def test_a_hybrid_model_has_states_checkpoints_and_the_rows_of_its_head():
    found = use(ask("qwen3.5-27b", ctx_size=8192, parallel=2, spec_type="mtp", cache_ram=-1))
    parts = {part.name: (part.each, part.number) for part in found.parts}
    assert parts["attention rows"] == (17 * 4096, 8192) and parts["draft: attention rows"] == (4096, 8192)
    assert parts["states"] == (48 * 3268608, 2) and parts["checkpoints"][1] == 64
    assert found.unlimited == "cache_ram" and parts["prompt cache"][1] == 1


@pytest.mark.parametrize(("options", "host"), [
    ({"cache_ram": 64}, ["checkpoints", "prompt cache"]), ({"cache_ram": -1}, ["checkpoints", "prompt cache"]),
    ({"cache_ram": 0}, ["checkpoints"]), ({"cache_ram": 0, "ctx_checkpoints": 0}, []),
])  # fmt: skip
def test_checkpoints_and_the_prompt_cache_are_in_host_memory(options, host):
    assert [part.name for part in use(ask("qwen3.5-27b", ctx_size=4096, **options)).parts if part.host] == host


@pytest.mark.parametrize(("options", "host"), [
    ({"cache_ram": 1, "spec_type": "mtp"}, [False, False, False, True, True]),
    ({"cache_ram": -1}, [False, False, True, True]), ({"cache_ram": 0, "ctx_checkpoints": 0}, [False, False]),
])  # fmt: skip
def test_checkpoints_and_stored_conversations_lie_in_the_memory_of_the_host(options, host):
    found = use(ask("qwen3.5-27b", ctx_size=4096, **options))
    assert [part.host for part in found.parts] == host
    assert (found.checkpoint > 0) is ("ctx_checkpoints" not in options)
