"""Reuse that replies state, beside the reuse that is simulated.

``captures.jsonl``: requests and replies of a real llama-server b11549 with tiny models, each capture with what was
planted between them. ``server`` is what a user would say about the server: the planted flag is not in it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.request_bodies.reported_counts import NO_COUNTS, ReportedCounts, counts_of_answer

CAPTURES = [json.loads(line) for line in Path(__file__).with_name("captures.jsonl").read_text("utf-8").splitlines()]


def imported(exchanges, folder, **options):
    """Return the report data of exchanges."""
    file = folder / "bodies.jsonl"
    file.write_text("\n".join(map(json.dumps, exchanges)), "utf-8")
    return import_bodies([file], ImportOptions(**options))[0]


def compared(capture, folder):
    """Return the comparison of a capture with the simulation of the server that its user describes."""
    options = {"model": capture["model"], "server": capture["server"], "profile": "llama_cpp@b11549"}
    return imported(capture["exchanges"], folder, **options)


SAYS = {
    "nothing": (None, ""),
    "two slots": (None, ""),
    "restart": (2, "nothing was left"),
    "other client": (2, "nothing was left"),
    "erased slot": (2, "nothing was left"),
    "no reuse": (1, "--set cache_prompt=false: the simulation then has every count of the replies"),
    "same text before": (0, "another client sent the same text before"),
    "older state": (2, "nothing was left"),
    "window": (2, "--set ctx_checkpoints=0: the simulation then has every count of the replies"),
}


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture["capture"])
def test_the_first_difference_from_a_real_server_is_named_with_what_was_planted(capture, tmp_path):
    data = compared(capture, tmp_path)
    first, possible = SAYS[capture["capture"]]
    assert data["reported"]["first_different"] == first
    assert any(possible in says for says in data["reported"]["possible"]) or first is None
    same = [row["simulated"] == row["stated"] for row in data["requests"][:first]]
    assert all(same)


@pytest.mark.parametrize(("reply", "counts"), [
    ({"timings": {"prompt_n": 4, "cache_n": 6, "predicted_n": 2}}, ReportedCounts(10, 6, 4, 2)),
    ({"timings": {"prompt_n": 4}}, ReportedCounts(evaluated=4)),           # a build without cache_n
    ({"usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 6}}},
     ReportedCounts(10, 6, 4, 2)),
    ({"usage": {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": None}},
     ReportedCounts(10, generated=2)),
    ({"usage": {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 6}}},
     ReportedCounts(10, 6, 4, 2)),
    ({"usage": {"input_tokens": 4, "output_tokens": 2, "cache_read_input_tokens": 6}}, ReportedCounts(10, 6, 4, 2)),
    ({"usage": {"input_tokens": 1, "cache_read_input_tokens": 6, "cache_creation_input_tokens": 3}},
     ReportedCounts(10, 6, 4)),
    ({"text": "x", "meta_info": {"prompt_tokens": 10, "cached_tokens": 6, "completion_tokens": 2}},
     ReportedCounts(10, 6, 4, 2)),
    ({"response": "x", "prompt_eval_count": 4, "eval_count": 2}, ReportedCounts(generated=2, least_prompt=4)),
    ('data: {"choices":[]}\n\ndata: {"choices":[],"usage":{"prompt_tokens":10}}\n\ndata: [DONE]\n', ReportedCounts(10)),
    ({"status": 200, "content": {"text": '{"usage": {"prompt_tokens": 10}}'}}, ReportedCounts(10)),    # HAR
    ("not JSON", NO_COUNTS), ({"usage": {"prompt_tokens": -1}}, NO_COUNTS), ({"usage": [1]}, NO_COUNTS),
    ([1, None, {"usage": {"prompt_tokens": 10}}], ReportedCounts(10)), (None, NO_COUNTS),
])  # fmt: skip
def test_a_reply_states_the_prompt_and_what_was_reused_in_every_form(reply, counts):
    assert counts_of_answer(reply) == counts


def chat(prompts, reused):
    """Return exchanges of a conversation whose replies state these lengths of prompts and reused tokens."""
    messages = [{"role": "system", "content": "rules " * 400}]
    exchanges = []
    for number, (prompt, cached) in enumerate(zip(prompts, reused, strict=True)):
        messages.append({"role": "user", "content": f"question {number} " * 30})
        reply = {"role": "assistant", "content": "answer " * 20}
        usage = {"prompt_tokens": prompt, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": cached}}
        exchanges.append({"request": {"messages": [*messages]}, "response": {"choices": [{"message": reply}],
                                                                            "usage": usage}})  # fmt: skip
        messages.append(reply)
    return exchanges


def test_prompts_have_the_lengths_of_the_replies_where_no_tokenizer_is_given(tmp_path):
    data = imported(chat([500, 600, 700], [0, 519, 619]), tmp_path)
    assert [row["tokens"] for row in data["requests"]] == [500, 600, 700]
    assert [row["simulated"] for row in data["requests"]] == [0, 519, 619]
    assert data["reported"]["equal"] == 3 and "from 3 prompt lengths" in data["tokenizer"]


def test_replies_without_counts_are_not_compared(tmp_path):
    exchanges = [{"request": one["request"]} for one in chat([500, 600], [0, 0])]
    data = imported(exchanges, tmp_path)
    assert data["reported"] is None and {row["stated_is"] for row in data["requests"]} == {"undecided"}


def test_counts_that_are_whole_blocks_are_named(tmp_path):
    found = imported(chat([500, 600, 700, 800], [0, 64, 256, 320]), tmp_path)["reported"]
    assert any("multiples of 64" in says for says in found["possible"])
