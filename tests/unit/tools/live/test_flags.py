"""Tests that options survive the conversion to a command line and back."""

from __future__ import annotations

import pytest

from cachesim.engines.ik_llama.flags import read_flags as read_ik_flags
from cachesim.engines.ik_llama.flags import write_flags as write_ik_flags
from cachesim.engines.llama_cpp.flags import read_flags, write_flags
from cachesim.scenarios.option_checks import filled

LEFT_OPEN = {"checkpoint_min_step": -1, "parallel": -1, "cache_reuse": 0, "kv_unified": False}


@pytest.mark.parametrize("given", [
    {}, {"parallel": 3, "kv_unified": True, "ctx_size": 512}, {"parallel": 2, "kv_unified": False},
    {"checkpoint_min_step": 0, "ctx_checkpoints": 0}, {"cache_ram": -1}, {"cache_ram": 0, "cache_idle_slots": False},
    {"slot_prompt_similarity": 0.5}, {"swa_full": True}, {"cache_reuse": 16}, {"context_shift": True},
    {"kv_unified_per_slot": 300, "ctx_size": 512}, {"pooling": "last"},
    {"lora_scaled": "1,0.5", "lora_init_without_apply": True}, {"lora_scaled": "0@101.102,1"},
])  # fmt: skip
def test_llama_server(given):
    server = filled(given)
    read = read_flags(write_flags(server)).options
    assert {**server, **read} == server
    unsaid = {name: server[name] for name in server if name not in read}
    plain = {"swa_full": False, "spec_type": "none", "spec_draft_n_max": 3, "model_draft": "", "pooling": "mean",
             "kv_unified_per_slot": 0, "cache_prompt": True, "lora_scaled": "", "mmproj": "",
             "lora_init_without_apply": False, "cache_type_k": "f16", "cache_type_v": "f16",
             "n_ctx_train": 0, **LEFT_OPEN}
    assert unsaid == {name: plain[name] for name in unsaid}


def test_left_open():
    words = write_flags(filled({"parallel": -1}))
    assert not {"-np", "-kvu", "-no-kvu", "--checkpoint-min-step", "-cms"} & set(words)


@pytest.mark.parametrize(("given", "words"), [
    ({"spec_type": "draft-mtp", "spec_draft_n_max": 2}, ["--spec-type", "draft-mtp", "--spec-draft-n-max", "2"]),
    ({"spec_type": "draft-simple", "model_draft": "mamba2"},
     ["--spec-type", "draft-simple", "--spec-draft-n-max", "3", "-md", "MODELS/tiny-mamba2.gguf"]),
    ({"spec_type": "ngram-simple", "spec_draft_n_max": 4},
     ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "1", "--spec-ngram-simple-size-m", "4"]),
    ({"spec_draft_n_max": 4}, []),
])  # fmt: skip
def test_drafters(given, words):
    assert write_flags(given) == words
    assert read_flags(words).options.get("model_draft", "") == given.get("model_draft", "")


@pytest.mark.parametrize("given", [
    {}, {"context_shift": True, "ctx_size": 128}, {"swa_compress": True}, {"spec_type": "mtp", "spec_draft_n_max": 4},
    {"ctx_checkpoints_eviction": "age", "cache_ram_similarity": 0.25},
])  # fmt: skip
def test_ik_llama(given):
    server = filled(given, "ik_llama")
    for name in ("companion_recurrent", "drafts_from_rows"):      # not options of the server
        server.pop(name)
    read = read_ik_flags(write_ik_flags(server)).options
    assert {**server, **read} == server
