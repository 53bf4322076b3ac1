"""Tests of the drawn servers of the newest memories."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import engine_of
from cachesim.scenarios.option_checks import filled
from cachesim.tools.live.llama_server.verify.model_of import base_flags
from tests.live import newest_worlds

BUILD = "llama_cpp@b11549"


def test_consecutive_option_sets_take_every_model_with_small_micro_batches():
    sets = [newest_worlds.option_set(0, number) for number in range(10)]
    assert {one.model for one in sets} == set(newest_worlds.MODELS.values())
    assert max(one.server["ubatch_size"] for one in sets) <= newest_worlds.UBATCH
    assert [case.model for one in sets for case in [one.case(0)]] == [one.model for one in sets]


def test_a_start_keeps_rows_in_f32_and_chooses_blocks_only_with_flash_attention():
    options = newest_worlds.option_set(0, 3)
    flags = engine_of(BUILD).recorded.write(filled(options.server, "llama_cpp"))
    assert "-ctk" not in flags and "-ctv" not in flags           # the base flags have F32
    read = {model: base_flags(model) for model in ("minimax-m3", "deepseek4")}
    assert {model: one[one.index("-fa") + 1] for model, one in read.items()} == {"minimax-m3": "on", "deepseek4": "off"}


def test_a_missing_model_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(newest_worlds, "SHARED", tmp_path)
    with pytest.raises(BadInput, match=r"tiny-deepseek4\.gguf: no such model"):
        newest_worlds.require_models(tmp_path)
