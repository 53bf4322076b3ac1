"""Tests of the conversion of a recorded request to an equivalent request."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items
from cachesim.engines.base import AS_MANY_AS_ALLOWED, BEFORE_ITS_PROMPT, NO_TOKEN, Draft, Request
from cachesim.replay.event_owners import RequestEvents
from cachesim.replay.recorded_requests import (
    ANY_LENGTH,
    last_of_child,
    make_request,
    read_drafts,
    scales_text,
    tokenize,
    with_images,
)

CKPT = {"ev": "spec_ckpt", "pos_min": 14, "pos_max": 14, "n_tokens": 15}
REJECTED = [CKPT, {"ev": "spec_restore"}, {"ev": "spec_step", "accepted": 0, "drafted": 1, "n_tokens": 17}]


def made(events=(), body=(), response=(), **log):
    """The request for a prompt of ten tokens."""
    own = RequestEvents(list(events))
    return make_request("completion", {"prompt": [1] * 10, **dict(body)}, dict(response), own, log=log)


@pytest.mark.parametrize(("said", "drafted"), [([[15, 4], [15, 2]], 4), ([[15, 2], [15, 4]], 2), ([[14, 4]], 1)])
def test_of_drafts_at_one_place_the_first_is_the_one_that_was_logged(said, drafted):
    """The second draft follows the replay, which has no event of its own."""
    assert made(REJECTED, drafts=said).drafts == (Draft(15, drafted, 0),)


@pytest.mark.parametrize(("body", "number"), [({}, -1), ({"n_predict": 3}, 3), ({"n_predict": 3, "max_tokens": 4}, 4)])
def test_how_many_tokens_are_asked_for(body, number):
    assert made(body=body).n_predict == number


def test_what_lies_in_the_slot_is_what_was_generated_rather_than_what_the_client_saw():
    assert made(response={"tokens": [5], "tokens_in_slot": [5, 6]}).forced == (5, 6)
    assert made(response={"tokens": [5]}, generated=[7]).forced == (5,)
    assert made(generated=[7]).forced == (7,)


@pytest.mark.parametrize(("body", "ends", "cancel_at"), [
    ({}, [12], None), ({"cancel_after": 1}, [12, 14], 14), ({"cancel_after": 1}, [], None),
    ({"cancel_after": 1, "cancel_at_n": 13}, [12], 13),
])  # fmt: skip
def test_a_hang_up_takes_effect_where_the_slot_was_released(body, ends, cancel_at):
    assert made([{"ev": "release", "n_tokens": n} for n in ends], body).cancel_at == cancel_at


@pytest.mark.parametrize(("begins", "cancel_at"), [
    ([{"ev": "new_prompt", "n_tokens": 10}], 12), ([], BEFORE_ITS_PROMPT),
])  # fmt: skip
def test_a_prompt_whose_sibling_failed_is_cancelled_where_its_slot_was_released(begins, cancel_at):
    events = [{"ev": "launch", "is_child": 0}, *begins, {"ev": "release", "n_tokens": 12}]
    assert made(events, response={"cancelled": True}).cancel_at == cancel_at


def test_a_request_that_failed_before_its_disconnect_was_not_cancelled():
    events = RequestEvents(({"ev": "release", "n_tokens": 9},), has_failed=True)
    assert make_request("completion", {"prompt": [1] * 12, "cancel_after": 1}, {}, events).cancel_at is None


def events(*rows):
    """Events by kind and ``n_tokens``, with more fields by name."""
    return [{"ev": kind, "n_tokens": n, **more} for kind, n, more in rows]


def ckpt(n):
    return "spec_ckpt", n, {}


def step(n, accepted, drafted):
    return "spec_step", n, {"accepted": accepted, "drafted": drafted}


RESTORE, OTHER = ("spec_restore", 0, {}), ("batch", 0, {})


@pytest.mark.parametrize(("logged", "drafts"), [
    ([], []),
    ([step(14, 2, 3), step(18, 3, 3)], [(11, 3, 2), (14, 3, 3)]),
    ([ckpt(12), step(15, 2, 4), ckpt(15), step(16, 0, 2)], [(12, 4, 2), (15, 2, 0)]),
    ([ckpt(12), OTHER, RESTORE, OTHER, step(15, 2, 3)], [(12, 3, 2)]),       # a replay shows what was accepted
    ([ckpt(12), RESTORE, ("release", 16, {})], [(12, 3, 2)]), ([ckpt(12), RESTORE, ("release", 12, {})], [(12, 1, 0)]),
    ([ckpt(12), RESTORE], [(12, 1, 0)]), ([ckpt(12), RESTORE, ckpt(13)], [(12, 1, 0)]),
    ([ckpt(12), ("release", 16, {})], [(12, 3, 3)]), ([ckpt(12), ("release", 12, {})], [(12, 1, 1)]),
    ([ckpt(12)], []), ([ckpt(12), ckpt(13), step(15, 1, 1)], [(13, 1, 1)]),
])  # fmt: skip
def test_drafts_are_read_from_the_events_of_their_request(logged, drafts):
    assert read_drafts(events(*logged), {}, 10) == tuple(Draft(*draft) for draft in drafts)


@pytest.mark.parametrize(("lengths", "unknown", "drafted"), [
    ({}, 0, 3), ({}, 8, 8), ({}, 2, 3), ({12: 5}, 8, 5), ({12: 1}, 8, 3), ({13: 5}, 8, 8),
])  # fmt: skip
def test_the_length_of_a_rejected_draft_is_the_recorded_or_the_supposed_one(lengths, unknown, drafted):
    logged = events(ckpt(12), RESTORE, step(15, 2, 3))
    assert read_drafts(logged, {}, 10, lengths=lengths, unknown=unknown) == (Draft(12, drafted, 2),)


def test_a_recorded_length_of_no_logged_draft_is_that_of_the_last_if_it_is_behind_them():
    logged = events(step(14, 2, 3), step(17, 2, 3), ("release", 20, {}))
    known = (Draft(11, 3, 2), Draft(14, 3, 2))
    assert read_drafts(logged, {}, 10, lengths={13: 4}) == read_drafts(logged, {}, 10, lengths={14: 4}) == known
    assert read_drafts(logged, {}, 10, lengths={13: 4, 17: 4}) == (*known, Draft(17, 4, 2))


def test_the_drafts_before_the_last_one_of_a_process_that_ended_have_their_recorded_lengths():
    logged = events(ckpt(12), RESTORE, step(15, 2, 3), ckpt(15))
    for died in ("batch must be large enough", "cannot remove p0=20"):
        assert read_drafts(logged, {}, 10, died, lengths={12: 6}, unknown=9)[0] == Draft(12, 6, 2)
        assert read_drafts(logged, {}, 10, died, unknown=9)[0] == Draft(12, 9, 2)


def test_a_log_without_lengths_means_as_many_as_are_allowed():
    logged = events(("spec_step", 14, {"accepted": 2}), ("release", 20, {}))
    assert read_drafts(logged, {"draft_n": 9}, 10) == (Draft(11, AS_MANY_AS_ALLOWED, 2),)


@pytest.mark.parametrize(("draft_n", "last"), [(7, [Draft(17, 2, 2)]), (6, [Draft(18, 1, 1)]), (5, []), (0, [])])
def test_a_draft_that_ended_the_generation_is_what_the_sum_has_beside_the_logged_ones(draft_n, last):
    logged = events(step(14, 2, 3), step(16, 1, 2), ("release", 20, {}))
    assert read_drafts(logged, {"draft_n": draft_n}, 10) == (Draft(11, 3, 2), Draft(14, 2, 1), *last)
    assert read_drafts(logged[:2], {"draft_n": draft_n}, 10) == (Draft(11, 3, 2), Draft(14, 2, 1))


@pytest.mark.parametrize(("logged", "died", "drafts"), [
    ([ckpt(12), step(15, 2, 4), ckpt(15)], "batch must be large enough", [(12, 4, 2), (15, ANY_LENGTH, 0)]),
    ([], "batch must be large enough", [(10, ANY_LENGTH, 0)]),
    ([step(14, 2, 3)], "batch must be large enough", [(11, 3, 2), (14, ANY_LENGTH, 0)]),
    ([ckpt(12)], "aborted", [(12, ANY_LENGTH, 0)]),                     # its last line was not written
    ([ckpt(12), ("release", 12, {})], "aborted", [(12, 1, 1)]),
    ([ckpt(12)], "cannot remove p0=15 of a sequence", [(12, 3, 2)]),
    ([step(14, 2, 3)], "cannot remove p0=15", [(11, 3, 2), (14, 1, 0)]), ([], "p0=12", [(10, 2, 1)]),
])  # fmt: skip
def test_the_last_draft_of_a_process_that_ended_follows_from_its_message(logged, died, drafts):
    assert read_drafts(events(*logged), {"draft_n": 99}, 10, died) == tuple(Draft(*draft) for draft in drafts)


@pytest.mark.parametrize(("logged", "drafts", "last"), [
    ([("release", 15, {})], (), (Draft(10, 4, 4),)), ([step(14, 2, 3), ("release", 17, {})], (), (Draft(14, 2, 2),)),
    ([step(14, 2, 3), ("release", 15, {})], (), ()), ([], (), ()),
    ([("release", 15, {})], (Draft(10, 4, 4),), ()),
])  # fmt: skip
def test_the_last_draft_of_a_further_completion_reaches_to_its_end(logged, drafts, last):
    assert last_of_child(events(*logged), drafts, 10) == last


def test_a_request_has_every_field_of_its_body():
    body = {"n_predict": 3, "stop": ["x", "y"], "cache_prompt": False, "id_slot": 2, "n_keep": 0, "n_discard": 4,
            "n_cache_reuse": 5, "n_cmpl": 2, "lora": [{"id": 1, "scale": 0.5}, {}]}  # fmt: skip
    child = {"tokens": [8], "tokens_in_slot": [8, 9]}
    assert made(body=body, response={"tokens": [5], "completions": [child, {"tokens": [7]}, {}]}) == Request(
        (1,) * 10, n_predict=3, stop=("x", "y"), cache_prompt=False, id_slot=2, n_keep=0, n_discard=4, n_cache_reuse=5,
        n_cmpl=2, forced=(5,), children_forced=((8, 9), (7,), ()), extra={"lora": "1:0.5, -1:0"}, chat=False,
    )  # fmt: skip
    assert made() == Request((1,) * 10, n_predict=-1, forced=(), chat=False)
    assert made(body={"stop": "end", "n": 3, "n_cache_reuse": None, "lora": []}) == Request(
        (1,) * 10, n_predict=-1, stop=("end",), n_cmpl=3, forced=(), chat=False)  # fmt: skip


def test_a_token_that_no_model_has_is_none():
    assert made(body={"prompt": [319, 320, 99_999, -1]}).prompt == (319, NO_TOKEN, NO_TOKEN, NO_TOKEN)


@pytest.mark.parametrize(("more", "cancelled"), [
    ({"children": ((), ())}, ((2, 0), 7)), ({}, ((), 7)), ({"children": ((), ()), "has_failed": True}, ((2, 0), 7)),
])  # fmt: skip
def test_a_disconnect_has_its_place_and_with_further_completions_its_order(more, cancelled):
    own = RequestEvents((), released=(2, 0), place=7, **more)
    for body, found in (({"cancel_after": 1}, cancelled), ({}, ((), 0))):
        request = make_request("completion", {"prompt": [1], **body}, {}, own)
        assert (request.cancel_order, request.cancel_place) == found


def test_further_completions_draft_as_a_model_does_or_as_the_first_of_equal_texts():
    own = RequestEvents(events(step(14, 2, 3)), children=(events(("release", 15, {})), events(("release", 15, {}))))
    response = {"tokens": [5], "completions": [{"tokens": [5]}, {"tokens": [6]}]}

    def children(response, **given):
        return make_request("completion", {"prompt": [1] * 10}, response, own, **given).children_drafts

    assert children(response) == ((Draft(11, 3, 2),), ())
    assert children(response, by_model=True) == ((Draft(10, 4, 4),), (Draft(10, 4, 4),))
    assert children({**response, "cancelled": True}, by_model=True) == ((Draft(11, 3, 2),), ())
    assert children({}) == ((), ()) and children({}, died="p0=3") == ()
    assert children({}, by_model=True) == ((Draft(10, 4, 4),), (Draft(10, 4, 4),))


def test_scales_of_adapters_are_written_as_the_field_of_a_request():
    assert scales_text([{"id": 0, "scale": 1.5}, {"id": 2}, {"scale": 1}]) == "0:1.5, 2:0, -1:1"
    assert scales_text([]) == ""


def test_images_are_replaced_by_their_items_in_every_member():
    images = {"cat": {"sha256": "ab", "n_tokens": 3, "n_pos": 2}}
    items = list(image_items("ab", 3, 2))
    alone = {"op": "completion", "request": {"prompt": [1, {"image": "cat"}, 2], "n": 1}}
    assert with_images(alone, images) == {"op": "completion", "request": {"prompt": [1, *items, 2], "n": 1}}
    assert with_images({"op": "parallel", "steps": [alone, {"op": "slot", "request": {}}]}, images) == {
        "op": "parallel", "steps": [with_images(alone, images), {"op": "slot", "request": {}}]}  # fmt: skip
    assert alone["request"]["prompt"][1] == {"image": "cat"} and with_images({"op": "restart"}, images) == {
        "op": "restart"}  # fmt: skip
    with pytest.raises(BadInput) as bad:
        with_images(alone, {})
    assert str(bad.value) == "image 'cat' is not among the recorded images"


def test_a_delimiter_has_marks_and_single_characters():
    marks = tokenize("<|im_start|>a\n<|im_end|>")
    assert len(marks) == 4 and tokenize("a\n") == marks[1:3] and tokenize("") == ()
    for text in ("\x7f", "\t", "ä"):
        with pytest.raises(BadInput, match="of a delimiter is not in the recorded vocabulary"):
            tokenize(f"a{text}")
    assert len(tokenize(" ~")) == 2


def chat_prompt(*roles):
    return [token for role in roles for token in (*tokenize(f"<|im_start|>{role}\n"), *tokenize("hi"))]


def test_messages_of_a_chat_begin_at_their_marks():
    prompt = chat_prompt("user", "assistant", "user")
    starts = tuple(i for i in range(len(prompt)) if prompt[i : i + 6] == prompt[:6])
    assert make_request("chat", {"prompt": prompt}, {}, RequestEvents(())) == Request(
        tuple(prompt), n_predict=-1, forced=(), chat=True, user_starts=starts) and len(starts) == 2  # fmt: skip
    assert made(body={"prompt": prompt}).user_starts == ()
    given = [{"role": "assistant", "delimiter": "<|im_start|>assistant\n"}, {"role": "user", "delimiter": "hi"}]
    found = made(body={"prompt": prompt, "message_delimiters": given}).user_starts
    assert [prompt[i : i + 2] for i in found] == [list(tokenize("hi"))] * 3


def test_messages_of_a_text_begin_at_their_marks_or_else_at_their_bytes():
    prompt = chat_prompt("user", "assistant", "user")
    starts = tuple(i for i in range(len(prompt)) if prompt[i : i + 6] == prompt[:6])
    spans = [{"role": "user", "pos": 0}, {"role": "assistant", "pos": 5}, {"role": "user", "pos": 99}]
    found = made(body={"prompt": prompt, "message_spans": spans})
    assert (found.user_starts, found.byte_pos) == (starts, 99)
    plain = made(body={"prompt": list(tokenize("abcdef")), "message_spans": [{"role": "user", "pos": 2}]})
    assert (plain.user_starts, plain.byte_pos) == ((2,), 2)
    none = made(body={"prompt": prompt, "message_spans": [{"role": "tool", "pos": 2}]})
    assert (none.user_starts, none.byte_pos) == ((), None)


@pytest.mark.parametrize(("generated", "response", "forced", "cancel_at"), [
    ([5, 6], {"cancelled": True, "tokens": [5]}, (5, 6), None), ([5], {"cancelled": True, "tokens": [5]}, (5,), 14),
    ([5, 6], {"tokens": [5]}, (5,), 14),
])  # fmt: skip
def test_a_request_that_came_to_its_end_was_not_cancelled(generated, response, forced, cancel_at):
    body = {"n_predict": 2, "cancel_after": 1}
    found = made([{"ev": "release", "n_tokens": 14}], body, response, generated=generated)
    assert (found.forced, found.cancel_at) == (forced, cancel_at)


def test_drafts_of_further_completions_have_the_supposed_length_too():
    logged = events(ckpt(12), RESTORE, step(15, 2, 3))
    for own, response in (
        (RequestEvents(logged, children=(events(("release", 15, {})),)),
         {"tokens": [5], "completions": [{"tokens": [5]}]}),
        (RequestEvents(events(), children=(logged,)), {"tokens": [5], "completions": [{"tokens": [6]}]}),
    ):
        found = [make_request("completion", {"prompt": [1] * 10}, response, own, unknown=unknown).children_drafts
                 for unknown in (0, 8)]  # fmt: skip
        assert found == [((Draft(12, 3, 2),),), ((Draft(12, 8, 2),),)]
