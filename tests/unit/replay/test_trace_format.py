"""Tests of the shapes of recordings: step numbers, file names, events, steps and headers."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.json_shapes import INT32, ShapeMismatch
from cachesim.replay import trace_format
from cachesim.replay.trace_format import NAME_BYTES, check_trace, event, file_name, log, member, step, step_number


def refused(check, value):
    try:
        check(value)
    except ShapeMismatch:
        return True
    return False


@pytest.mark.parametrize("value", [0, 3, INT32, "3", "3.1", "123456789", "123456789.123456789"])
def test_the_number_of_a_step(value):
    assert not refused(step_number, value)


@pytest.mark.parametrize("value", [
    -1, INT32 + 1, True, 3.0, None, "", "3.", ".1", "3.1.2", "-3", " 3", "1234567890", "1.1234567890", "\u0663",
])  # fmt: skip
def test_what_is_no_number_of_a_step(value):
    assert refused(step_number, value)


@pytest.mark.parametrize(("name", "bad"), [
    ("a.bin", False), ("/tmp/x/a.bin", False), ("a" * NAME_BYTES, False), ("a" * (NAME_BYTES + 1), True),
    ("\u00e9" * 128, True), ("", True), ("x/", True), ("x/..", True), (".", True), ("a\nb", True),
])  # fmt: skip
def test_the_name_of_a_file(name, bad):
    assert refused(file_name, name) is bad


def mismatch(check, value):
    """The place and the cause of a refused value, or None."""
    try:
        check(value)
    except ShapeMismatch as found:
        return found.path, found.cause
    return None


TYPES = "int or float or bool or str"
LARGE = 2**63


@pytest.mark.parametrize(("value", "found"), [
    (3, ("", "expected an object, found 3")), ({}, ("", "missing key 'ev'")),
    ({"ev": 3}, (".ev", "expected a string, found 3")), ({"ev": None}, (".ev", "expected a string, found None")),
    ({"ev": "x"}, None), ({"ev": "x", "other": 3, "more": "text", "share": 0.5, "is": True}, None),
    ({"ev": "x", "other": [1]}, (".other", f"expected a value of type {TYPES}, found [1]")),
    ({"ev": "x", "n_tokens": 3}, None),
    ({"ev": "x", "n_tokens": "3"}, (".n_tokens", "expected a value of type int, found '3'")),
    ({"ev": "x", "n_tokens": True}, (".n_tokens", "expected a value of type int, found True")),
    ({"ev": "x", "f_keep": "-nan"}, None), ({"ev": "x", "f_keep": 1}, None), ({"ev": "x", "f_keep": 0.5}, None),
    ({"ev": "x", "is_child": 1, "truncated": False, "yes": 0}, None), ({"ev": "x", "yes": "1"}, (
        ".yes", "expected a value of type {}, found '1'")),
    ({"ev": "release"}, ("", "missing key 'n_tokens'")), ({"ev": "new_prompt", "n_tokens": 3}, None),
    ({"ev": "spec_ckpt"}, ("", "missing key 'n_tokens'")),
    ({"ev": "spec_step", "n_tokens": 3}, ("", "missing key 'accepted'")),
    ({"ev": "x", "other": 2 * LARGE - 2}, None), ({"ev": "x", "other": 1 - LARGE}, None),
    ({"ev": "x", "other": 2 * LARGE - 1}, (".other", f"expected a smaller number, found {2 * LARGE - 1}")),
    ({"ev": "x", "other": -LARGE}, (".other", f"expected a smaller number, found {-LARGE}")),
])  # fmt: skip
def test_an_event_has_a_kind_and_plain_values(value, found):
    if found and "{}" in found[1]:
        found = found[0], found[1].format(" or ".join(kind.__name__ for kind in trace_format.KINDS["yes"]))
    for _ in range(2):                                  # a form that fits is remembered
        assert mismatch(event, value) == found


CKPT, STEP = {"ev": "spec_ckpt", "n_tokens": 1}, {"ev": "spec_step", "n_tokens": 1, "accepted": 1}


@pytest.mark.parametrize(("events", "found"), [
    ([], None), ([STEP], None), ([CKPT, {**STEP, "drafted": 1}], None),
    ([CKPT, STEP], ("[1]", "missing key 'drafted'")),
    ([{**STEP, "drafted": 1}, STEP, CKPT], ("[1]", "missing key 'drafted'")),
    ([CKPT, 3], ("[1]", "expected an object, found 3")),
    (3, ("", "expected a list, found 3")),
])  # fmt: skip
def test_drafts_after_a_checkpoint_have_their_length(events, found):
    assert mismatch(log, events) == found


PROMPT = {"request": {"prompt": [1]}}
SAVE = {"request": {"action": "save", "id_slot": 0}}


@pytest.mark.parametrize(("value", "found"), [
    ([], ("", "expected an object, found []")), ({}, ("", "missing key 'op'")),
    ({"op": 3}, (".op", "expected a string, found 3")),
    ({"op": "paralel"}, ("", "unknown operation 'paralel'")),
    ({"op": "completion", "i": 1, **PROMPT}, None), ({"op": "chat", "i": 1, **PROMPT, "response": None}, None),
    ({"op": "completion", "i": "3.1", **PROMPT}, (".i", "expected a number, found '3.1'")),
    ({"op": "completion", "i": 1}, ("", "missing key 'request'")),
    ({"op": "completion", "i": 1, "request": {"prompt": [1], "stp": "x"}}, (".request", "unknown key 'stp'")),
    ({"op": "completion", "i": 1, **PROMPT, "drafts": [[1, 2], [1]]},
     (".drafts[1]", "expected tokens held and tokens drafted, found [1]")),
    ({"op": "completion", "i": 1, **PROMPT, "decodes": [[1, 2, 3]]},
     (".decodes[0]", "expected events before a batch and its tokens, found [1, 2, 3]")),
    ({"op": "completion", "i": 1, **PROMPT, "decodes": [[1, 2]], "drafts": [[1, 2]]}, None),
    ({"op": "slot", "i": 1, **SAVE}, None),
    ({"op": "slot", "i": 1, "request": {"action": "clear", "id_slot": 0}},
     (".request.action", "expected save, restore or erase, found 'clear'")),
    ({"op": "lora", "i": 1, "request": {"set": [{"id": 0, "scale": 0.5}]}}, None),
    ({"op": "lora", "i": 1, "request": {}}, (".request", "missing key 'set'")),
    ({"op": "restart", "i": 1, "flags": ["-np", "1"]}, None),
    ({"op": "parallel", "i": 1, "steps": []}, ("", "a group without requests")),
    ({"op": "parallel", "i": 1}, ("", "missing key 'steps'")),
    ({"op": "parallel", "i": 1, "steps": [{"op": "chat", "i": "1.1", **PROMPT}, {"op": "slot", "i": 2, **SAVE}]}, None),
    ({"op": "parallel", "i": 1, "steps": [{"op": "restart", "i": 2}]}, (".steps[0]", "unknown operation 'restart'")),
    ({"op": "parallel", "i": 1, "steps": [{"op": "chat", "i": 2, **PROMPT, "drafts": [[1]]}]},
     (".steps[0].drafts[0]", "expected tokens held and tokens drafted, found [1]")),
    ({"op": "parallel", "i": 1, "steps": [{"op": "slot", "i": 2, "request": {"action": "x", "id_slot": 0}}]},
     (".steps[0].request.action", "expected save, restore or erase, found 'x'")),
])  # fmt: skip
def test_a_step_has_the_form_of_its_operation(value, found):
    assert mismatch(step, value) == found


def test_a_misspelt_operation_has_a_hint():
    with pytest.raises(ShapeMismatch) as found:
        member({"op": "complet"})
    assert found.value.hint == "did you mean 'completion'?"


HEADER = {"engine": "x", "commit": "c", "model": "m", "name": "n", "flags": [], "server": {"other": [1]}, "inexact": [],
          "steps": []}  # fmt: skip
CLASSES = {"engine": "x", "version": "1", "name": "n", "config": {}, "requests": {}, "steps": [], "final": {}}


@pytest.mark.parametrize(("header", "classes"), [(HEADER, False), (CLASSES, True)])
def test_a_header_has_all_its_keys_and_no_others(header, classes):
    check_trace(header, "t.json", classes)
    for name in header:
        with pytest.raises(BadInput) as bad:
            check_trace({key: value for key, value in header.items() if key != name}, "t.json", classes)
        assert str(bad.value) == f"t.json: missing key '{name}'"
    with pytest.raises(BadInput) as bad:
        check_trace({**header, "stps": []}, "t.json", classes)
    assert str(bad.value) == "t.json: unknown key 'stps' (did you mean 'steps'?)"
    with pytest.raises(BadInput):
        check_trace(header, "t.json", not classes)


@pytest.mark.parametrize("value", [5, None, ["a"], {"a": 1}, True, b"a"])
def test_a_name_of_a_file_is_a_text(value):
    assert refused(file_name, value)
