"""Tests of reading a recorded trace: accepted contents, and rejection of everything else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.engines.base import BEFORE_A_SLOT, Request
from cachesim.engines.registry import ENGINES, profiles
from cachesim.replay.recorded_requests import LENGTHS
from cachesim.replay.recorded_trace import TraceMember, TraceStep, read_trace
from cachesim.replay.trace_format import ROUNDING
from tests.replay.verdicts import DATA

STEP = {
    "i": 0, "op": "completion", "request": {"n_predict": 2, "prompt": [5, 6, 7]},
    "response": {"status": 200, "cache_n": 0, "prompt_n": 3, "tokens": [8, 9]}, "events": [{"ev": "need_one"}],
}
GOOD = {
    "engine": "llama.cpp",
    "commit": "3f545beccee69d9975f466ec7e45fd9aacd8ba90",
    "model": "tiny-lfm2.gguf",
    "name": "lfm2-x",
    "flags": ["-c", "512", "-np", "2", "-kvu", "--slot-prompt-similarity", "0.5"],
    "server": {"n_slots": 2, "n_rs_seq": 0},
    "inexact": [{"i": 0, "shifted": False}],
    "steps": [STEP],
}


def read(tmp_path, text):
    path = tmp_path / "t.json"
    if isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text if isinstance(text, str) else json.dumps(text))
    return read_trace(path, profiles())


def changed(**more):
    return {**GOOD, **more}


def with_step(**more):
    return changed(steps=[{**STEP, **more}])


def test_what_a_trace_says(tmp_path):
    trace = read(tmp_path, GOOD)
    assert (trace.profile, trace.model, trace.name, trace.out) == ("llama_cpp@b10587", "lfm2", "lfm2-x", "")
    assert trace.flags == {"ctx_size": 512, "parallel": 2, "kv_unified": True, "slot_prompt_similarity": 0.5}
    assert trace.inexact == {0}
    request = trace.steps[0].members[0].request
    assert (request.prompt, request.n_predict, request.forced) == ((5, 6, 7), 2, (8, 9))
    assert (request.cache_prompt, request.id_slot, request.user_starts) == (True, -1, ())


def test_user_messages_begin_at_their_delimiter(tmp_path):
    marks = [
        {"role": "user", "delimiter": "<|im_start|>user\n"},
        {"role": "assistant", "delimiter": "<|im_start|>assistant\n"},
    ]
    user, other = [97, 85, 83, 69, 82, 95], [97, 65, 83, 83, 73, 83, 84, 65, 78, 84, 95]
    prompt = [*user, 1, 2, *other, 3, *user, 4]
    trace = read(tmp_path, with_step(request={"prompt": prompt, "message_delimiters": marks}))
    assert trace.steps[0].members[0].request.user_starts == (0, 20)
    plain = read(tmp_path, with_step(request={"prompt": prompt}))
    assert plain.steps[0].members[0].request.user_starts == ()
    chat = read(tmp_path, with_step(op="chat", request={"prompt": prompt, "max_tokens": 7}))
    assert (chat.steps[0].members[0].request.user_starts, chat.steps[0].members[0].request.n_predict) == ((0, 20), 7)


def test_old_versions_get_the_byte_position_of_the_last_user_message(tmp_path):
    spans = [{"role": "user", "pos": 0}, {"role": "assistant", "pos": 2}, {"role": "user", "pos": 4}]
    body = {"prompt": [1, 1, 101, 1, 1], "message_spans": spans}        # token 101 is two letters
    trace = read(tmp_path, {**with_step(request=body), "commit": "7c158fbb4", "profile": "base-24143"})
    request = trace.steps[0].members[0].request
    assert (trace.profile, request.byte_pos, request.user_starts) == ("llama_cpp@b9518", 4, (0, 3))


def test_what_cannot_be_replayed_yet_is_named(tmp_path):
    change = {"engine": "mlx-lm", "profile": "of-another-age"}
    assert read(tmp_path, changed(**change)).out == "recordings of mlx_lm are not replayed"
    path = tmp_path / "t.json"
    path.write_text(json.dumps(changed(engine="ik_llama.cpp", profile="of-another-age")))
    here = {name: rules for name, rules in profiles().items() if name.startswith("llama_cpp@")}
    assert read_trace(path, here).out == "rule set ik_llama@of-another-age is not in this build"


def test_an_unknown_profile_of_an_engine_that_is_here_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match=r"unknown profile 'b1058x'.*did you mean 'b10587'"):
        read(tmp_path, changed(profile="b1058x", commit="0000000"))


@pytest.mark.parametrize(("profile", "commit", "found"), [
    ("head", "3f545beccee69d9975f466ec7e45fd9aacd8ba90", "b10587"),
    ("pr24143-on-head", "3f545be+pr24143", "pr24143-on-b10587"),
    ("before-20671", "8cc2d8126~1", "b8392"), ("base-24143", "7c158fbb4", "b9518"), ("b9473", "7c158fbb4", "b9473"),
    ("b10229", "b10229", "b10229"), ("b10229", "3f545be", "b10229"),
])  # fmt: skip
def test_the_commit_says_the_rule_set_where_the_named_one_is_unknown(tmp_path, profile, commit, found):
    assert read(tmp_path, changed(profile=profile, commit=commit)).profile == f"llama_cpp@{found}"


def test_requests_sent_at_the_same_time_are_one_step(tmp_path):
    member = {k: STEP[k] for k in ("op", "request", "response")}
    step = {"i": 3, "op": "parallel", "steps": [{**member, "i": "3.0"}, {**member, "i": "3.1"}], "events": []}
    trace = read(tmp_path, changed(steps=[step], inexact=[{"i": "3.1", "shifted": False}]))
    assert (trace.inexact, [m.inexact for m in trace.steps[0].members]) == ({3}, [False, True])


def test_an_action_on_a_slot_keeps_only_the_name_of_its_file(tmp_path):
    body = {"action": "save", "id_slot": 1, "filename": "../../etc/passwd"}
    step = read(tmp_path, changed(steps=[{"i": 0, "op": "slot", "request": body, "response": {}, "events": []}])).steps[
        0
    ]
    assert (step.members, step.action, step.id_slot, step.file) == ((), "save", 1, "passwd")


def test_a_hang_up_ends_where_the_slot_was_released(tmp_path):
    events = [{"ev": "release", "n_tokens": 11}]
    trace = read(tmp_path, with_step(request={"prompt": [1], "cancel_after": 2}, events=events))
    assert trace.steps[0].members[0].request.cancel_at == 11


def test_hang_ups_come_in_the_order_in_which_the_slots_were_released(tmp_path):
    asked = {"prompt": [9, 9], "cancel_after": 0}
    members = [{**STEP, "i": f"0.{n}", "request": asked, "task": n} for n in range(2)]
    events = [{"ev": "launch", "slot": n, "task": n, "is_child": 0} for n in range(2)]
    events += [{"ev": "release", "slot": n, "task": n, "n_tokens": 2} for n in (1, 0)]
    step = {"i": 0, "op": "parallel", "steps": members, "events": events}
    first, second = (one.request for one in read(tmp_path, changed(steps=[step])).steps[0].members)
    assert second.cancel_place < first.cancel_place


@pytest.mark.parametrize(("generated", "cancel_at", "forced"), [([8, 9, 7], None, (8, 9, 7)), ([8, 9], 2, (8,))])
def test_a_request_that_came_to_its_end_although_its_client_had_hung_up(tmp_path, generated, cancel_at, forced):
    """Another conversation was loaded over it, so that the slot does not hold what it generated."""
    step = with_step(request={"prompt": [1], "cancel_after": 0, "n_predict": 3}, generated=generated,
                     response={"cancelled": True, "tokens": [], "tokens_in_slot": [8]},
                     events=[{"ev": "release", "n_tokens": 2}])  # fmt: skip
    request = read(tmp_path, step).steps[0].members[0].request
    assert (request.cancel_at, request.forced) == (cancel_at, forced)


def without(key):
    return {k: v for k, v in GOOD.items() if k != key}


TEXT = json.dumps(GOOD)
BAD = {
    "truncated": (TEXT[: len(TEXT) // 2], "broken or truncated JSON"),
    "cut in the last line": (TEXT[:-1], "broken or truncated JSON"),
    "empty": ("", "the file is empty"),
    "blank": (" \n", "the file is empty"),
    "a list": ("[]", "expected an object"),
    "a number": ("3", "expected an object, found 3"),
    "not UTF-8": (b'{"engine": "\xff\xfe"}', "not UTF-8"),
    "deep": ("[" * 33 + "]" * 33, "nested deeper than 32"),
    "deep in an object": ('{"a":' * 40 + "1" + "}" * 40, "nested deeper than 32"),
    "unknown engine": (changed(engine="llama.cpq"), "did you mean 'llama.cpp'"),
    "unknown commit": (changed(commit="3f545beccee69d9975f466ec7e45fd9aacd8ba91"), "did you mean '3f545bec"),
    "engine is a list": (changed(engine=["llama.cpp"]), "engine: expected a string"),
    "unknown flag": (changed(flags=["-c", "5", "--swa-ful"]), "did you mean '--swa-full'"),
    "flag without its value": (changed(flags=["-c"]), "-c"),
    "flag with a word": (changed(flags=["-c", "many"]), "many"),
    "unknown operation": (with_step(op="completionn"), "did you mean 'completion'"),
    "no engine": (without("engine"), "missing key 'engine'"),
    "no steps": (without("steps"), "missing key 'steps'"),
    "no inexact": (without("inexact"), "missing key 'inexact'"),
    "steps are a number": (changed(steps=3), "steps: expected a list, found 3"),
    "a step is a word": (changed(steps=["x"]), "steps[0]: expected an object"),
    "a step without an operation": (changed(steps=[{"i": 0}]), "missing key 'op'"),
    "a token is a word": (with_step(request={"prompt": ["x"]}),
     "steps[0].request.prompt[0]: expected a token of the recorded"),
    "a prompt is a number": (with_step(request={"prompt": 5}), "steps[0].request.prompt: expected a list"),
    "a model is a number": (changed(model=5), "model: expected a string, found 5"),
    "a server is a list": (changed(server=[]), "server: expected an object"),
    "events are a number": (with_step(events=7), "steps[0].events: expected a list"),
    "forced tokens are a number": (with_step(response={"tokens": 7}), "steps[0].response.tokens: expected a list"),
}


@pytest.mark.parametrize("text, cause", list(BAD.values()), ids=list(BAD))
def test_bad_input_is_one_line_that_names_the_file(tmp_path, text, cause):
    with pytest.raises(BadInput) as caught:
        read(tmp_path, text)
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 't.json'}:") and cause in line and "\n" not in line


def test_the_line_of_a_broken_step_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"t\.json:3: broken"):
        read(tmp_path, '{"engine":"llama.cpp",\n"steps":[\n{"i":0,,}]}')


def test_a_file_over_its_bound_is_not_even_read(tmp_path):
    limits.lift({"bytes": 100})
    with pytest.raises(BadInput, match="at most 100 bytes"):
        read(tmp_path, TEXT)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        read_trace(tmp_path / "nowhere.json", profiles())


def test_brackets_inside_a_text_are_no_nesting(tmp_path):
    assert read(tmp_path, changed(note='[{"' * 50)).name == "lfm2-x"


def test_without_np_the_version_chooses_the_number_of_slots(tmp_path):
    assert read(tmp_path, changed(flags=["-c", "512"])).flags == {"ctx_size": 512, "parallel": -1}


def test_the_constant_flags_of_a_recording_count_where_its_engine_says_so(tmp_path):
    name, flags = ENGINES["ik_llama"].recorded.name, ["-c", "512"]
    plain, based, other = (read(tmp_path, changed(flags=flags, **more)).flags for more in (
        {"engine": name, "profile": "main"}, {"engine": name, "profile": "main", "base_flags": ["-b", "32"]},
        {"base_flags": ["-b", "32"]}))  # fmt: skip
    assert based == {**plain, "batch_size": 32} and "batch_size" not in plain and "batch_size" not in other


@pytest.mark.parametrize("stop, words", [(["ab", "\n"], ("ab", "\n")), ("ab", ("ab",)), ([], ())])
def test_stop_words_are_part_of_a_request(tmp_path, stop, words):
    trace = read(tmp_path, with_step(request={"prompt": [1], "stop": stop}))
    assert trace.steps[0].members[0].request.stop == words


def test_warnings_of_the_start_up_are_no_events_of_the_first_step(tmp_path):
    warn, own = {"ev": "warn", "text": "-----"}, {"ev": "slot_skip_empty"}
    steps = [{**STEP, "events": [warn, warn, own, warn]}, {**STEP, "i": 1, "events": [warn, own]}]
    assert [step.events for step in read(tmp_path, changed(steps=steps)).steps] == [[own, warn], [warn, own]]


def test_the_mark_of_a_message_is_better_than_its_offset_in_a_text_that_had_more_bytes(tmp_path):
    """The tokens have lost two bytes before the second message; offset 15 would fall behind its mark."""
    user = [97, 85, 83, 69, 82, 95]
    spans = [{"role": "user", "pos": 0}, {"role": "user", "pos": 22}]
    body = {"prompt": [*user, 1, 2, *user, 4], "message_spans": spans}
    trace = read(tmp_path, {**with_step(request=body), "commit": "7c158fbb4", "profile": "base-24143"})
    assert trace.steps[0].members[0].request.user_starts == (0, 8)


def test_where_a_hang_up_took_effect_may_be_said_by_the_request(tmp_path):
    body = {"prompt": [1], "cancel_after": 2, "cancel_at_n": 7}
    trace = read(tmp_path, with_step(request=body, events=[{"ev": "release", "n_tokens": 11}]))
    assert trace.steps[0].members[0].request.cancel_at == 7


def test_further_completions_are_drafted_as_their_own_events_say(tmp_path):
    def life(task, slot, child, *steps):
        return [{"ev": "launch", "slot": slot, "task": task, "is_child": child}, *(
            {"ev": "spec_step", "slot": slot, "task": task, "accepted": right, "drafted": 3, "n_tokens": n}
            for right, n in steps)]  # fmt: skip

    ends = [{"ev": "release", "slot": slot, "task": task, "n_tokens": 9} for task, slot in ((0, 1), (1, 0))]
    events = [*life(0, 1, 1, (1, 5)), *life(1, 0, 0, (0, 4), (1, 6)), *ends]
    answer = {**STEP["response"], "draft_n": 8, "completions": [{"index": 1, "tokens": [8]}]}
    step = with_step(request={"prompt": [5, 6, 7], "n_cmpl": 2}, response=answer, events=events)
    step["flags"] = [*step["flags"], "--spec-type", "draft-mtp"]
    request = read(tmp_path, step).steps[0].members[0].request
    assert request.drafts == ((3, 3, 0), (4, 3, 1), (6, 2, 2))
    assert request.children_drafts == (((3, 3, 1), (5, 3, 3)),)


def test_further_completions_of_a_request_that_failed_drafted_what_their_events_say(tmp_path):
    """The first is asked to go back, finds no room, and all fail."""
    ckpts = [{"ev": "spec_ckpt", "slot": slot, "task": task, "n_tokens": 3} for task, slot in ((0, 1), (1, 0))]
    back = {"ev": "spec_restore", "slot": 1, "task": 0}
    ends = [{"ev": "release", "slot": slot, "task": task, "n_tokens": 5} for task, slot in ((0, 1), (1, 0))]
    begin = [{"ev": "launch", "slot": slot, "task": task, "is_child": 1 - task} for task, slot in ((0, 1), (1, 0))]
    answer = {"error": {"code": 500}, "status": 500}
    step = with_step(request={"prompt": [5, 6, 7], "n_cmpl": 2}, response=answer, events=[*begin, *ckpts, back, *ends])
    step["flags"] = [*step["flags"], "--spec-type", "ngram-simple"]
    request = read(tmp_path, step).steps[0].members[0].request
    assert request.drafts == ((3, 1, 1),) and request.children_drafts == (((3, 1, 0),),)


def test_what_the_log_says_beside_an_answer_is_used(tmp_path):
    """In a step in which the process ends no request is answered; a task that was over had no last draft."""
    def member(i, **more):
        return {"i": f"0.{i}", "op": "completion", "request": {"prompt": [5, 6, 7]}, "task": i, **more}

    events = [event for task in (0, 1) for event in (
        {"ev": "launch", "slot": task, "task": task, "is_child": 0},
        {"ev": "new_prompt", "slot": task, "task": task, "n_tokens": 3, "n_ctx_slot": 64, "n_keep": 0},
        {"ev": "spec_ckpt", "slot": task, "task": task, "pos_min": 2, "pos_max": 2, "n_tokens": 3},
        {"ev": "spec_restore", "slot": task, "task": task, "pos_min": 2, "pos_max": 2},
    )] + [{"ev": "release", "slot": 0, "task": 0, "n_tokens": 5}]
    step = {"i": 0, "op": "parallel", "steps": [member(0, drafts=[[3, 4]], generated=[8, 9]), member(1)],
            "events": events, "died": {"fatal": ["batch must be large enough"]}}  # fmt: skip
    first, second = (one.request for one in read(tmp_path, changed(steps=[step])).steps[0].members)
    assert first.forced == (8, 9)
    assert first.drafts == ((3, 4, 0),)
    assert [draft.at for draft in second.drafts] == [3, 3]


def test_a_client_that_hung_up_before_its_request_had_a_slot(tmp_path):
    """It takes no events of the others."""
    asked = {"prompt": [9, 9], "cancel_after": 0}
    members = [{**STEP, "i": "0.0", "request": asked, "launched": False}, {**STEP, "i": "0.1", "request": asked}]
    events = [{"ev": "launch", "slot": 0, "task": 0, "is_child": 0}, {"ev": "new_prompt", "task": 0, "n_tokens": 2},
              {"ev": "release", "task": 0, "n_tokens": 7}]  # fmt: skip
    step = {"i": 0, "op": "parallel", "steps": members, "events": events}
    gone, served = read(tmp_path, changed(steps=[step])).steps[0].members
    assert (gone.launched, gone.request.cancel_at) == (False, BEFORE_A_SLOT)
    assert (served.launched, served.request.cancel_at) == (True, 7)


def test_a_request_that_a_stuck_server_never_answered_is_compared_with_nothing(tmp_path):
    unanswered = {name: value for name, value in STEP.items() if name not in ("response", "cold")}
    step = read(tmp_path, changed(steps=[{**unanswered, "stuck": True}], inexact=[])).steps[0]
    assert step.stuck and step.members[0].inexact is None


@pytest.mark.parametrize(("margin", "inexact"), [
    (0.30729, True), (0.00027, False), (ROUNDING, False), ("wide", False), (None, False),
])  # fmt: skip
def test_another_token_by_more_than_rounding_is_inexact_though_no_list_says_so(tmp_path, margin, inexact):
    """As in llama_cpp_odd/qwen35mtp-default_slots-60103, where a draft was rolled back to a plane of another ubatch."""
    cold = {"equal": False, "first_diff": 1, "cold_margin": margin}
    trace = read(tmp_path, changed(inexact=[], steps=[{**STEP, "cold": cold}]))
    assert (trace.inexact, trace.steps[0].members[0].inexact) == ({0} if inexact else set(), inexact)


PLAIN = Request((5, 6, 7), n_predict=2, forced=(8, 9), chat=False)


def test_steps_of_every_operation_are_read(tmp_path):
    saved = {"status": 200, "n_saved": 3}
    steps = [
        {**STEP, "events": [{"ev": "warn", "text": "x"}], "decodes": [[1, 2]]},
        {"i": 1, "op": "slot", "request": {"action": "save", "id_slot": 1, "filename": "a/b.bin"}, "response": saved},
        {"i": 2, "op": "lora", "request": {"set": [{"id": 1, "scale": 0.5}]}, "response": {"status": 200}},
        {"i": 3, "op": "restart", "flags": ["-c", "256"], "response": {}}, {"i": 4, "op": "restart"},
        {"i": 5, "op": "parallel", "one_request": True, "decodes": [], "died": {"fatal": "no room"}, "steps": [
            {**STEP, "i": "5.0", "task": 4}, {"i": "5.1", "op": "slot", "request": {"action": "erase", "id_slot": 0}}]},
    ]  # fmt: skip
    trace = read(tmp_path, changed(steps=steps, log=False))
    member = TraceMember(PLAIN, STEP["response"], True)
    erase = TraceMember(Request(()), {}, None, launched=False, action="erase")
    assert trace.steps == [
        TraceStep(0, (member,), STEP["response"], [{"ev": "decode", "n_tokens": 2}], rounds=True),
        TraceStep(1, (), saved, [], "save", 1, "b.bin"), TraceStep(2, (), {"status": 200}, [], "lora", scales="1:0.5"),
        TraceStep(3, (), {}, [], "restart", options={"ctx_size": 256, "parallel": -1}),
        TraceStep(4, (), {}, [], "restart"),
        TraceStep(5, (replace(member, inexact=False, task=4), erase), {}, [], died=True, rounds=True, at_once=True),
    ]  # fmt: skip
    assert (trace.has_log, trace.can_sleep, trace.out, trace.server) == (False, False, "", GOOD["server"])
    assert [step.acts for step in trace.steps] == [False] * 5 + [True]
    assert not any(step.waits or step.arrives_unlogged for step in trace.steps)
    assert replace(trace.steps[5], at_once=False).waits


def test_the_warnings_of_a_server_that_sleeps_are_no_events_of_any_step(tmp_path):
    warn, own = {"ev": "warn", "text": "-----"}, {"ev": "slot_skip_empty"}
    steps = [{**STEP, "events": [warn, own]}, {**STEP, "i": 1, "events": [warn, own]}]
    flags = [*GOOD["flags"], "--sleep-idle-seconds", "1"]
    trace = read(tmp_path, changed(steps=steps, flags=flags))
    assert trace.can_sleep and [step.events for step in trace.steps] == [[own], [own]]


def test_batches_are_events_at_their_places(tmp_path):
    events = [{"ev": "launch", "is_child": 0}, {"ev": "release", "n_tokens": 5}]
    [step] = read(tmp_path, with_step(events=events, decodes=[[0, 4], [1, 3], [1, 2], [2, 1]])).steps
    assert [event.get("n_tokens", event["ev"]) for event in step.events] == [4, "launch", 3, 2, 5, 1]
    assert [event["ev"] for event in step.events] == ["decode", "launch", "decode", "decode", "release", "decode"]


def test_the_kind_of_a_task_is_that_of_its_step(tmp_path):
    kinds = [read(tmp_path, with_step(**more)).steps[0].members[0].request.kind for more in ({}, {"kind": "infill"})]
    assert kinds == ["completion", "infill"]
    with pytest.raises(BadInput, match="completion or infill"):
        read(tmp_path, with_step(kind="rerank"))


def test_a_rejected_draft_without_a_length_may_be_longer(tmp_path):
    events = [{"ev": "spec_ckpt", "n_tokens": 5}, {"ev": "spec_restore"}, {"ev": "release", "n_tokens": 6}]
    [member] = read(tmp_path, with_step(events=events)).steps[0].members
    assert [request.drafts for request in member.longer] == [((5, length, 0),) for length in LENGTHS]
    assert member.request.drafts == ((5, 1, 0),)
    [known] = read(tmp_path, with_step(events=events, drafts=[[5, 3]])).steps[0].members
    assert (known.request.drafts, known.longer) == (((5, 3, 0),), ())


@pytest.mark.parametrize(("response", "more", "inexact"), [
    ({"cancelled": True}, {}, None), ({"cancelled": True}, {"cold": {}}, False), ({}, {}, False),
    ({"tokens": [1]}, {"stuck": True}, False), ({}, {"stuck": True}, None), ({}, {"stuck": True, "cold": None}, False),
])  # fmt: skip
def test_an_answer_without_a_cold_answer_is_compared_with_nothing(tmp_path, response, more, inexact):
    step = {**STEP, "response": response, **more}
    assert read(tmp_path, changed(steps=[step], inexact=[])).steps[0].members[0].inexact is inexact


def test_an_answer_that_differs_by_rounding_with_other_batches_is_exact(tmp_path):
    cold = {"cold_margin": 0.5, "numeric": True}
    assert read(tmp_path, changed(steps=[{**STEP, "cold": cold}], inexact=[])).inexact == frozenset()
    members = [{**STEP, "i": "3.0"}, {**STEP, "i": "3.1", "cold": {"cold_margin": 0.5}}]
    group = {"i": 3, "op": "parallel", "steps": members}
    trace = read(tmp_path, changed(steps=[group], inexact=[]))
    assert trace.inexact == {3} and [member.inexact for member in trace.steps[0].members] == [False, True]


def test_a_recording_of_classes_with_wrong_settings_is_bad_input(tmp_path):
    data = json.loads((DATA / "sglang" / "full-44.json").read_text("utf-8"))
    assert read(tmp_path, data).classes == data
    with pytest.raises(BadInput, match="not a recording of classes"):
        read(tmp_path, {**data, "config": {}})
