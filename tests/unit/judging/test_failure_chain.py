"""Tests of the causes of a failure: each is listed under the request that acted."""

from __future__ import annotations

import pytest

from cachesim.engines.inspection import RestorePoint, StoredObject
from cachesim.events import Aborted, Decided, Gained, Launch, Log, SeqRm
from cachesim.judging.failure_chain import MOST, FailureStep, explained, failure_data, shown_causes
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.judged_run import run_judged
from cachesim.judging.judgement import SlotAtLaunch
from cachesim.judging.request_events import LaunchPlace
from cachesim.judging.verdict import CORRECT, wrong
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from tests.unit.tools.run.made import judgement, run


def chain(name, profile, at):
    """The causes of a failure, as pairs of a request and the beginning of the text."""
    run = run_judged(load(corpus_files()[name]), profile, "provenance")
    return [(one["request"], one["text"].strip().partition(":")[0]) for one in failure_data(run, at)["causes"]]


def test_an_entry_is_left_by_the_request_that_stored_it():
    """Requests 1 and 2 are sent together; request 1 stores the entry that request 3 reads."""
    found = chain("mlx-1006-key-of-another-state-alone-hybrid", "mlx_lm@pr1006b", 3)
    assert [one for one in found if "leaves" in one[1]] == [
        (0, "leaves a corrupt entry of 25 tokens"), (1, "leaves a corrupt entry of 24 tokens"),
        (1, "leaves a corrupt entry of 10 tokens"), (2, "leaves a corrupt entry of 28 tokens"),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "profile"), [
    ("mlx-1169-joined-chat-continues-first-hybrid", "mlx_lm@m1072-metal"),
    ("mlx-1024-padding-hides-later-tokens", "mlx_lm@0.31.1-qwen3_5"),
])  # fmt: skip
def test_an_entry_of_the_failing_request_is_no_cause(name, profile):
    """The request before it, which was sent at the same time, left nothing corrupt."""
    assert [text for _, text in chain(name, profile, 1) if "leaves" in text] == []


def test_the_request_whose_tokens_the_slot_held_is_listed():
    found = chain("ik-1696-graph-of-last-token-hybrid", "ik_llama@1679", 2)
    assert [number for number, text in found if text.startswith("request ")] == [0, 1, 2]


def test_of_a_long_chain_the_first_and_the_last_causes_are_shown_each_under_its_request():
    causes = [
        FailureStep(number, f"request {number}" if not i else f"act {i}") for number in range(4) for i in range(6)
    ]
    found = shown_causes(causes)
    assert found[0] == causes[0] and found[2:] == causes[1 - MOST :]
    assert found[1] == FailureStep(2, "request 2")
    assert shown_causes(causes[:MOST]) == causes[:MOST]


B11549 = "llama_cpp@b11549"
CASE = {"line": "A4/A.B2/A", "model": "A", "server": {"ctx_size": 512}, "more": 1}
COMMAND = f"cachesim run A4/A.B2/A -p {B11549} --model A --set ctx_size=512"
BEGINS = ["request 0, A: 4 tokens, empty slot", "request 1, A.B: 6 tokens, extends the slot",
          "request 2, A: 4 tokens, whole prompt held, all but 1"]  # fmt: skip


@pytest.mark.parametrize(("at", "request_of_failure"), [(0, 0), (1, 1), (2, 2), (9, 2), (-1, 2)])
def test_a_case_is_explained_up_to_a_request(at, request_of_failure):
    found = explained(CASE, B11549, at, "a property fails")
    failure = found.pop("failure")
    source = failure.pop("source")
    assert found == {**CASE, "command": COMMAND} and source.startswith("https://github.com/ggml-org/llama.cpp/blob/")
    assert failure == {
        "request": request_of_failure, "hence": "a property fails", "rule": "LC-NPAST-LCP", "command": COMMAND,
        "causes": [FailureStep(number, text, "LC-NPAST-LCP")._asdict()
                   for number, text in enumerate(BEGINS[: request_of_failure + 1])],
    }  # fmt: skip


def test_without_a_number_the_first_wrong_request_is_explained():
    case = {"line": "P100/P.D60/P[:90].t20/A9", "model": "GGGA",
            "server": {"ctx_size": 1024, "batch_size": 64, "ubatch_size": 16, "cache_ram": 0}}  # fmt: skip
    failure = explained(case, "ik_llama@1679", -1, "")["failure"]
    assert (failure["request"], failure["rule"], failure["source"]) == (2, "IK-CKPT-RESET.NONE", "")
    assert failure["hence"] == "logits at position 109 depend on wrong K/V rows or states"
    assert [one["text"] for one in failure["causes"][2:]] == [
        "request 2, P[:90].t: 110 tokens, LCP 90",
        "reads the recurrent state after 160 tokens of request 1 in place of its own after 90 tokens"]


def test_a_case_that_cannot_be_run_has_no_failure_and_a_case_without_a_line_stays():
    case = {"line": "A4", "model": "?", "server": {}}
    assert explained(case, B11549, 0, "it") == {
        **case, "command": f"cachesim run A4 -p {B11549} --model '?'", "failure": None}
    assert explained({"model": "A"}, B11549, 0, "it") == {"model": "A"}


def test_a_request_names_what_its_tokens_are_computed_under():
    case = {"line": "A40/A{lora=a}/A.B3{lora=a}", "model": "A", "server": {}}
    failure = explained(case, "vllm@0.33.0", 2, "it")["failure"]
    assert [one["text"] for one in failure["causes"]] == [
        "request 0, A: 40 tokens, no cached prefix", "request 2, A.B: 43 tokens under a, loaded 32 from blocks"]
    assert (failure["rule"], failure["source"]) == ("", "")


def steps_of(made, at):
    return [tuple(one.values()) for one in failure_data(made, at)["causes"]]


def logged(*requests):
    """Return a log with the events of each request."""
    log = Log()
    for events in requests:
        log.mark()
        for event in events:
            log.emit(event)
    return log


def test_steps_that_are_no_requests_were_done_or_failed():
    requests = [judgement(), judgement(), judgement(status=400, error="no such slot"), judgement(),
                judgement(died=True, error="assertion failed")]  # fmt: skip
    line = "A10/{save@0 f}/{erase@0}/{restore@0 f}/{erase@0}"
    made = run(*requests, line=line)
    aborted = [Aborted("assertion failed")]
    made.log = logged([SeqRm(0, 3, 9, False)], [SeqRm(0, 3, 9, True)], (), (), aborted)
    assert steps_of(made, 4) == [
        (0, "request 0, A: 10 tokens, nothing reused", ""), (0, "seq_rm(0, 3, 9) fails", ""),
        (4, "request 4, erase@0: assertion failed", ""), (4, "the server stops: assertion failed", "")]
    assert steps_of(made, 3)[2:] == [(3, "request 3, restore@0 f: done", "")]
    assert steps_of(made, 2)[2:] == [(2, "request 2, erase@0: no such slot", "")]


def corrupt(kind, n, verdict):
    """Return a stored object of so many tokens with its verdict."""
    return StoredObject(kind, 0, tuple(range(n)), n, (), None), verdict


BAD = wrong("bits", FaultKind.ROW, layer=1, position=2)
CREATED, DROPPED = "LC-CKPT-CREATE.CR10", "LC-CKPT-ERASE.ER2"
WHY = "layer 1: K/V row 2 differs from a cold run's"


def leaves(events, armed, **fields):
    """Return the steps after the first of a run whose request 0 left corrupt objects, up to request 1."""
    made = run(judgement(armed=armed), judgement(armed=armed, **fields))
    made.log = logged(events, ())
    return steps_of(made, 1)[1:]


@pytest.mark.parametrize(("kind", "decided", "text", "rule"), [
    ("checkpoint", [(CREATED, True, {"start": 6})], f"leaves a corrupt checkpoint of 6 tokens: {WHY}", CREATED),
    ("checkpoint", [(CREATED, True, {})], f"leaves a corrupt checkpoint of 6 tokens: {WHY}", CREATED),
    ("checkpoint", [(CREATED, False, {"start": 6})], f"leaves a corrupt checkpoint of 6 tokens: {WHY}", ""),
    ("checkpoint", [(CREATED, True, {"start": 5})], f"leaves a corrupt checkpoint of 6 tokens: {WHY}", ""),
    ("checkpoint", [(DROPPED, (), {})], f"keeps a corrupt checkpoint of 6 tokens: {WHY}", DROPPED),
    ("checkpoint", [(DROPPED, (), {}), ("LC-NPAST-LCP", 4, {})], f"leaves a corrupt checkpoint of 6 tokens: {WHY}", ""),
    ("checkpoint", [("LC-NPAST-LCP", 4, {}), (DROPPED, (), {})], f"keeps a corrupt checkpoint of 6 tokens: {WHY}",
     DROPPED),
    ("entry", [(CREATED, True, {})], f"leaves a corrupt entry of 6 tokens: {WHY}", ""),
])  # fmt: skip
def test_a_corrupt_object_is_left_by_the_rule_that_made_or_kept_it(kind, decided, text, rule):
    events = [Decided(0, name, value, because) for name, value, because in decided]
    assert leaves(events, [corrupt(kind, 6, BAD)], answer=BAD) == [
        (0, text, rule), (1, "request 1, B: 10 tokens, nothing reused", "")]


def test_a_corrupt_object_is_named_once_by_the_first_request_that_had_it():
    twice = [corrupt("checkpoint", 6, BAD), corrupt("checkpoint", 6, BAD), corrupt("checkpoint", 7, CORRECT)]
    assert [text for _, text, _ in leaves((), twice, answer=BAD)] == [
        f"leaves a corrupt checkpoint of 6 tokens: {WHY}", "request 1, B: 10 tokens, nothing reused"]


def test_an_object_that_appears_in_a_step_sent_alone_is_of_this_step():
    """The request of an earlier step was launched in it, in the slot of the object."""
    armed = [corrupt("checkpoint", 6, BAD)]
    made = run(judgement(), judgement(armed=armed), judgement(answer=BAD, armed=armed))
    point = RestorePoint(("checkpoint", 0, 1), 6, tuple(range(6)), 0, None, 6, 6)
    made.log = logged((), [Launch(0, 0, 0), Gained(0, point, "created", "")], ())
    made.launches = [LaunchPlace(0, 0, 0)]
    assert [number for number, text, _ in steps_of(made, 2) if "corrupt" in text] == [1]


def test_objects_that_the_failing_request_left_are_causes_only_if_its_answer_is_correct():
    armed = [corrupt("checkpoint", 6, BAD)]
    for verdict, number in ((CORRECT, 2), (BAD, 1)):
        made = run(judgement(), judgement(answer=verdict, armed=armed))
        assert len(steps_of(made, 1)[1:]) == number


def test_the_request_that_filled_the_slot_is_listed():
    def slot(held, id_slot=0):
        one = judgement(id_slot=id_slot)
        one.slot = SlotAtLaunch(held, 0)
        return one

    made = run(judgement(id_slot=1), slot(0), slot(0, 1), slot(5), line="A10/B10/C10/D10")
    assert [number for number, *_ in steps_of(made, 3)] == [0, 1, 3]
    made.requests[3] = slot(5, 2)
    assert [number for number, *_ in steps_of(made, 3)] == [0, 3], "another slot"
    made.requests[3] = slot(0)
    assert [number for number, *_ in steps_of(made, 3)] == [0, 3]


def test_the_rule_of_a_failure_is_that_of_its_reuse_or_of_the_last_cause_with_one():
    made = run(judgement(deciding="LC-NPAST-LCP"), judgement(), judgement(deciding=""))
    assert [failure_data(made, at)["rule"] for at in range(3)] == ["LC-NPAST-LCP"] * 3
    made.requests[0].answer.deciding = ""
    assert [failure_data(made, at)["rule"] for at in range(3)] == [""] * 3
    made.requests[2].answer.deciding = "LC-PC-LOAD.TAKE"
    assert [failure_data(made, at)["rule"] for at in range(3)] == ["", "", "LC-PC-LOAD.TAKE"]
    assert failure_data(made, 2)["source"].startswith("https://") and failure_data(made, 1)["source"] == ""


@pytest.mark.parametrize(("sizes", "named"), [
    ((9, 1, 10), []), ((9, 2, 10), [1]), ((3, 9, 1, 10), []), ((3, 9, 2, 10), [2]), ((20, 1, 1, 9), []), ((30,), []),
])  # fmt: skip
def test_the_name_of_a_request_is_added_only_if_the_last_causes_lack_it(sizes, named):
    """The last eleven causes are shown: the first of them is the second or the only cause of its request."""
    causes = [FailureStep(number, f"request {number}" if not i else f"act {i}")
              for number, size in enumerate(sizes) for i in range(size)]  # fmt: skip
    names = [FailureStep(number, f"request {number}") for number in named]
    assert shown_causes(causes) == [causes[0], *names, *causes[1 - MOST :]]
