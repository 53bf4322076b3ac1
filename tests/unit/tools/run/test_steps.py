"""What `run --steps` states about schedulers: tokens, limits, waiting requests, preemptions."""

import json

import pytest

from cachesim.cli.main import main

THREE = "A30>20/B20>20{together}/C30>3{together}"


def steps_of(capsys, line, *words):
    code = main(["run", line, "--model", "A", "--provenance", "--steps", "--json", *words])
    assert code == 0
    return json.loads(capsys.readouterr().out)["runs"][0]["steps"]


def limits(step):
    """Return the limits of a step: request, kind, option."""
    cut = [(run["request"], limit["limit_kind"], limit["option"])
           for run in step["runs_in_step"] for limit in run["cut_by"]]  # fmt: skip
    return cut + [(wait["request"], wait["limit_kind"], wait["option"]) for wait in step["waits_in_step"]]


@pytest.mark.parametrize(("words", "wanted"), [
    (("-p", "vllm", "--max-num-batched-tokens", "32"),
     [(1, "tokens", "max_num_batched_tokens"), (2, "tokens", "max_num_batched_tokens")]),
    (("-p", "vllm", "--max-num-seqs", "2"), [(2, "requests", "max_num_seqs")]),
    (("-p", "vllm", "--long-prefill-token-threshold", "16"),
     [(number, "prompt", "long_prefill_token_threshold") for number in range(3)]),
    (("-p", "vllm", "--set", "num_gpu_blocks=6"), [(2, "whole prompt", "scheduler_reserve_full_isl")]),
    (("-p", "vllm", "--set", "num_gpu_blocks=8", "--watermark", "0.3"), [(2, "watermark", "watermark")]),
    (("-p", "sglang", "--chunked-prefill-size", "32"),
     [(1, "tokens", "chunked_prefill_size"), (2, "tokens", "chunked_prefill_size")]),
    (("-p", "sglang", "--max-running-requests", "2"), [(2, "requests", "max_running_requests")]),
    (("-p", "sglang", "--max-total-tokens", "70"),
     [(1, "memory", "max_total_tokens"), (2, "order", "schedule_policy")]),
], ids=lambda one: one[2].lstrip("-") if one[:1] == ("-p",) else "")  # fmt: skip
def test_the_first_step_names_the_option_that_limits_it(words, wanted, capsys):
    assert limits(steps_of(capsys, THREE, *words)["scheduled"][0]) == wanted


IMAGES = "S3.I4x4.J4x4.A30>3"
"""Its first image ends at token 19; the second one does not fit beside it into an encoder of 28 tokens."""


@pytest.mark.parametrize(("release", "model", "line", "kinds"), [
    ("0.27.1", "GGGA", "A28>4", ["state end"]), ("0.33.0", "GGGA", "A28>4", ["state end"]),
    ("0.27.1", "A", IMAGES, ["tokens", "image"]), ("0.33.0", "A", IMAGES, ["tokens", "image"]),
    ("0.27.1", "GGGA", IMAGES, ["tokens", "state end", "image"]),    # the image first, then the state at token 16
    ("0.33.0", "GGGA", IMAGES, ["tokens", "state end"]),             # the other way round
])  # fmt: skip
def test_a_chunk_names_what_cuts_it_whichever_limit_a_release_asks_first(release, model, line, kinds, capsys):
    words = ("--set", "multimodal=true", "--set", "enable_prefix_caching=true", "--set", "max_tokens_per_mm_item=16",
             "--set", "num_gpu_blocks=40", "--set", "max_num_batched_tokens=28")  # fmt: skip
    main(["run", line, "-p", f"vllm@{release}", "--model", model, "--provenance", "--steps", "--json", *words])
    first = json.loads(capsys.readouterr().out)["runs"][0]["steps"]["scheduled"][0]
    assert [kind for _, kind, _ in limits(first)] == kinds


def test_a_preempted_request_names_the_one_it_makes_room_for(capsys):
    schedule = steps_of(capsys, THREE, "-p", "vllm", "--set", "num_gpu_blocks=6", "--max-num-seqs", "2")
    one, = [preempted for step in schedule["scheduled"] for preempted in step["preempted_in_step"]]
    assert (schedule["preemption_word"], one["request"], one["needed"], one["free"], one["behind"]) == (
        "preempted", 1, 1, 0, [0])  # fmt: skip
    assert [request["preemptions"] for request in schedule["by_request"]] == [0, 1, 0]


def test_equal_steps_share_a_row_and_other_engines_say_that_they_have_none(capsys, tmp_path):
    page = tmp_path / "page.html"
    assert main(["run", THREE, "--model", "A", "-p", "vllm", "-p", "llama_cpp", "--steps", "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "\n4-20 " in out and max(map(len, out.splitlines())) <= 80
    assert out.count("does not schedule steps") == page.read_text().count("does not schedule steps") == 1
    assert '<title>steps 2 to 20: 1 answer</title>' in page.read_text()


def test_steps_are_refused_where_a_file_is_completed(capsys):
    assert main(["run", "scenarios/vllm", "--complete", "--steps"]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
