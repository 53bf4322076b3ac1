"""The yardstick of slow logs: its rules agree with the truth, it finds planted faults, and it records the truth."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Sequence

import pytest

from cachesim.model.hash_mixing import Rng
from cachesim.tools.live.llama_server.server import ServerStart
from tests.logs.slow_logs.compare import Result, compare
from tests.logs.slow_logs.conversations import CONVERSATIONS
from tests.logs.slow_logs.determined import Determined, determine
from tests.logs.slow_logs.people_cuts import PEOPLE_CUTS, people_cuts
from tests.logs.slow_logs.record import MODELS, Plan, plan_of, record
from tests.logs.slow_logs.recorded_log import RecordedLog, read_folder, read_recorded
from tests.logs.slow_logs.recorded_server import Asked
from tests.logs.slow_logs.report_claims import Claim, Report, read_headline
from tests.logs.slow_logs.table import Tally, report
from tests.logs.slow_logs.truth import logged_tasks, matched, truths
from tests.shared import ROOT, SHARED, absent

SAMPLE = ROOT / "tests" / "logs" / "slow_logs" / "sample"
SLOW = SHARED / "logs" / "slow"
NUMBERS = {"prompt": "prompt", "reused": "reused", "evaluated": "evaluated", "generated": "generated",
           "common": "common_slot", "held": "slot_held"}  # fmt: skip
STRIP = SAMPLE / "qwen35-strip_reasoning-default.json"


# What the lines determine.

@pytest.mark.parametrize("log", read_folder(SAMPLE), ids=lambda log: log.name)
def test_determined_ranges_of_a_log_and_its_cuts_contain_the_truth(log):
    assert list(wrong_ranges(log)) == []


@pytest.mark.skipif(not SLOW.exists(), reason=absent(SLOW))
def test_determined_ranges_of_the_shared_logs_contain_the_truth():
    assert [wrong for log in read_folder(SLOW) for wrong in wrong_ranges(log)] == []


def wrong_ranges(log: RecordedLog):
    """Yield the ranges of a log and its cuts that do not contain the true value."""
    for cut, lines in [("whole", log.lines), *cuts_of_every_kind(log)]:
        for task, found in determine(lines).items():
            for name, key in NUMBERS.items():
                true = log.requests[task][key]
                if true is not None and not getattr(found, name).contains(true):
                    yield f"{log.name} ({cut}) task {task}: {name} is {true}, not {getattr(found, name)}"


def cuts_of_every_kind(log: RecordedLog) -> list[tuple[str, list[str]]]:
    """Return an excerpt of each kind of cut, with its name."""
    return [(name, cut(Rng(1, log.name), log)) for name, cut in PEOPLE_CUTS.items()]


def test_the_cuts_of_a_log_are_the_same_each_time():
    log = read_recorded(STRIP)
    assert people_cuts(log, 4) == people_cuts(log, 4)
    assert [name for name, _ in people_cuts(log, 4)][:3] == ["one kind", "last lines", "one request"]


def test_the_whole_sample_determines_all_counts():
    logs = read_folder(SAMPLE)
    found = [determine(log.lines)[truth["task"]] for log in logs for truth in log.completed]
    assert all(one.reused.is_exact and one.evaluated.is_exact for one in found)


RELEASE = "slot      release: id  0 | task {task} | stop processing: n_tokens = {end}, truncated = 0"
PROMPT = "slot print_timing: id  0 | task {task} | prompt eval time =  9.00 ms / {tokens:5} tokens (  0.1 ms per token)"
EVAL = "slot print_timing: id  0 | task {task} |        eval time =  9.00 ms / {tokens:5} tokens (  0.1 ms per token)"
TOTAL = "slot print_timing: id  0 | task {task} |       total time =  9.00 ms / {tokens:5} tokens"
PROGRESS = ("slot print_timing: id  0 | task {task} | prompt processing, n_tokens = {done:6}, progress = {share}, "
            "t =  3.10 s / 9.00 tokens per second")  # fmt: skip
CHOICE = ("slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, f_sim_best = {f_sim} (> 0.100 thold), "
          "f_keep = {f_keep}")  # fmt: skip
LAUNCH = "slot launch_slot_: id  0 | task {task} | processing task, is_child = 0"
NEW = "slot   operator(): id  0 | task {task} | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = {tokens}"
BATCH = "slot   operator(): id  0 | task {task} | cached n_tokens = {tokens}, memory_seq_rm [{tokens}, end)"
FORCED = ("slot   operator(): id  0 | task {task} | forcing full prompt re-processing due to lack of cache data "
          "(likely due to SWA or hybrid/recurrent memory, see https://github.com)")  # fmt: skip


def only(lines: Sequence[str]) -> Determined:
    """Return what the lines determine about their only request."""
    [found] = determine(lines).values()
    return found


def spans(lines: Sequence[str], *names: str) -> list[tuple[int, int]]:
    """Return ranges of the only request."""
    return [(getattr(only(lines), name).low, getattr(only(lines), name).high) for name in names]


def test_timings_and_the_end_determine_prompt_and_reused_tokens():
    lines = [PROMPT.format(task=7, tokens=100), EVAL.format(task=7, tokens=20), RELEASE.format(task=7, end=319)]
    assert spans(lines, "prompt", "reused", "evaluated") == [(300, 300), (200, 200), (100, 100)]


def test_the_total_gives_the_generated_tokens():
    lines = [PROMPT.format(task=7, tokens=100), TOTAL.format(task=7, tokens=120), RELEASE.format(task=7, end=319)]
    assert spans(lines, "generated", "prompt") == [(20, 20), (300, 300)]


def test_the_end_of_a_request_without_timings_determines_no_prompt():
    assert not only([RELEASE.format(task=7, end=319)]).prompt.is_exact


def test_progress_after_reuse_counts_evaluated_tokens():
    lines = [NEW.format(task=7, tokens=2000), PROGRESS.format(task=7, done=400, share="0.70")]
    assert spans(lines, "reused", "evaluated") == [(990, 1010), (400, 1 << 40)]


def test_progress_and_evaluated_tokens_give_a_range_of_prompts():
    lines = [PROGRESS.format(task=7, done=400, share="0.70"), PROMPT.format(task=7, tokens=1000)]
    assert spans(lines, "prompt") == [(1968, 2033)]


def test_the_first_task_of_a_server_reuses_nothing():
    assert spans([PROMPT.format(task=0, tokens=100)], "reused", "prompt") == [(0, 0), (100, 100)]


def test_the_first_batch_after_a_new_prompt_begins_after_the_reused_tokens():
    lines = [NEW.format(task=7, tokens=90), BATCH.format(task=7, tokens=40), BATCH.format(task=7, tokens=60)]
    assert spans(lines, "reused") == [(40, 40)]


def test_a_batch_without_the_new_prompt_is_an_upper_limit():
    assert spans([BATCH.format(task=7, tokens=60)], "reused") == [(0, 60)]


def test_a_forced_evaluation_reuses_nothing_and_determines_its_cause():
    assert (only([FORCED.format(task=7)]).reused.high, only([FORCED.format(task=7)]).cause) == (0, "no-checkpoint")


def test_shares_below_one_prove_an_edit_that_lost_tokens():
    lines = [CHOICE.format(f_sim="0.500", f_keep="0.600"), LAUNCH.format(task=7), PROMPT.format(task=7, tokens=900),
             EVAL.format(task=7, tokens=10), RELEASE.format(task=7, end=1009)]  # fmt: skip
    found = only(lines)
    assert (found.reused.low, found.common.low, found.common.high, found.cause) == (100, 500, 500, "edited-prompt")


def test_a_loss_alone_determines_no_cause():
    lines = [CHOICE.format(f_sim="0.500", f_keep="1.000"), LAUNCH.format(task=7), PROMPT.format(task=7, tokens=1000),
             EVAL.format(task=7, tokens=10), RELEASE.format(task=7, end=1009)]  # fmt: skip
    assert (only(lines).is_loss, only(lines).cause) == (True, "")


def test_a_choice_of_another_slot_is_not_used():
    lines = [CHOICE.format(f_sim="0.500", f_keep="0.600"), LAUNCH.format(task=7).replace("id  0", "id  1")]
    assert only(lines).common.high == 1 << 40


@pytest.mark.parametrize("end", [PROMPT, EVAL, TOTAL, RELEASE])
def test_a_line_that_was_cut_within_its_number_is_unknown(end):
    line = end.format(task=7, tokens=12345, end=12345)
    assert determine([line[: line.index("12345") + 3]]) == {}


# Planted faults.

def true_report(log: RecordedLog) -> Report:
    """Return a report that states all determined numbers and causes, and nothing false."""
    claims = []
    for task, found in determine(log.lines).items():
        truth = log.requests[task]
        for name in ("prompt", "reused", "evaluated", "generated"):
            if truth[name] is not None:
                claims.append(Claim("table", name, truth[name], truth[name], task, text=name))
        if found.cause:
            lost = truth["common_slot"] - truth["reused"]
            claims.append(Claim("cause", found.cause, lost, lost, task, text=f"lost {lost}"))
            claims.append(Claim("table", "lost", lost, lost, task))
    lost = [claim.low or 0 for claim in claims if claim.name == "lost"]
    again = f"{len(lost)} requests evaluated {sum(lost)} tokens of a common prefix again."
    return Report(claims, "accepted", again if lost else "The log does not show whether tokens of a common prefix", [])


def judged(log: RecordedLog, stated: Report) -> Result:
    """Return the result for a report on the whole log."""
    return compare(log, log.lines, stated, determine(log.lines))


@pytest.mark.parametrize("log", read_folder(SAMPLE), ids=lambda log: log.name)
def test_a_true_report_has_no_false_statement_and_states_what_is_determined(log):
    result = judged(log, true_report(log))
    assert (result.false, result.inner, result.missed) == ([], [], [])
    assert result.shares["counts stated"] == result.shares["counts determined"] == result.shares["counts"]


def planted(name: str) -> Report:
    """Return the true report on a log with one wrong statement."""
    log = read_recorded(STRIP)
    stated, last = true_report(log), list(log.requests)[-1]
    truth = log.requests[last]
    first = next(iter(log.requests))
    more: dict[str, Claim] = {
        "reused off by one": Claim("table", "reused", truth["reused"] + 1, truth["reused"] + 1, last),
        "evaluated off by one": Claim("table", "evaluated", truth["evaluated"] - 1, truth["evaluated"] - 1, last),
        "range beside the truth": Claim("table", "prompt", truth["prompt"] + 1, truth["prompt"] + 9, last),
        "wrong common prefix": Claim("table", "common", truth["common_slot"] + 1, truth["common_slot"] + 1, last),
        "wrong tokens in the slot": Claim("table", "held", truth["slot_held"] + 3, truth["slot_held"] + 5, last),
        "wrong cause": Claim("cause", "identical-prompt", task=last),
        "cause without a loss": Claim("cause", "edited-prompt", task=first),
        "wrong loss": Claim("cause", "edited-prompt", 999_999, 999_999, last),
        "unknown task": Claim("table", "reused", 1, 1, 999_999),
        "contradiction": Claim("contradiction", "n_tokens", task=last),
        "wrong build": Claim("build", "build", value=[0, 0]),
        "wrong option": Claim("option", "parallel", value=9),
        "wrong client change": Claim("client change", "extends", task=last),
        "wrong sum": Claim("sum", "tokens", 5, 5, value=(list(log.requests), False)),
        "wrong number of a line": Claim("read", "release", value=((1,), (987_654.0,))),
        "line after the end": Claim("read", "release", value=((9_999,), ())),
        "loss without a loss": Claim("loss", "again", task=first, value=False),
        "wrong simulated length": Claim("simulated", "prompt", 5, 5, last),
    }
    if name in more:
        return replace(stated, claims=[*stated.claims, more[name]])
    headlines = {
        "wrong headline sum": "2 requests evaluated 999,999 tokens of a common prefix again.",
        "too many requests": "99 requests evaluated 12 tokens of a common prefix again.",
        "nothing again": "No tokens of a common prefix were evaluated again.",
        "more prompt tokens than sent": "The log does not show whether tokens of a common prefix were evaluated again "
                                        "(1 % of 9,999,999 prompt tokens evaluated in 2 requests with known lengths).",
        "unknown headline": "All is well",
    }  # fmt: skip
    return replace(stated, headline=headlines[name])


PLANTED = ("reused off by one", "evaluated off by one", "range beside the truth", "wrong common prefix",
           "wrong tokens in the slot", "wrong cause", "cause without a loss", "wrong loss", "unknown task",
           "contradiction", "wrong build", "wrong option", "wrong client change", "wrong sum", "wrong simulated length",
           "wrong number of a line", "line after the end", "loss without a loss",
           "wrong headline sum", "too many requests", "nothing again", "more prompt tokens than sent",
           "unknown headline")  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_wrong_statement_is_found(name):
    assert len(judged(read_recorded(STRIP), planted(name)).false) == 1


def test_numbers_of_a_cancelled_request_are_bounded_by_the_slot():
    log = read_recorded(SAMPLE / "qwen35-cancel-lv4.json")
    [truth] = [one for one in log.requests.values() if one["what"] == "cancelled during the prompt"]
    whole = Claim("table", "evaluated", truth["prompt"], truth["prompt"], truth["task"])
    part = replace(whole, low=0, high=truth["end"])
    false = [judged(log, Report([claim], "accepted", "All 1.", [])).false for claim in (whole, part)]
    assert list(map(len, false)) == [1, 0]


ENTRY = "srv          load:  - found better prompt with f_keep = 1.000, f_sim = 0.900"


@pytest.mark.parametrize(("lines", "loaded"), [
    ([ENTRY, LAUNCH.format(task=7)], {7}),
    ([LAUNCH.format(task=7), ENTRY, LAUNCH.format(task=9), LAUNCH.format(task=11)], {9}),
    ([LAUNCH.format(task=7)], set()),
])  # fmt: skip
def test_an_entry_is_loaded_for_the_next_task_that_starts(lines, loaded):
    assert RecordedLog("a", lines, "attention", ("-lv", "4"), {}).loaded == loaded


def test_two_numbers_of_a_report_that_exclude_each_other_are_a_contradiction():
    stated = true_report(read_recorded(STRIP))
    task = stated.claims[0].task
    more = Claim("simulated", "prompt", 5, 5, task)
    assert len(judged(read_recorded(STRIP), replace(stated, claims=[*stated.claims, more])).inner) == 1


def test_a_headline_whose_sum_differs_from_the_table_is_a_contradiction():
    stated = true_report(read_recorded(STRIP))
    text = "1 request evaluated at least 1 token of a common prefix again."
    assert len(judged(read_recorded(STRIP), replace(stated, headline=text)).inner) == 1


def test_a_flag_whose_lines_are_in_the_log_is_no_advice():
    log = read_recorded(SAMPLE / "qwen35-cancel-lv4.json")
    stated = replace(true_report(log), missing=["the log lacks checkpoints: start the server with -lv 4"])
    assert [false.part for false in judged(log, stated).false] == ["missing"]


def test_what_a_report_leaves_out_counts_as_not_stated():
    log = read_recorded(STRIP)
    result = judged(log, replace(true_report(log), claims=[]))
    assert result.shares["counts stated"] == result.shares["causes stated"] == 0
    assert result.shares["counts determined"] > 0 < result.shares["causes determined"]


def test_the_table_names_the_limits_that_are_not_met():
    tally = Tally()
    tally.add("a", "whole", judged(read_recorded(STRIP), planted("reused off by one")))
    rejected = replace(true_report(read_recorded(STRIP)), claims=[], outcome="rejected")
    tally.add("b", "whole", judged(read_recorded(STRIP), rejected))
    failed = [line.partition(":")[2].partition(":")[0].strip() for line in report(tally, 1).splitlines()
              if line.startswith("FAILED")]  # fmt: skip
    assert failed == ["1 false statements", "2 contradictions inside a report", "determined counts stated",
                      "determined causes stated", "logs accepted", "logs rejected"]  # fmt: skip


@pytest.mark.parametrize(("text", "again", "requests", "tokens"), [
    ("1 request evaluated at least 1,234 tokens of a common prefix again (50 % of 9,000 prompt tokens evaluated in 3 "
     "requests with known lengths).", 1234, 1, 9000),
    ("No tokens of a common prefix were evaluated again.", 0, 0, None),
    ("The log shows no lengths of a request.", None, 0, None),
])  # fmt: skip
def test_the_numbers_of_a_headline_are_read(text, again, requests, tokens):
    found = read_headline(text)
    assert found is not None
    assert (found.again, found.requests, found.tokens) == (again, requests, tokens)


# The recorder.

def asked(prompt: Sequence[int], answer: Sequence[int], reused: int, **fields: Any) -> Asked:
    """Return a request with a reply."""
    timings = {"cache_n": reused, "prompt_n": len(prompt) - reused, "predicted_n": len(answer), "prompt_ms": 9.0,
               "predicted_ms": 1.0}  # fmt: skip
    reply = {"timings": timings, "truncated": False}
    return Asked("a", "append", list(prompt), 0.0, list(answer), reply, **fields)


def test_the_truth_of_a_request_compares_its_prompt_with_slot_and_earlier_prompts():
    first, second = asked([1, 2, 3, 4], [5, 6], 0), asked([1, 2, 3, 9, 9], [7], 2)
    text = "\n".join([LAUNCH.format(task=0), RELEASE.format(task=0, end=5),
                      LAUNCH.format(task=3), RELEASE.format(task=3, end=5)])  # fmt: skip
    one, two = truths(matched([[first], [second]], logged_tasks(text)))
    assert (one["slot_held"], one["common_slot"], one["again_slot"]) == (None, 0, 0)
    assert (two["slot_held"], two["common_slot"], two["again_slot"], two["common_best_request"]) == (5, 3, 1, 1)
    assert (two["task"], two["end"], two["common_previous_prompts"]) == (3, 5, {"1": 3})


def test_requests_sent_at_once_are_matched_by_their_timings():
    first, second = asked([1, 2, 3], [4], 0), asked([1, 2, 3, 4], [5], 0)
    text = "\n".join([LAUNCH.format(task=0), LAUNCH.format(task=1), PROMPT.format(task=0, tokens=4),
                      PROMPT.format(task=1, tokens=3)])  # fmt: skip
    pairs = matched([[first, second]], logged_tasks(text))
    assert [(one is second, task.task) for one, task in pairs] == [(True, 0), (False, 1)]


def test_a_log_with_another_request_is_refused():
    text = "\n".join([LAUNCH.format(task=0), LAUNCH.format(task=1)])
    with pytest.raises(ValueError, match="other requests"):
        matched([[asked([1], [2], 0)]], logged_tasks(text))


def test_tokens_after_a_cancelled_answer_are_unknown():
    gone = Asked("a", "cancelled", [1, 2, 3], 0.0, [4], cancelled=True)
    text = "\n".join([LAUNCH.format(task=0), RELEASE.format(task=0, end=6), LAUNCH.format(task=9)])
    _, two = truths(matched([[gone], [asked([1, 2, 3, 4, 5, 6, 7], [8], 4)]], logged_tasks(text)))
    assert (two["slot_held"], two["common_slot"]) == (6, 4)


def test_the_plan_has_every_conversation_and_model():
    plans = [plan_of(number, 57) for number in range(60)]
    assert {plan.conversation for plan in plans} == set(CONVERSATIONS)
    assert {plan.model for plan in plans} == set(MODELS)
    assert len({plan.name for plan in plans}) == 60


STAND_IN = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

words = dict(zip(sys.argv[1:], [*sys.argv[2:], ""]))
held, tasks = [], iter(range(0, 1000, 7))

def say(text):
    print("0.00.000.001 I slot " + text, file=sys.stderr, flush=True)

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def reply(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply({"model_alias": words["--alias"]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, task = body["prompt"], next(tasks)
        differ = [i for i, pair in enumerate(zip(held, prompt)) if pair[0] != pair[1]]
        common = min([*differ, len(held), len(prompt)])
        reused = min(common, len(prompt) - 1)
        tokens = [(sum(prompt) + i) % 90 for i in range(body["n_predict"])]
        timings = {"cache_n": reused, "prompt_n": len(prompt) - reused, "predicted_n": len(tokens),
                   "prompt_ms": float(len(prompt) - reused), "predicted_ms": 1.0}
        held[:] = prompt + tokens[:-1]
        say(f"launch_slot_: id  0 | task {task} | processing task, is_child = 0")
        say(f"     release: id  0 | task {task} | stop processing: n_tokens = {len(held)}, truncated = 0")
        self.reply({"tokens": tokens, "timings": timings, "truncated": False})

print("loading model '" + words["-m"] + "'", flush=True)
ThreadingHTTPServer(("127.0.0.1", int(words["--port"])), Handler).serve_forever()
"""


def test_a_recording_has_the_truth_of_all_requests_of_a_conversation(tmp_path):
    (program := tmp_path / "server.py").write_text(STAND_IN)
    (server := tmp_path / "llama-server").write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
    server.chmod(0o755)
    plan = Plan(0, "llama", "regenerate", ("-np", "1"), True, 5)
    record(plan, ServerStart(server, tmp_path / "slow-llama.gguf", plan.flags, "b11549", ()), tmp_path, {})
    log = read_recorded(tmp_path / f"{plan.name}.json")
    found = list(log.requests.values())
    assert [truth["what"] for truth in found][:3] == ["first", "the same prompt again", "append"]
    assert [truth["reused"] - min(truth["common_slot"], truth["prompt"] - 1) for truth in found] == [0] * len(found)
    assert [truth["end"] for truth in found] == [truth["prompt"] + truth["generated"] - 1 for truth in found]
    assert all(line.startswith("Nov 26 09:") for line in log.lines)
    assert "loading model '/models/slow-llama.gguf'" in log.lines[0]


@pytest.mark.parametrize("file", sorted(SAMPLE.glob("*.json")), ids=lambda file: file.stem)
def test_the_sample_is_small_and_names_no_folder_of_a_user(file: Path):
    text = file.read_text("utf-8") + file.with_suffix(".log").read_text("utf-8")
    assert len(text) < 20_000
    assert "/root" not in text and "/home" not in text and "/tmp" not in text
