"""Numbers of a request that follow from its lines."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.tools.server_logs.derivations import _empty_cache, _lower
from cachesim.tools.server_logs.found_numbers import FoundNumbers
from cachesim.tools.server_logs.log_reader import read_session
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.recognise import grammars

LAUNCH = "slot launch_slot_: id  0 | task 7 | processing task"
PROMPT = "slot update_slots: id  0 | task 7 | new prompt, n_ctx_slot = 128, n_keep = 0, n_prompt_tokens = {}"
TIMES = """slot print_timing: id  0 | task 7 |
prompt eval time =     900.00 ms /    74 tokens (    2.22 ms per token,   449.76 tokens per second)
       eval time =       9.00 ms /     1 tokens (   26.90 ms per token,    37.18 tokens per second)
      total time =     909.00 ms /    75 tokens"""


def numbers(*lines):
    """Return the numbers of the only request of these lines."""
    session = read_session("llama_cpp", grammars()["llama_cpp"], "\n".join(lines).splitlines())
    [request] = session.derived
    return {name: (one.low, one.high) for name, one in request.numbers.items()}, request.clashes


@pytest.mark.parametrize(("printed", "known"), [(127, (127, 127)), (128, None), (138, None)])
def test_a_prompt_without_room_in_its_slot_may_have_been_cut_off(printed, known):
    found, clashes = numbers(LAUNCH, PROMPT.format(printed))
    assert (found.get("n_tokens"), clashes) == (known, ())


def test_a_prompt_that_was_cut_off_contradicts_nothing():
    found, clashes = numbers(LAUNCH, PROMPT.format(138), TIMES)
    assert (found["prompt_n"], clashes) == ((74, 74), ())


def test_a_refused_prompt_has_its_length():
    size = "request (138 tokens) exceeds the available context size (128 tokens)"
    refused = f"srv    send_error: task id = 7, error: {size}"
    found, _ = numbers(LAUNCH, PROMPT.format(138), refused)
    assert found["n_tokens"] == (138, 138)


def test_the_first_task_of_a_server_reuses_nothing_also_without_its_launch():
    first = TIMES.replace("task 7", "task 0")
    assert (numbers(first)[0]["cache_n"], numbers(first)[0]["n_tokens"]) == ((0, 0), (74, 74))
    assert "cache_n" not in numbers(TIMES)[0]


def test_a_prompt_that_the_excerpt_does_not_end_is_not_known_to_be_evaluated():
    batch = "slot update_slots: id  0 | task 0 | n_tokens = 6144, memory_seq_rm [6144, end)"
    assert not {"cache_n", "prompt_n"} & {*numbers(batch)[0]}


@pytest.mark.parametrize(("n_past", "rest", "counts"), [
    (40, 9, (49, 40, 9)), (40, 1, (41, 40, 1)), (40, 0, (40, 39, 1)), (0, 9, (9, 0, 9)),
])  # fmt: skip
def test_at_least_the_last_token_of_a_prompt_is_evaluated(n_past, rest, counts):
    found, _ = numbers("slot 0 is processing [task id: 7]",
                       f"slot 0 : in cache: {n_past} tokens | to process: {rest} tokens")  # fmt: skip
    assert [found[name] for name in ("n_tokens", "cache_n", "prompt_n")] == [(count, count) for count in counts]


@pytest.mark.parametrize(("entries", "known"), [(0, (0, 0)), (1, None)])
def test_nothing_is_reused_from_an_empty_cache(entries, known):
    line = SimpleNamespace(number=3, number_of=lambda name: entries)
    request = SimpleNamespace(of=lambda *kinds: [line] if "fetch" in kinds else [])
    found = FoundNumbers()
    _empty_cache(request, found)
    number = found.get("cache_n")
    assert (number and (number.low, number.high)) == known


@pytest.mark.parametrize(("low", "slack", "found"), [(9, 0, 9), (9, 2, 7), (2, 2, 0), (1, 2, 0), (0, 1, 0)])
def test_a_count_may_be_lower_by_the_slack_but_not_below_nothing(low, slack, found):
    assert _lower(ProvenRange(low, 12), slack) == ProvenRange(found, 12)


def test_an_unknown_count_stays_unknown():
    assert _lower(None, 2) is None
