"""Lines printed by a real llama-server, and the events that they report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.engines.llama_cpp.log_events import (
    EVENTS,
    HEAD,
    NEXT_TOKEN,
    Entry,
    entries,
    match,
    numbered,
    numbers_of,
    read_event,
    server_facts,
)
from cachesim.engines.shared.log_grammar import LONGEST

RECORDED = Path(__file__).parents[3] / "data" / "log_lines" / "b11549.jsonl"
LINES = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
NOT_RECORDED = {"copy_shared", "lora_clear", "lora_keep", "lora_set", "alora_absent", "alora_start", "alora_cap",
                "alora_pre", "alora_stop", "alora_again", "media_encode", "media_decode"}
"""Kinds of which no line is kept here. Recordings of servers with adapters or images have their events."""


@pytest.mark.parametrize("case", LINES, ids=lambda case: case["event"]["ev"])
def test_a_recorded_line_reports_its_event(case):
    assert [read_event(entry) for entry in entries(case["line"])] == [case["event"]]


def test_every_kind_of_line_is_among_the_recorded_ones():
    met = [match(entry.text) for case in LINES for entry in entries(case["line"])]
    lines = {found[0].template for found in met if found is not None}
    missing = {line.template for line in EVENTS if line.ev not in NOT_RECORDED} - lines
    # The ends of these two occur in recorded lines with another beginning.
    assert missing == {
        " - cache size limit reached, removing oldest entry (size = {mib} MiB)",
        "failed to load prompt from cache",
    }


def test_a_line_matches_a_single_kind():
    for case in LINES:
        for entry in entries(case["line"]):
            fits = [line for line in EVENTS if match(entry.text) and match(entry.text)[0] is line]
            assert len(fits) <= 1


@pytest.mark.parametrize("word", ["x", "--1", "9" * 5000, "\u0663.\u0664.x"])
def test_a_word_in_a_number_field_does_not_match(word):
    assert match(f" - removing obsolete cached prompt with length {word}") is None
    assert numbers_of(NEXT_TOKEN, f"n_gen = 1, n_remaining = 2, next token: {word} 'a'") is None


@pytest.mark.parametrize(("template", "text", "numbers"), [
    (NEXT_TOKEN, "n_gen = 1, n_remaining = -2, next token:  345 'a'", {"token": 345}),
    ("n = {n}, {}", "n = 7, whatever", {"n": 7}), ("n = {n}", "n = 7, whatever", None), ("n = {n}", "n = 7.5", None),
    ("n = {n}, m = {m}", "n = 7, m = x", None), ("n = {n}, m = {m}", "n = 7, m = 8", {"n": 7, "m": 8}),
    ("a line", "a line", None),
])  # fmt: skip
def test_the_whole_numbers_in_the_fields_of_a_line(template, text, numbers):
    assert numbers_of(template, text) == numbers


def test_every_template_begins_with_text():
    assert all("{" not in line.template[:HEAD] and len(line.template) >= HEAD for line in EVENTS)


def test_the_prefix_does_not_belong_to_the_message():
    bare = "slot      release: id  3 | task 7 | stop processing: n_tokens = 9, truncated = 0"
    want = {"ev": "release", "slot": 3, "task": 7, "n_tokens": 9, "truncated": 0}
    for line in (bare, f"0.01.002.003 I {bare}\n", f"\x1b[34m0.01.002.003\x1b[0m \x1b[32mI \x1b[0m{bare}"):
        assert [read_event(entry) for entry in entries(line)] == [want]


@pytest.mark.parametrize(("word", "shown"), [("40", "40"), ("-3", "-3"), ("0.50", "0.5"), ("1e3", "1000.0")])
def test_a_whole_number_is_an_integer_and_no_other_is(word, shown):
    _, values = match(f" - removing obsolete cached prompt with length {word}")
    assert repr(values) == f"{{'n_tokens': {shown}}}"


@pytest.mark.parametrize(("shown", "task"), [("0", 0), ("7", 7), ("-1", None)])
def test_a_slot_without_a_task_names_none(shown, task):
    [entry] = entries(f"slot release: id  0 | task {shown} | stop processing: n_tokens = 9, truncated = 0")
    assert (entry.slot, entry.task) == (0, task)


def test_two_messages_in_one_line_are_two():
    line = "0.00.157.120 D No parser definition.0.00.157.122 I srv  update_slots: all slots are idle"
    assert [entry.text for entry in entries(line)] == ["No parser definition.", "all slots are idle"]
    assert [entry.level for entry in entries(line)] == ["D", "I"]


def test_a_message_without_a_line_end_precedes_another_in_a_log_without_time_stamps():
    line = "No parser definition detected, assuming pure content parser.srv  update_slots: all slots are idle"
    assert [entry.text for entry in entries(line)][1:] == ["all slots are idle"]


@pytest.mark.parametrize(("text", "event"), [
    ("processing task", {"ev": "launch"}),
    ("n_tokens = 9, memory_seq_rm [9, end)", {"ev": "batch", "n_tokens": 9, "p0": 9}),
    ("32 tokens since last checkpoint at 0, creating new checkpoint during processing at position 49",
     {"ev": "ckpt_periodic", "every": 32, "last": 0, "n_tokens": 49}),
    ("n_past = 3, slot.prompt.tokens.size() = 5, seq_id = 0, pos_min = 4, n_swa = 1",
     {"ev": "ckpt_search", "n_past": 3, "n_tokens": 5, "seq_id": 0, "pos_min": 4, "n_swa": 1}),
    ("accepted 2/3 draft tokens, new n_tokens = 9", {"ev": "spec_step", "accepted": 2, "drafted": 3, "n_tokens": 9}),
    ("accepted 0/0 draft tokens, new n_tokens = 9", None),                       # b8672 decodes without a draft
])  # fmt: skip
def test_lines_of_older_builds_report_their_events(text, event):
    assert read_event(Entry("", 0, 1, text)) == (None if event is None else {"slot": 0, "task": 1, **event})


def test_a_verification_after_the_release_of_its_slot_is_no_event():
    assert read_event(Entry("D", 0, None, "accepted 2/2 draft tokens, new n_tokens = 89")) is None


def test_an_unknown_warning_or_error_becomes_an_event_with_its_text():
    assert read_event(Entry("W", 0, 1, "something new")) == {"ev": "warn", "slot": None, "task": None,
                                                             "text": "something new"}  # fmt: skip
    assert read_event(Entry("E", None, None, "worse"))["ev"] == "error"
    text = "failed to decode mtmd chunk, idx = 24, res = 1"
    assert read_event(Entry("E", 2, 7, text)) == {"ev": "error", "slot": 2, "task": 7, "text": text}
    assert read_event(Entry("I", None, None, "something new")) is None
    assert read_event(Entry("W", 0, 1, "n_past was set to 12")) is None


def test_tasks_are_numbered_where_there_are_several():
    def release(slot, task):
        return {"ev": "release", "slot": slot, "task": task}

    one = [release(0, 40), {"ev": "pc_begin", "slot": None, "task": None}]
    assert numbered(one, one_slot=True) == [{"ev": "release"}, {"ev": "pc_begin"}]
    assert numbered([release(1, 44), release(0, 40), release(1, 44)], one_slot=False) == [
        {"ev": "release", "slot": 1, "task": 0}, {"ev": "release", "slot": 0, "task": 1},
        {"ev": "release", "slot": 1, "task": 0},
    ]


def test_the_facts_of_a_start():
    said = [
        "print_info: n_swa                 = 32", "llama_context: n_ctx_seq             = 512",
        "llama_context: n_batch               = 64", "llama_context: n_ubatch              = 16",
        "llama_context: n_rs_seq              = 0",
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 512 cells",
        "llama_kv_cache_iswa: creating     SWA KV cache, size = 256 cells",
        "the context does not support partial sequence removal",
        "initializing, n_slots = 2, n_ctx_slot = 512, kv_unified = 'true'",
        "llama_context: n_batch               = 8",                       # the context of a draft
        "--cache-idle-slots requires --cache-ram, disabling",
    ]
    assert server_facts(said) == {
        "n_swa": 32, "n_ctx_seq": 512, "n_batch": 64, "n_ubatch": 16, "n_rs_seq": 0, "n_slots": 2, "n_ctx_slot": 512,
        "kv_unified": True, "seq_rm": "full_only", "kv_cells": {"non-SWA": 512, "SWA": 256},
        "notes": ["--cache-idle-slots requires --cache-ram, disabling"],
    }


def test_a_number_has_no_more_digits_than_any_number_of_a_log():
    text = " - removing obsolete cached prompt with length "
    assert match(text + "1" * LONGEST)[1] == {"n_tokens": float("1" * LONGEST)}
    assert match(text + "1" * (LONGEST + 1)) is None
