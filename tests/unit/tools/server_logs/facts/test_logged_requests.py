"""Values that each kind of line adds to a request, and values that it must not add."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.rebuild.assumed_lengths import assumed_lengths
from cachesim.tools.server_logs.rebuild.request_order import chain_requests

LAUNCH = "slot launch_slot_: id  {} | task {} | processing task, is_child = 0"
SLOT = "slot   operator(): id  0 | task 7 | {}"
NEW = "new prompt, n_ctx_slot = 2048, n_keep = 0, task.n_tokens = {}"
PROGRESS = "prompt processing progress, n_tokens = {}, batch.n_tokens = 64, progress = {}"
RELEASE = "stop processing: n_tokens = {}, truncated = {}"
TIME = "prompt eval time =       1.00 ms / {:>5} tokens"
MADE = "       eval time =       1.00 ms / {:>5} tokens"
IK_LAUNCH = "INFO [   launch_slot_with_task] slot is processing task | tid=1 id_slot=0 id_task=7"
IK_BATCH = "INFO [    batch_pending_prompt] kv cache rm [p0, end) | tid=1 id_slot=0 id_task=7 p0={}"
IK_RELEASE = "INFO [           release_slots] slot released | id_slot=0 id_task=7 n_cache_tokens=600 truncated=false"


def session(*lines, engine="llama_cpp"):
    return read_session(engine, grammars()[engine], lines)


def only(*lines):
    [one] = session(LAUNCH.format(0, 7), *(SLOT.format(line) for line in lines)).requests
    return one


def test_the_first_batch_gives_the_reused_tokens_of_a_request_that_begins_in_the_log():
    [one] = session(IK_LAUNCH, IK_BATCH.format(512), IK_BATCH.format(576), IK_RELEASE, engine="ik_llama").requests
    assert one.cache_n == 512


def test_a_batch_is_ignored_if_the_request_began_before_the_log():
    [one] = session(IK_BATCH.format(512), IK_RELEASE, engine="ik_llama").requests
    assert one.cache_n is None and not one.is_whole


@pytest.mark.parametrize("share, n_tokens", [("0.640000", 100), ("0.333333", None), ("0.000000", None),
                                             ("1.500000", None), ("-1", None), ("nan", None)])  # fmt: skip
def test_the_length_follows_from_the_printed_share_if_it_is_unique(share, n_tokens):
    done = 64 if share == "0.640000" else 1_000_000
    one = only(PROGRESS.format(done, share))
    assert one.n_tokens == n_tokens


def test_garbage_in_place_of_a_number_is_ignored():
    one = only(NEW.format(100), PROGRESS.format("x", "0.5"), TIME.format("-5"), RELEASE.format("x", 0))
    assert (one.n_tokens, one.prompt_n, one.end) == (100, None, None)


def test_lengths_reused_and_evaluated_tokens_follow_from_each_other():
    one = only(NEW.format(100), TIME.format(30), MADE.format(5), RELEASE.format(104, 0))
    assert (one.n_tokens, one.prompt_n, one.cache_n, one.predicted_n, one.end) == (100, 30, 70, 5, 104)
    one = only(TIME.format(30), MADE.format(5), RELEASE.format(104, 0))
    assert (one.n_tokens, one.cache_n) == (100, 70)          # the last generated token is not in the slot
    assert only(TIME.format(30), RELEASE.format(104, 0)).n_tokens is None


def test_tokens_discarded_by_a_context_shift_count_as_prompt():
    shift = "slot context shift, n_keep = 0, n_left = 99, n_discard = 40"
    one = only(shift, shift, TIME.format(100), MADE.format(5), RELEASE.format(24, 1))
    assert (one.shifts, one.truncated, one.n_tokens) == (((0, 40), (0, 40)), True, 100)
    cut = only(TIME.format(100), MADE.format(5), RELEASE.format(24, 1))
    assert cut.truncated and cut.n_tokens != 20


def test_a_prompt_that_is_too_long_is_refused_and_leaves_its_slot():
    long = SLOT.format("request (9000 tokens) exceeds the available context size (2048 tokens), try increasing it")
    first, second = session(LAUNCH.format(0, 7), long, LAUNCH.format(0, 8)).requests
    assert (first.is_refused, first.n_tokens, second.is_refused, second.task) == (True, 9000, False, 8)


def test_restored_checkpoints_and_full_evaluations_give_the_reused_tokens():
    one = only("restored context checkpoint (pos_min = 63, pos_max = 63, n_tokens = 64, n_past = 64, size = 1.0 MiB)")
    assert (one.restored, one.cache_n) == (64, None)                       # the prompt may end there
    one = only(NEW.format(100), "restored context checkpoint (pos_min = 63, pos_max = 63, n_tokens = 64, n_past = 64, "
               "size = 1.0 MiB)")  # fmt: skip
    assert (one.cache_n, one.prompt_n) == (64, 36)
    one = only("restored context checkpoint (pos_min = 63, pos_max = 63, n_tokens = 64, n_past = 64, size = 1.0 MiB)",
               "forcing full prompt re-processing due to lack of cache data")  # fmt: skip
    assert one.full and one.cache_n == 0


def test_the_first_value_of_a_server_fact_is_kept():
    second = SLOT.format(NEW.format(8).replace("2048", "64")).replace("task 7", "task 8")
    found = session(LAUNCH.format(0, 7), SLOT.format(NEW.format(9)), second)
    assert found.facts["n_ctx_slot"] == 2048 and found.requests[0].n_tokens == 9
    assert (found.lines, found.recognised, found.kinds) == (3, 3, {"launch": 1, "new_prompt": 2})


def test_a_prompt_with_only_evaluated_tokens_is_assumed_to_extend_the_longest_prompt_before_it():
    stamp = "2026-11-21 13:50:16,140 - INFO - {}"
    lines = [stamp.format(text) for text in (
        "Prompt Cache: 3 sequences, 0.00 GB", "Prompt processing progress: 5/5", "Prompt Cache: 4 sequences, 0.00 GB",
        "Prompt processing progress: 9/9")]  # fmt: skip
    found = session(*lines, engine="mlx_lm").requests
    assert [(one.prompt_n, one.n_tokens) for one in found] == [(5, None), (9, None)]
    assumed = assumed_lengths(chain_requests(found))
    assert [[length.n_tokens for length in lengths] for lengths in assumed] == [[5], [14]]


def test_a_request_without_a_length_has_none_that_the_log_bounds():
    """The log begins while two slots are active: for the first request it contains only the timings of the answer."""
    made, evaluated = (f"slot print_timing: id  {slot} | task {slot + 5} | {text}"
                       for slot, text in enumerate((MADE.format(5), TIME.format(30))))  # fmt: skip
    found = session(made, evaluated).requests
    assert [(one.n_tokens, one.prompt_n, one.predicted_n) for one in found] == [(None, None, 5), (None, 30, None)]
    assert not any(length.is_bounded for lengths in assumed_lengths(chain_requests(found)) for length in lengths)


@pytest.mark.parametrize(("chosen", "is_given"), [("id", True), ("lcp", False), ("lru", False), ("", False)])
def test_a_request_names_its_slot_if_the_slot_was_chosen_by_its_id(chosen, is_given):
    assert LoggedRequest(chosen=chosen).is_slot_given is is_given
