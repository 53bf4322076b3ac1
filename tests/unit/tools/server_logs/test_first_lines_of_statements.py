"""First lines of a report from statements that are given: which sentence follows from which numbers."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.first_lines import facts_first, first_lines, following, only_if, requests_of


def statement(what="request", task=7, line=1, kind="follows", slot=0, run=0, says="", **numbers):
    return {"kind": kind, "what": what, "lines": [line], "slot": slot, "task": task, "run": run, "numbers": numbers,
            "says": says}  # fmt: skip


def facts(*statements):
    return {one.what: one.says for one in facts_first(statements)}


def timed(task, ms, **numbers):
    return [statement("prompt_time", task, 3, "read", prompt_ms=ms), statement(task=task, **numbers)]


@pytest.mark.parametrize(("requests", "says"), [
    ([*timed(7, 1500, n_tokens=5), *timed(8, 500, n_tokens=5)], "The log prints 2.0 s for the prompts of 2 requests."),
    ([*timed(7, 1500, lost=9, prompt_n=30), *timed(8, 500, n_tokens=5)],
     "That request evaluated 30 tokens in 1.5 s of the 2.0 s that the log prints for prompts."),
    ([*timed(7, 1500, lost=9, prompt_n=30), *timed(8, 500, lost=9, prompt_n=1000)],
     "Those requests evaluated 1,030 tokens in 2.0 s of the 2.0 s that the log prints for prompts."),
    ([*timed(7, 1500, lost=9, prompt_n=[30, 31])],
     "That request took 1.5 s of the 1.5 s that the log prints for prompts."),
    ([*timed(7, 1500, lost=9), *timed(8, 500, lost=9, prompt_n=4)],
     "Those requests took 2.0 s of the 2.0 s that the log prints for prompts."),
    ([*timed(7, 49.5, n_tokens=5), *timed(8, 0.0, n_tokens=5)], "The log prints 0.0 s for the prompts of 2 requests."),
    ([*timed(7, 49.5, lost=9), *timed(8, 0.0, lost=9)],
     "Those requests took 0.0 s of the 0.0 s that the log prints for prompts."),
    ([*timed(7, 1500, lost=1, prompt_n=30)], "The log prints 1.5 s for the prompts of 1 request."),
])  # fmt: skip
def test_the_time_of_prompts(requests, says):
    assert facts(*requests)["time"] == says


def test_the_time_is_left_out_where_a_request_that_lost_tokens_has_none():
    assert "time" not in facts(*timed(7, 1500, n_tokens=5), statement(task=8, lost=9))
    assert "time" not in facts(statement(task=8, lost=9)) and facts() == {}
    assert facts(statement("ended", task=None, line=4, says="it fell")) == {"ended": "Line 4: it fell."}


@pytest.mark.parametrize(("numbers", "says"), [
    ({"lcp": 0, "held": 9}, "the prompt and the 9 tokens of its slot have no common beginning"),
    ({"lcp": 0}, "the prompt and its slot have no common beginning"),
    ({"lcp": 5, "n_tokens": 5, "held": 9}, "the slot held all 5 tokens of the prompt"),
    ({"lcp": 9, "n_tokens": 12, "held": 9}, "the prompt continues the 9 tokens of its slot"),
    ({"lcp": [7, 9], "n_tokens": 12, "held": [9, 10]},
     "the prompt agrees with the 9 to 10 tokens of its slot for 7 to 9 tokens"),
    ({"lcp": [7, 8], "n_tokens": 12, "held": [9, 10]},
     "the prompt differs from the 9 to 10 tokens of its slot after 7 to 8 tokens"),
    ({"lcp": 7, "n_tokens": 12, "held": 9}, "the prompt differs from the 9 tokens of its slot after 7 tokens"),
    ({"lcp": [7, None], "held": 9}, "the prompt differs from the 9 tokens of its slot after at least 7 tokens"),
    ({"lcp": 7}, "the prompt differs from its slot after 7 tokens"),
    ({"lcp": 5, "n_tokens": [5, 6], "held": 9}, "the prompt differs from the 9 tokens of its slot after 5 tokens"),
])  # fmt: skip
def test_where_a_prompt_parts_from_its_slot(numbers, says):
    assert facts(statement(lost=99, **numbers))["change"] == f"slot 0, task 7: {says}."


@pytest.mark.parametrize(("lcp", "prompt", "where"), [
    (19, 20, ", inside the previous prompt of 20"), (20, 20, ", inside the previous answer"),
    (25, 20, ", inside the previous answer"), ([15, 20], 20, ""), ([20, 22], [18, 20], ", inside the previous answer"),
    ([18, 22], [18, 20], ""), (17, [18, 20], ", inside the previous prompt of 18 to 20"), (18, [18, 20], ""),
    (25, [18, None], ""), ([15, None], 20, ""),
])  # fmt: skip
def test_the_difference_lies_in_the_prompt_or_the_answer_before(lcp, prompt, where):
    before = statement(task=5, n_tokens=prompt, end=40)
    assert facts(before, statement(lost=99, lcp=lcp, held=40))["change"].endswith(f" tokens{where}.")


@pytest.mark.parametrize("change", [
    {"slot": 1}, {"run": 1}, {"end": 41}, {"end": [41, None]}, {"end": [10, 39]},
])  # fmt: skip
def test_the_request_before_left_what_the_slot_held(change):
    before = {"slot": 0, "run": 0, "end": 40, **change}
    said = facts(statement(task=5, n_tokens=20, **before), statement(lost=99, lcp=5, held=40))["change"]
    assert said.endswith("after 5 tokens.")
    met = facts(statement(task=5, n_tokens=20, end=[30, 40]), statement(lost=99, lcp=5, held=[40, 50]))["change"]
    assert met.endswith("inside the previous prompt of 20.")


def test_the_request_before_is_the_last_one_of_the_slot():
    worst = statement(task=9, lost=99, lcp=25, held=40)
    first, second = statement(task=5, n_tokens=20, end=40), statement(task=6, n_tokens=30, end=40)
    assert facts(first, second, worst)["change"].endswith("inside the previous prompt of 30.")
    for numbers in ({"end": 60}, {}):
        last = statement(task=6, n_tokens=30, **numbers)
        assert facts(first, last, worst)["change"].endswith("after 25 tokens.")
    assert facts(statement(task=5, n_tokens=20), second, worst)["change"].endswith("previous prompt of 30.")


def test_the_request_that_lost_most_is_the_subject_else_the_one_that_evaluated_most_of_a_used_slot():
    lost = [statement(task=task, lost=size, lcp=5) for task, size in ((1, 9), (2, 30), (3, [20, 90]))]
    assert facts(*lost)["change"].startswith("slot 0, task 2: ")
    sizes = (1, 90, 0), (2, 30, 4), (3, 9, 4)
    warm = [statement(task=task, prompt_n=size, lcp=5, held=held) for task, size, held in sizes]
    assert facts(*warm)["change"].startswith("slot 0, task 2: ")
    assert facts(*warm, statement(task=4, prompt_n=50, lcp=5))["change"].startswith("slot 0, task 4: ")
    assert "change" not in facts(statement(prompt_n=50), statement(task=8, lcp=5))


def reused(*more, **numbers):
    found = [one.says for one in facts_first([statement(**{"lost": 99, **numbers}), *more]) if one.what == "reused"]
    return found[0] if len(found) == 1 else found


def test_what_was_reused_is_told_with_its_reason():
    check = statement("ckpt_check", line=5, kind="read")
    assert reused(cache_n=8, n_tokens=50) == (
        "It reused 8 of 50 prompt tokens; the log does not show which checkpoints existed.")  # fmt: skip
    assert reused(check, cache_n=[8, 9]) == "It reused 8 to 9." and reused(cache_n=8, lost=0, prompt_n=5, lcp=5) == (
        "It reused 8.")  # fmt: skip
    assert reused(check, cache_n=0) == (
        "It reused 0; its lines do not show the cause (cache_prompt = false prints no line).")  # fmt: skip
    assert reused(check, statement("cause", line=6), cache_n=0) == "It reused 0."
    assert reused(statement("ckpt_restore", kind="read"), cache_n=8, n_tokens=50) == (
        "It continued from a checkpoint and reused 8 of 50 prompt tokens.")  # fmt: skip
    full = statement("full_reprocess", line=9, kind="read")
    unusable = "The server found no usable checkpoint and evaluated "
    assert reused(full, n_tokens=50) == f"{unusable}all 50 tokens of the prompt."
    assert reused(full, statement("tasks", task=None, says="they are infills")) == [
        f"{unusable}the prompt.", "They are infills."]
    assert reused() == []


def test_requests_have_their_last_lines_and_times():
    found = requests_of([statement("batch", 7, 3, "read"), statement("batch", 7, 8, "read"),
                         statement("prompt_time", 7, 9, "read", prompt_ms="x"),
                         statement(task=7, line=4, lcp=[None, 5]), statement("option", None), statement(task=9),
                         statement("batch", None, 2, "read")])  # fmt: skip
    (one,) = found
    assert (one.kinds, one.prompt_ms, one.lines) == ({"batch": 8, "prompt_time": 9}, None, {"lcp": (4,)})
    assert (one.numbers["lcp"].low, one.numbers["lcp"].high, one.lost) == (0, 5, None)


def data(*statements, **more):
    return {"file": "a.log", "engine": "llama_cpp", "statements": list(statements), "line": "A9", "turns": [],
            "cures": [], "arguments": [], "assumed_options": {}, **more}  # fmt: skip


def told(found, out=""):
    return [(one.what, one.says) for one in first_lines(found, out)]


LOST = statement(lost=99)


def test_the_next_command_repeats_the_arguments():
    words = ["-p", "x", "--limit", "tokens=5", "--limit", "sought=9"]
    assert following(data(arguments=words), "why") == "cachesim why a.log -p x --limit tokens=5 --limit sought=9"
    assert following(data(arguments=words), "why", "b.toml") == "cachesim why b.toml --limit tokens=5"
    assert only_if([]) == "" and only_if(["a", "b"]) == ", only if a and b, which the log does not show"


def test_a_cure_the_assumed_options_and_the_next_command_follow():
    cure = {"slot": 1, "task": 8, "change": "-c 512", "evaluated": 1000, "before": 2000, "rests_on": ["x"]}
    found = data(LOST, cures=[cure, cure], assumed_options={"ctx_size": 512})
    assert told(found) == [
        ("cure", "Cure: with -c 512, slot 1, task 8 evaluates 1,000 instead of 2,000 tokens in a simulation of the "
                 "log, only if x, which the log does not show."),
        ("assumed", "The simulation assumes -c 512: is that your setting?"), ("next", "next: cachesim advise a.log")]
    assert told(data(LOST))[0][1].startswith("The log does not show what would help: ")
    assert told(data(LOST, assumed_options={"ctx_size": 512}, line=""))[1:] == []
    assert told(data(statement(n_tokens=5))) == [("next", "next: cachesim import a.log -o case.toml")]
    turns = [{"number": 3, "lost": 5}, {"number": 4, "lost": 9}]
    assert told(data(LOST, turns=turns), "b.toml")[-1] == ("next", "next: cachesim why b.toml 4")
    assert told(data(LOST, turns=turns))[-1] == ("next", "next: cachesim advise a.log")
