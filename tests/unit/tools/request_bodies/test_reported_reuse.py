"""Reuse that replies state, beside the reuse that is simulated.

A file of ``captures`` has the requests and replies of a real llama-server b11549 with a tiny model. Those in
``captures/mlx_lm`` are of a real mlx_lm.server 0.32.2, those in ``captures/sglang`` and ``captures/vllm`` have the
counts of the released schedulers of SGLang 0.5.23 and vLLM 0.33.0, driven as in ``tests/peers``. Something was planted
between the requests of most; the planted flag is not among the options with which a capture is simulated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, NamedTuple

import pytest

from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.request_bodies.reported_counts import NO_COUNTS, ReportedCounts, counts_of_answer
from cachesim.tools.request_bodies.reported_reuse import compare

FOLDER = Path(__file__).with_name("captures")


class Capture(NamedTuple):
    """A capture, the server that its user describes, and what is reported. ``first``: the first request whose reply
    states another reuse, None = all are equal; ``possible``: part of an explanation."""

    name: str
    model: str
    server: Mapping[str, Any]
    first: int | None = None
    possible: str = ""
    profile: str = "llama_cpp@b11549"


MLX = "mlx_lm@0.32.2"
SGLANG = "sglang@0.5.23"
VLLM = "vllm@0.33.0"
ONE = {"parallel": 1, "ctx_size": 2048}
WITHOUT_CACHE = {**ONE, "cache_ram": 0}
ALL_COUNTS = "the simulation then has every count of the replies"
GONE = "nothing was left of the earlier requests"
CAPTURES = (
    Capture("nothing", "GGGA", ONE),
    Capture("two_slots", "AAAA", {**WITHOUT_CACHE, "parallel": 2}),
    Capture("restart", "GGGA", ONE, 2, GONE),                             # the server was started again
    Capture("other_client", "GGGA", WITHOUT_CACHE, 2, GONE),              # another client used the slot
    Capture("erased_slot", "AAAA", ONE, 2, GONE),
    Capture("older_state", "AAAA", WITHOUT_CACHE, 2, GONE),               # another client used the slot
    Capture("no_reuse", "AAAA", ONE, 1, f"--set cache_prompt=false: {ALL_COUNTS}"),
    Capture("window", "W8A", ONE, 2, f"--set ctx_checkpoints=0: {ALL_COUNTS}"),
    Capture("same_text_before", "AAAA", ONE, 0, "another client sent the same text before"),
    Capture("mlx_lm/nothing", "AA", {}, profile=MLX),                     # answers come back in more tokens
    Capture("mlx_lm/hybrid", "GGGA", {}, profile=MLX),
    Capture("mlx_lm/restart", "AA", {}, 2, GONE, MLX),
    Capture("mlx_lm/cache_size", "AA", {}, 2, f"--set prompt_cache_size=1: {ALL_COUNTS}", MLX),
    Capture("sglang/nothing", "A", {}, profile=SGLANG),
    Capture("sglang/page_size", "A", {}, 1, f"--set page_size=16: {ALL_COUNTS}", SGLANG),
    Capture("sglang/other_client", "A", {}, 2, GONE, SGLANG),
    Capture("vllm/block_size", "A", {}, 2, f"--set block_size=32: {ALL_COUNTS}", VLLM),
    Capture("vllm/no_caching", "A", {}, 1, f"--set enable_prefix_caching=false: {ALL_COUNTS}", VLLM),
)


def imported(exchanges, folder, model="GGGA"):
    """Return the report data of exchanges."""
    file = folder / "bodies.jsonl"
    file.write_text("\n".join(map(json.dumps, exchanges)), "utf-8")
    return import_bodies([file], ImportOptions(model=model))[0]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name)
def test_the_first_difference_from_a_real_server_is_named_with_what_was_planted(capture):
    file = FOLDER / f"{capture.name}.jsonl"
    tokenizer = file.with_name("tokenizer.json")
    if tokenizer.exists():
        pytest.importorskip("tokenizers", reason="the extra `import` is not installed")
    options = ImportOptions(profile=capture.profile, model=capture.model, server=capture.server,
                            tokenizer=str(tokenizer) if tokenizer.exists() else "")  # fmt: skip
    data, _ = import_bodies([file], options)
    assert data["reported"]["first_different"] == capture.first
    assert any(capture.possible in says for says in data["reported"]["possible"]) or capture.first is None
    assert all(row["simulated"] == row["stated"] for row in data["requests"][: capture.first])


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
    ({"response": "x", "prompt_eval_count": 4, "eval_count": 2}, ReportedCounts(generated=2)),
    ('data: {"choices":[]}\n\ndata: {"choices":[],"usage":{"prompt_tokens":10}}\n\ndata: [DONE]\n', ReportedCounts(10)),
    ({"status": 200, "content": {"text": '{"usage": {"prompt_tokens": 10}}'}}, ReportedCounts(10)),    # HAR
    ("not JSON", NO_COUNTS), ({"usage": {"prompt_tokens": -1}}, NO_COUNTS), ({"usage": [1]}, NO_COUNTS),
    ([1, None, {"usage": {"prompt_tokens": 10}}], ReportedCounts(10)), (None, NO_COUNTS),
])  # fmt: skip
def test_a_reply_states_the_prompt_and_what_was_reused_in_every_form(reply, counts):
    assert counts_of_answer(reply) == counts


def chat(prompts, reused, generated=20):
    """Return exchanges of a conversation whose replies state these lengths of prompts, reused and generated tokens."""
    messages = [{"role": "system", "content": "rules " * 400}]
    exchanges = []
    for number, (prompt, cached) in enumerate(zip(prompts, reused, strict=True)):
        messages.append({"role": "user", "content": f"question {number} " * 30})
        reply = {"role": "assistant", "content": "answer " * 20}
        usage = {"prompt_tokens": prompt, "completion_tokens": generated,
                 "prompt_tokens_details": {"cached_tokens": cached}}  # fmt: skip
        exchanges.append({"request": {"messages": [*messages]}, "response": {"choices": [{"message": reply}],
                                                                            "usage": usage}})  # fmt: skip
        messages.append(reply)
    return exchanges


def test_prompts_have_the_lengths_of_the_replies_where_no_tokenizer_is_given(tmp_path):
    data = imported(chat([500, 600, 700], [0, 519, 619]), tmp_path)
    assert [row["tokens"] for row in data["requests"]] == [500, 600, 700]
    assert [row["simulated"] for row in data["requests"]] == [0, 519, 619]
    assert data["reported"]["equal"] == 3 and "from 3 prompt lengths" in data["tokenizer"]


def test_a_reply_that_hid_its_reasoning_is_sent_back_as_far_as_its_text_shows(tmp_path):
    data = imported(chat([500, 800], [0, 500], generated=200), tmp_path, "AAAA")
    assert 500 < data["requests"][1]["simulated"] < 550


def test_replies_without_counts_are_not_compared(tmp_path):
    exchanges = [{"request": one["request"]} for one in chat([500, 600], [0, 0])]
    data = imported(exchanges, tmp_path)
    assert data["reported"] is None and {row["stated_is"] for row in data["requests"]} == {"undecided"}


def test_counts_that_are_whole_blocks_are_named(tmp_path):
    found = imported(chat([500, 600, 700, 800], [0, 64, 256, 320]), tmp_path)["reported"]
    assert any("multiples of 64" in says for says in found["possible"])


@pytest.mark.parametrize(("expected", "stated", "prompt", "is_exact", "verdict"), [
    (900, 900, 1000, True, "equal"), (900, 899, 1000, True, "different"), (900, 900, 1000, False, "equal"),
    (900, 850, 1000, False, "about equal"), (900, 849, 1000, False, "different"),        # a twentieth of the prompt
    (90, 74, 100, False, "about equal"), (90, 73, 100, False, "different"),               # 16 tokens
    (3, 0, 100, False, "different"), (0, 3, 100, False, "different"),
    (None, 3, 100, True, "undecided"), (3, None, 100, True, "undecided"),
])  # fmt: skip
def test_only_estimated_counts_may_be_about_equal(expected, stated, prompt, is_exact, verdict):
    assert compare(expected, stated, prompt, is_exact) == verdict
