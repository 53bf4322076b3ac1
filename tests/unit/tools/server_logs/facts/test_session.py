"""Requests of a log whose lines are in the order in which real servers print them."""

from __future__ import annotations

import pytest

from cachesim.base.limits import lift
from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.facts import session
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.request_numbers import DerivedNumbers
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

SLOT = "0.00.001.000 I slot get_availabl: id {:>2} | task -1 | {}"
LAUNCH = "0.00.002.000 I slot launch_slot_: id {:>2} | task {} | processing task, is_child = 0"


def requests(*lines):
    return read_session("llama_cpp", grammars()["llama_cpp"], lines).requests


def test_a_slot_selected_by_id_keeps_its_selection_and_gets_the_similarity():
    """b11549 prints `selected slot by id` and still checks the similarity of that slot afterwards."""
    [one] = requests(
        SLOT.format(1, "selected slot by id (1)"), SLOT.format(1, " - checking sim = 0.976 (82/84) > 0.500"),
        LAUNCH.format(1, 7),
    )  # fmt: skip
    assert (one.slot, one.chosen, one.lcp) == (1, "id", 82)


def test_the_similarity_of_a_slot_that_was_not_selected_is_dropped():
    _, two = requests(
        SLOT.format(0, " - checking sim = 0.976 (82/84) > 0.500"),
        SLOT.format(1, " - checking sim = 0.5 (42/84) > 0.5"),
        SLOT.format(0, "selected slot by LCP similarity, f_sim_best = 0.976 (> 0.500 thold), f_keep = 1.000"),
        LAUNCH.format(0, 7), SLOT.format(1, "selected slot by id (1)"), SLOT.format(1, " - skipping, slot is empty"),
        LAUNCH.format(1, 9),
    )  # fmt: skip
    assert (two.slot, two.chosen, two.lcp) == (1, "id", 0)


def test_implausible_evaluated_tokens_do_not_give_reused_tokens():
    """b11063 with drafts, two active requests: 525 of 495 tokens are printed (and returned over HTTP)."""
    end = "0.00.004.000 I slot      release: id  0 | task 7 | stop processing: n_tokens = 495, truncated = 0"
    for evaluated, reused in ((485, 10), (495, 0), (525, None)):
        timings = (
            f"0.00.003.000 I slot print_timing: id  0 | task 7 | {what} time =       1.00 ms / {count:>5} tokens"
            for what, count in (("prompt eval", evaluated), ("       eval", 1))
        )
        [one] = requests(LAUNCH.format(0, 7), *timings, end)
        length = None if reused is None else 495
        assert (one.n_tokens, one.prompt_n, one.cache_n) == (length, evaluated, reused)


def test_a_checkpoint_after_the_end_of_a_request_belongs_to_it():
    """ik_llama.cpp creates a checkpoint when the answer is complete, and its two output streams may interleave."""
    lines = [
        "INFO [   launch_slot_with_task] slot is processing task | tid=1 id_slot=0 id_task=7",
        "INFO [           release_slots] slot released | tid=1 id_slot=0 id_task=7 n_cache_tokens=40 truncated=false",
        "slot create_check: id  0 | task 7 | created context checkpoint 1 of 8 (pos_min = 39, pos_max = 39, "
        "n_tokens = 40, size = 0.206 MiB, took 1.00 ms)",
        "slot apply_checkp: id  0 | task 7 | forcing full prompt re-processing due to lack of cache data",
    ]
    [one] = read_session("ik_llama", grammars()["ik_llama"], lines).requests
    assert one.created == (40,) and one.full and one.end == 40


def test_moved_chunks_are_stored_with_the_prefix_before_them():
    head = "0.00.003.000 I slot   operator(): id  0 | task 7 | "
    line = head + "reusing chunk with size {}, shifting KV cache [{}, {}) -> [{}, {})"
    [one] = requests(LAUNCH.format(0, 7), line.format(90, 40, 130, 20, 110), line.format(8, 144, 152, 110, 118))
    assert one.chunks == ((40, 130), (144, 152)) and one.chunk_start == 20


HEAD = 'tid="1" timestamp=2'
IK = {
    "launch": f"INFO [   launch_slot_with_task] slot is processing task | {HEAD} id_slot=0 id_task={{}}",
    "prefix": "======== Cache: cache_size = {}, n_past =  {}, n_past_prompt = {}",
    "batch": f"INFO [    batch_pending_prompt] kv cache rm [p0, end) | {HEAD} id_slot=0 id_task={{}} p0={{}}",
    "release": f"INFO [           release_slots] slot released | {HEAD} id_slot=0 id_task={{}} n_cache_tokens={{}}",
    "timing": "slot print_timing: id  0 | task {} | ",
    "prompt": "prompt eval time =       1.00 ms /    {} tokens (    0.01 ms per token, 25482.63 tokens per second)",
    "eval": "       eval time =       1.00 ms /     {} tokens (    0.01 ms per token,   630.32 tokens per second)",
    "total": "      total time =       1.00 ms /   {} tokens",
    "full": "slot apply_checkp: id  0 | task {} | forcing full prompt re-processing due to lack of cache data (likely)",
}


def test_lines_of_another_thread_belong_to_the_task_that_they_name():
    """ik_llama.cpp 8337e4c prints timings and checkpoints of a request after the first lines of the next request."""
    lines = [
        IK["launch"].format(1), IK["prefix"].format(0, 0, 0), IK["batch"].format(1, 0), IK["release"].format(1, 104),
        IK["launch"].format(4), IK["prefix"].format(104, 100, 100), IK["timing"].format(1), IK["batch"].format(4, 0),
        IK["prompt"].format(100), IK["eval"].format(5), IK["full"].format(1), IK["timing"].format(4),
        IK["prompt"].format(110), IK["eval"].format(2), IK["total"].format(112), IK["release"].format(4, 111),
    ]  # fmt: skip
    one, two = read_session("ik_llama", grammars()["ik_llama"], lines).requests
    assert (one.task, one.n_tokens, one.prompt_n, one.predicted_n, one.full) == (1, 100, 100, 5, True)
    assert (two.task, two.n_tokens, two.prompt_n, two.predicted_n, two.full) == (4, 110, 110, 2, False)


def test_a_refused_prompt_is_that_of_the_task_that_the_line_names():
    """b11549 prints the refusal without a slot, before the release of the slot."""
    refusal = "0.00.003.000 E srv    send_error: task id = 7, error: request (7219 tokens) exceeds the available " \
              "context size (2048 tokens), try increasing it"  # fmt: skip
    end = "0.00.004.000 I slot      release: id  0 | task 7 | stop processing: n_tokens = 179, truncated = 0"
    [one] = requests(LAUNCH.format(0, 7), refusal, end, "0.00.005.000 W srv          stop: cancel task, id_task = 7")
    assert (one.slot, one.task, one.is_refused, one.n_tokens, one.end) == (0, 7, True, 7219, 179)


@pytest.mark.parametrize(("search", "shared"), [
    (["0.00.001.000 I srv          load:  - looking for better prompt, base f_keep = -1.000, f_sim = 0.000"], 0),
    ([], None),
])  # fmt: skip
def test_an_empty_slot_holds_nothing_of_a_prompt_unless_the_prompt_cache_fills_it(search, shared):
    """A log without the lines of the prompt cache does not show what was loaded into the slot."""
    [one] = requests(
        SLOT.format(0, " - skipping, slot is empty"), SLOT.format(0, "selected slot by LRU, t_last = 55"), *search,
        LAUNCH.format(0, 7),
    )  # fmt: skip
    assert (one.lcp, one.held) == (shared, shared)


def test_the_prompt_that_is_saved_before_a_slot_is_reused_is_what_the_slot_held():
    [one] = requests(
        SLOT.format(0, " - checking sim = 0.020 (3/150) > 0.100"), SLOT.format(0, "selected slot by LRU, t_last = 55"),
        "0.00.001.000 I srv   prompt_save:  - saving prompt with length 179, total state size = 0.090 MiB (draft: "
        "0.000 MiB)", LAUNCH.format(0, 7),
    )  # fmt: skip
    assert (one.lcp, one.held) == (3, 179)


def test_the_numbers_of_access_lines_are_bounded(monkeypatch):
    monkeypatch.setattr(session, "UNKNOWN", 2)
    path = "srv  log_server_r: done request: POST {} 127.0.0.1 200"
    lines = [path.format("/infill"), "a", path.format("/completion"), path.format("/infill"), path.format("/infill")]
    read = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    assert read.tasks == {"infill": [1, 4], "completion": [3]}


def test_unknown_lines_are_short_and_bounded(monkeypatch):
    monkeypatch.setattr(session, "UNKNOWN", 2)
    lines = ["x" * 199, "x" * 201, "0.00.001.000 W srv  f: alarm", "0.00.001.000 E srv  f: " + "y" * 300,
             "0.00.001.000 E srv  f: late"]  # fmt: skip
    read = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    assert read.unknown == [(1, "x" * 199), (2, "x" * 200)] and read.alarms == [(3, "alarm"), (4, "y" * 200)]


def test_statements_and_requests_beyond_their_limits_are_counted():
    lift({"log statements": 3})
    lines = [SLOT.format(0, "selected slot by LRU, t_last = 55"), *(LAUNCH.format(slot, 7 + slot) for slot in range(4))]
    read = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    assert (len(read.read_lines), len(read.requests), read.beyond, read.recognised) == (3, 2, 2, 5)
    lift({"log statements": 3, "log-requests": 1})
    read = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    assert ([one.task for one in read.requests], len(read.derived), read.beyond) == ([7], 2, 3)


def test_a_session_knows_the_builds_that_print_its_lines():
    old = "slot update_slots: id  0 | task 7 | n_past = 40, slot.prompt.tokens.size() = 60, seq_id = 0, " \
          "pos_min = 59, n_swa = 1"  # fmt: skip
    older = "slot update_slots: id  0 | task 7 | kv cache rm [p0, end)"
    new = "slot update_slots: id  0 | task 7 | superseding context checkpoint at n_tokens = 9"
    for lines, since, until in (([old], 0, 9315), ([older, old], 0, 3600), ([old, older], 0, 3600), ([new], 11063, 0),
                                ([new, old], 11063, 9315), ([LAUNCH.format(0, 7)], 0, 0)):  # fmt: skip
        read = read_session("llama_cpp", grammars()["llama_cpp"], lines)
        assert (read.since, read.until) == (since, until)


def test_the_first_date_of_a_session_is_kept():
    lines = [f"2026-0{month}-07T10:54:35+01:00 host server[14]: {LAUNCH.format(0, month)}" for month in (2, 3)]
    assert read_session("llama_cpp", grammars()["llama_cpp"], lines).date == "2026-02-07"


def test_lines_that_are_left_over_from_an_earlier_request_are_none():
    left = "slot update_slots: id  0 | task {} | erasing old context checkpoint (pos_min = 1, pos_max = 9, " \
           "n_tokens = 10, size = 1.0 MiB)"  # fmt: skip
    assert requests(left.format(5)) == []
    assert [one.task for one in requests(left.format(5), LAUNCH.format(0, 7), left.format(7))] == [7]


def test_where_lines_name_their_slot_those_that_no_request_takes_are_none():
    unnamed = "new prompt, n_ctx_slot = 2048, n_keep = 0, task.n_tokens = 484"
    assert [one.n_tokens for one in requests(unnamed)] == [484]
    assert [one.task for one in requests(unnamed, LAUNCH.format(0, 7), LAUNCH.format(1, 8))] == [7, 8]


@pytest.mark.parametrize(("kinds", "is_one"), [
    (("launch",), True), (("ckpt_evict",), False), (("ckpt_evict", "launch"), True), (("drafts", "cancel"), False),
    (("cancel", "release"), True), ((), False),
])  # fmt: skip
def test_lines_are_a_request_unless_all_of_them_may_belong_to_an_earlier_one(kinds, is_one):
    lines = [ReadLine(at, ParsedLine(Line(kind, "x"), 0, 7, {}), "x") for at, kind in enumerate(kinds, 1)]
    assert session.is_request(DerivedNumbers(TiedRequest(0, 7, lines), {})) is is_one
