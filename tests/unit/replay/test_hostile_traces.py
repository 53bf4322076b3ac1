"""Tests of invalid recordings: the smallest input for each past fault, each with a single line and exit code 2, or
undecided if nothing is compared. The format: replay/trace_format.py."""

from __future__ import annotations

import json

import pytest

from cachesim.cli.main import main

STEP = {
    "i": 0, "op": "completion", "request": {"n_predict": 1, "prompt": [5, 6, 7]},
    "response": {"status": 200, "cache_n": 0, "prompt_n": 3, "tokens": [8]},
    "events": [],
}
HEAD = {"engine": "llama.cpp", "commit": "", "profile": "b10587", "model": "tiny-llama.gguf", "name": "x",
        "flags": ["-c", "64", "-np", "1"], "server": {"n_slots": 1}, "inexact": []}  # fmt: skip


def trace(*steps, **more):
    return {**HEAD, **more, "steps": list(steps)}


def step(**more):
    return trace({**STEP, **more})


def request(**more):
    return step(request={**STEP["request"], **more})


def response(**more):
    return step(response={**STEP["response"], **more})


def slot(**body):
    body = {"action": "save", "id_slot": 0, **body}
    return trace({"i": 0, "op": "slot", "request": body, "response": {"status": 200}})


def replayed(tmp_path, capsys, data):
    """Return exit code and stderr of ``cachesim replay`` of the data, or of the text."""
    file = tmp_path / "t.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    code = main(["replay", str(file)])
    return code, capsys.readouterr().err.removeprefix(f"cachesim: {file}: ")


REFUSED = {
    # not numbers, or not integers
    "T1 4301 digits": ("9" * 4301, "too many digits"),
    "T2 1e999 as a token": (json.dumps(request(prompt=["@"])).replace('"@"', "1e999"), "a number is too large"),
    "T2 Infinity": (request(n_predict=float("inf")), "Infinity is not a JSON number"),
    "T2 NaN": (response(cache_n=float("nan")), "NaN is not a JSON number"),
    "T2 a large float": (request(id_slot=1e30), "request.id_slot: expected an integer of 32 bits, found 1e+30"),
    "T2 i": (step(i=1e300), "steps[0].i"),
    "T3 a token of 31 digits": (request(prompt=[10**30]), "steps[0].request.prompt[0]: expected a token of"),
    "T4 a token beyond the vocabulary": (response(tokens=[320]), "response.tokens[0]: expected a token"),
    "T4 a negative token": (request(prompt=[-2]), "(0 to 319), found -2"),
    "T4 a string as a token": (response(tokens=["8"]), ", found '8'"),
    "T5 ev is a list": (step(events=[{"ev": []}]), "steps[0].events[0].ev: expected a string, found []"),
    "T5 ev is an object": (step(events=[{"ev": {}}]), "steps[0].events[0].ev: expected a string, found {}"),
    "T5 no ev": (step(events=[{}]), "steps[0].events[0]: missing key 'ev'"),
    "T6 ..": (slot(filename=".."), "steps[0].request.filename: expected the name of a file, found '..'"),
    "T6 300 letters": (slot(filename="x" * 300), "expected the name of a file"),
    "T6 NUL": (slot(filename="a\0b"), r"expected the name of a file, found 'a\x00b'"),
    "T6 no name": (slot(), "needs a file"),
    # H2, M4 and others are texts; see test_reading.py
    "H2 a string of quotes": ('"' + '\\"' * 40_000, "Unterminated string"),
    "W3 cache_prompt is a word": (request(cache_prompt="false"), "cache_prompt: expected true or false, found 'false'"),
    "W3 cache_n 40.0": (response(cache_n=0.0), "response.cache_n: expected a count (0 to 2147483647), found 0.0"),
    "W3 cache_n false": (response(cache_n=False), "steps[0].response.cache_n: expected a count (0 to 2147483647)"),
    "W3 truncated 0": (response(truncated=0), "steps[0].response.truncated: expected true or false, found 0"),
    "W3 an unknown key of the request": (request(cache_promt=True), "'cache_promt' (did you mean 'cache_prompt'?)"),
    "W3 an unknown key of the response": (response(cache_m=3), "unknown key 'cache_m' (did you mean 'cache_n'?)"),
    "W3 an unknown key of a step": (step(evnts=[]), "steps[0]: unknown key 'evnts' (did you mean 'events'?)"),
    "W3 an unknown key of the header": (trace(STEP, falgs=[]), "unknown key 'falgs' (did you mean 'flags'?)"),
    "an event's number is false": (step(events=[{"ev": "release", "n_tokens": False}]), "expected a value of type"),
    "an event without what is read": (step(events=[{"ev": "release"}]), "steps[0].events[0]: missing key 'n_tokens'"),
    "an event without what is read, behind one of the same form": (
        step(events=[{"ev": "slot_skip_empty"}, {"ev": "release"}]), "steps[0].events[1]: missing key 'n_tokens'"),
    "an event holds a list": (step(events=[{"ev": "x", "y": []}]), "y: expected a value of type int or float or bool"),
    "a number in an event is too large": (step(events=[{"ev": "x", "y": 10**30}]), "y: expected a smaller number"),
    "a restored draft without its length": (
        step(events=[{"ev": "spec_ckpt", "n_tokens": 1}, {"ev": "spec_step", "n_tokens": 1, "accepted": 1}]),
        "steps[0].events[1]: missing key 'drafted'"),
    "a group without requests": (trace({"i": 0, "op": "parallel", "steps": []}), "a group without requests"),
    "a group in a group": (trace({"i": 0, "op": "parallel", "steps": [{"i": "0.0", "op": "parallel", "steps": []}]}),
                           "steps[0].steps[0]: unknown operation 'parallel'"),
    "a step's number has a point": (step(i="0.1"), "steps[0].i"),
    "an inexact step is a word": (trace(STEP, inexact=[{"i": "x"}]), "inexact[0].i: expected the number of a step"),
    "drafts are no pairs": (step(drafts=[[1]]), "steps[0].drafts[0]: expected tokens held and tokens drafted"),
    "a delimiter of another script": (request(message_delimiters=[{"role": "user", "delimiter": "\u4e00"}]), "char"),
    "a flag's number is too large": (trace(STEP, flags=["-c", "99999999999"]), "expected a 32-bit integer"),
    "a flag's number is a word": (
        trace(STEP, flags=["-np", "many"]), "flag '-np': expected a 32-bit integer, found 'many'"),
    "a flag's share is infinite": (trace(STEP, flags=["-sps", "1e999"]), "expected a number, found '1e999'"),
    "a slot that is not there": (request(id_slot=-7), ""),
    "an unknown action": (slot(action="sav"), "steps[0].request.action: expected save, restore or erase, found 'sav'"),
    "a long engine": (trace(STEP, engine="x" * 100_000), "unknown engine"),
    "a long model": (trace(STEP, model="x" * 100_000), "x"),
    "a long flag": (trace(STEP, flags=["-" * 100_000]), "unknown flag"),
}
MAY_ANSWER = ("a slot that is not there",)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_short_line(tmp_path, capsys, name):
    data, told = REFUSED[name]
    code, line = replayed(tmp_path, capsys, data)
    assert (code == 2 or name in MAY_ANSWER) and code != 70, line
    assert told in line and line.count("\n") <= 1 and len(line) < 500


UNDECIDED = {
    "W1 no steps": (trace(), "it holds no requests"),
    "only a restart": (trace({"i": 0, "op": "restart", "events": []}), "it holds no requests"),
    "W2 no compared field": (step(response={"tokens": [8]}), "step 0: the recording says nothing"),
    "W2 no response": (step(response=None), "step 0: the recording says nothing"),
    "W2 a slot operation that says nothing": (trace({"i": 0, "op": "slot", "request": {"action": "erase", "id_slot": 0},
                                                    "response": {}}), "step 0: the recording says nothing"),
    "W2 an error without a status": (step(response={"error": {}}), "step 0: the recording says nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_recording_of_which_nothing_is_compared_is_undecided(tmp_path, capsys, name):
    data, told = UNDECIDED[name]
    file = tmp_path / "t.json"
    # what our server would log is recorded, so that only the answer is missing
    file.write_text(json.dumps(with_events(tmp_path, capsys, data)))
    assert main(["replay", str(file), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["traces"][0]["why"].startswith(told)
    assert found["steps_agree"] == 0


def with_events(tmp_path, capsys, data):
    """Return the recording with the events of our server at each step."""
    from cachesim.engines.registry import profiles
    from cachesim.replay.recorded_trace import make_trace
    from cachesim.replay.replay import TraceReplay, records, without_cancel
    from cachesim.replay.replay_result import ReplayResult

    made = make_trace(tmp_path / "x", data, profiles())
    run = TraceReplay(made, "none", tmp_path, None)
    for one, raw in zip(made.steps, data["steps"], strict=True):
        first = len(run.server.log.events)
        run.step(ReplayResult(made), one)
        if one.action != "restart":
            raw = {**raw, "events": [dict(event) for event in without_cancel(records(
                run.server.log.events[first:], run.one_slot, run.rules.silent, run.tasks, run.rules.unlogged,
                run.rounds))]}
        data = {**data, "steps": [raw]}
    return data


def test_the_good_one_agrees(tmp_path, capsys):
    assert main(["replay", _written(tmp_path, with_events(tmp_path, capsys, step()))]) == 0
    assert main(["replay", _written(tmp_path, with_events(tmp_path, capsys, response(cache_n=1)))]) == 1
    capsys.readouterr()


def _written(tmp_path, data):
    file = tmp_path / "t.json"
    file.write_text(json.dumps(data))
    return str(file)


def test_what_only_chooses_tokens_may_be_in_a_request(tmp_path, capsys):
    data = request(temperature=0, seed=1, samplers=["top_k"], stream=True, logit_bias=[[1, 2]])
    assert main(["replay", _written(tmp_path, with_events(tmp_path, capsys, data))]) == 0
    capsys.readouterr()
