"""Flags of llama-server: the words that are read, and those that are written."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp import command_table as table
from cachesim.engines.llama_cpp.flags import (
    NEVER,
    SPEC_TYPES,
    drafters_of,
    needing_model,
    period_of,
    read_flags,
    recorded_options,
    write_flags,
)


@pytest.mark.parametrize(("words", "options", "request_fields", "sleeps"), [
    ("", {"parallel": -1}, {}, False), ("-np 2 -kvu", {"parallel": 2, "kv_unified": True}, {}, False),
    ("-md models/tiny-gemma3.gguf", {"parallel": -1, "model_draft": "gemma3"}, {}, False),
    ("-md gemma3", {"parallel": -1, "model_draft": "gemma3"}, {}, False),
    ("--lora-scaled a/lora0.gguf:1,b/alora1-7.8.gguf:0.5", {"parallel": -1, "lora_scaled": "1,0.5@7.8"}, {}, False),
    ("--lora-scaled alora1-7.gguf:0.5,xalora1-7.gguf:2", {"parallel": -1, "lora_scaled": "0.5@7,2"}, {}, False),
    ("--lora a.gguf", {"parallel": -1, "lora_scaled": "1"}, {}, False),
    ("--lora-scaled a.gguf:0.5 --lora b.gguf", {"parallel": -1, "lora_scaled": "0.5,1"}, {}, False),
    ("-cpent 64", {"parallel": -1, "checkpoint_min_step": 64}, {}, False),
    ("-cpent 0", {"parallel": -1, "checkpoint_min_step": NEVER}, {}, False),
    ("--sleep-idle-seconds 0", {"parallel": -1}, {}, True), ("--sleep-idle-seconds -1", {"parallel": -1}, {}, False),
    ("-n 5 --keep 3 --seed 1 -fa on", {"parallel": -1}, {"n_predict": 5, "n_keep": 3}, False),
    ("--no-cache-prompt", {"parallel": -1}, {"cache_prompt": False}, False),
    ("--spec-type draft-mtp,ngram-simple", {"parallel": -1, "spec_type": "ngram-simple,draft-mtp"}, {}, False),
    ("--spec-type ngram-mod,none,zzz", {"parallel": -1, "spec_type": "none"}, {}, False),
])  # fmt: skip
def test_a_command_line_is_read(words, options, request_fields, sleeps):
    line = read_flags(words.split())
    assert (line.options, line.request, line.sleeps) == (options, request_fields, sleeps)


@pytest.mark.parametrize(("words", "message"), [
    ("--spec-type zzz", "flag '--spec-type': unknown drafter 'zzz'"), ("-np", "flag '-np' has no value"),
    ("--wrong", "unknown flag '--wrong'"), ("-cpent x", "flag '-cpent': expected a 32-bit integer, found 'x'"),
])  # fmt: skip
def test_a_wrong_word_is_refused(words, message):
    with pytest.raises(BadInput) as bad:
        read_flags(words.split())
    assert bad.value.cause == message


@pytest.mark.parametrize(("kind", "hint"), [("zzz", ", ".join(SPEC_TYPES)), ("draft-mpt", "did you mean 'draft-mtp'?")])
def test_an_unknown_drafter_names_the_nearest_or_else_all(kind, hint):
    with pytest.raises(BadInput) as bad:
        read_flags(["--spec-type", f"ngram-mod,{kind}"])
    assert bad.value.hint == hint


NGRAM = "--spec-type ngram-map-k --spec-ngram-map-k-size-n 1 --spec-ngram-map-k-size-m 4"


@pytest.mark.parametrize(("options", "words"), [
    ({}, ""), ({"parallel": -1, "kv_unified": True}, ""), ({"parallel": 2, "kv_unified": True}, "-np 2 -kvu"),
    ({"parallel": 2, "kv_unified": False}, "-np 2 -no-kvu"), ({"parallel": 2}, "-np 2"), ({"kv_unified": True}, "-kvu"),
    ({"lora_scaled": "1, 0.5@7.8"}, "--lora-scaled MODELS/lora0.gguf:1,MODELS/alora1-7.8.gguf:0.5"),
    ({"lora_scaled": ""}, ""), ({"lora_scaled": "1,"}, "--lora-scaled MODELS/lora0.gguf:1"),
    ({"spec_type": "none"}, ""), ({"spec_type": "none", "model_draft": "AA"}, ""),
    ({"spec_type": "ngram-map-k", "spec_draft_n_max": 4}, NGRAM),
    ({"spec_type": "ngram-mod"},
     "--spec-type ngram-mod --spec-ngram-mod-n-match 1 --spec-ngram-mod-n-min 1 --spec-ngram-mod-n-max 3"),
    ({"spec_type": "ngram-cache"}, "--spec-type ngram-cache --spec-draft-n-max 3"),
    ({"spec_type": "draft-mtp", "spec_draft_n_max": 2}, "--spec-type draft-mtp --spec-draft-n-max 2"),
    ({"spec_type": "draft-simple", "model_draft": "AA"},
     "--spec-type draft-simple --spec-draft-n-max 3 -md MODELS/tiny-AA.gguf"),
    ({"spec_type": "ngram-map-k,draft-mtp", "spec_draft_n_max": 4},
     "--spec-type ngram-map-k,draft-mtp --spec-ngram-map-k-size-n 1 --spec-ngram-map-k-size-m 4 --spec-draft-n-max 4"),
    ({"pooling": "mean"}, ""), ({"pooling": "rank"}, "--embeddings --pooling rank"),
])  # fmt: skip
def test_options_are_written_as_a_command_line(options, words):
    assert write_flags(options) == words.split()


@pytest.mark.parametrize(("text", "kinds", "needs"), [
    ("none", (), "none"), ("draft-mtp,ngram-mod", ("ngram-mod", "draft-mtp"), "draft-mtp"),
    ("ngram-mod,ngram-simple,ngram-mod", ("ngram-simple", "ngram-mod"), "ngram-simple"), ("draft-mtp,none", (), "none"),
])  # fmt: skip
def test_drafters_are_asked_in_the_order_of_the_server(text, kinds, needs):
    assert drafters_of(text) == kinds and needing_model(kinds) == needs


@pytest.mark.parametrize(("header", "options"), [
    ({}, {}), ({"base_flags": ["-ctk", "q8_0", "-ctv", "q4_0"]}, {"cache_type_k": "q8_0", "cache_type_v": "q4_0"}),
    ({"base_flags": ["-ctk", "f16", "-ctv", "bf16"]}, {}),
    ({"adapters": [{"scale": 1.0}, {"scale": 0.5, "alora_invocation_tokens": [7, 8]}]}, {"lora_scaled": "1.0,0.5@7.8"}),
])  # fmt: skip
def test_the_header_of_a_recording_adds_types_and_adapters(header, options):
    assert recorded_options(header) == options


@pytest.mark.parametrize(("text", "every"), [("64", 64), ("1", 1), ("0", NEVER), ("-1", NEVER)])
def test_the_step_of_periodic_checkpoints(text, every):
    assert period_of(text) == every
    assert table.read_period(text).options == {"checkpoint_min_step": every}


@pytest.mark.parametrize(("parsed", "options"), [
    (table.read_longest_draft("7"), {"spec_draft_n_max": 7}), (table.read_draft_model("a/b"), {"model_draft": "a/b"}),
    (table.read_idle_slots(True, ""), {"cache_idle_slots": True}),
    (table.read_idle_slots(False, ""), {"cache_idle_slots": False}), (table.read_adapters("a"), {"lora_scaled": "1"}),
])  # fmt: skip
def test_arguments_with_readers_of_their_own(parsed, options):
    assert parsed.options == options
