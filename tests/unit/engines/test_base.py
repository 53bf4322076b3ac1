"""Requests and answers: drafts, errors, ends of the process, and the keys of their tokens."""

import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.base.keyed_tokens import IDS
from cachesim.engines.base import Answer, Draft, Request, prompt_of, with_identities


@pytest.mark.parametrize(("at", "right"), [(3, 1), (5, 0), (4, 7), (6, 7)])
def test_a_forced_draft_is_right_as_far_as_it_says_and_others_as_the_rest(at, right):
    request = Request((1, 2), drafts=(Draft(3, 2, 1), Draft(5, 2, 0)), draft_else=7)
    assert request.right_drafts(at) == right
    assert Request((1, 2)).right_drafts(at) == 0


def test_an_error_reply_has_its_text_kind_and_numbers():
    answer = Answer(0)
    answer.fails(400, "too long", "prompt-too-long", prompt=9, most=8)
    assert (answer.status, answer.error, answer.error_kind) == (400, "too long", "prompt-too-long")
    assert (answer.error_numbers, answer.died) == ({"prompt": 9, "most": 8}, False)


def test_an_ended_process_leaves_its_message_without_a_reply():
    answer = Answer(0)
    answer.dies(ProcessAborted("failed at 7", "assertion", at=7))
    assert (answer.died, answer.status, answer.error) == (True, 200, "failed at 7")
    assert (answer.error_kind, answer.error_numbers) == ("assertion", {"at": 7})


def test_reused_tokens_are_counted_over_all_sources():
    assert Answer(0).cache_n == 0 and Answer(0, reused={"slot": 3, "checkpoint": 4}).cache_n == 7


def test_a_shortened_prompt_is_the_one_that_was_answered():
    assert prompt_of(Request((1, 2, 3)), Answer(0)) == (1, 2, 3)
    assert prompt_of(Request((1, 2, 3)), Answer(0, prompt=(3,))) == (3,)


def test_without_keys_request_and_answer_stay_as_they_are():
    request, answer = Request((1, 2)), Answer(0, tokens=[3])
    assert with_identities(request, answer) == (request, answer)


def test_tokens_get_the_key_that_holds_at_their_position():
    keys = (0, 5), (3, 6)
    child = Answer(1, tokens=[8, 9], keys=((0, 4),))
    request, answer = with_identities(Request((1, 2)), Answer(0, tokens=[3, 4], slot_tokens=(1, 2, 3, 4), keys=keys,
                                                              children=[child]))  # fmt: skip
    five, six = 5 * IDS, 6 * IDS
    assert request.prompt == (1 + five, 2 + five) and answer.prompt is None
    assert answer.tokens == [3 + five, 4 + six]
    assert answer.slot_tokens == (1 + five, 2 + five, 3 + five, 4 + six)
    assert answer.children[0].tokens == [8 + 4 * IDS, 9 + 4 * IDS]


def test_the_answer_continues_a_shortened_prompt():
    request, answer = with_identities(Request((1, 2, 9)), Answer(0, tokens=[3], prompt=(1,), keys=((0, 5), (1, 6))))
    assert request.prompt == (1 + 5 * IDS, 2 + 6 * IDS, 9 + 6 * IDS)
    assert (answer.prompt, answer.tokens) == ((1 + 5 * IDS,), [3 + 6 * IDS])


def test_requests_and_answers_are_printed_without_their_defaults():
    assert "cache_prompt" not in repr(Request((1, 2)))
    assert "cache_prompt=False" in repr(Request((1,), cache_prompt=False))
    assert "died" not in repr(Answer(0)) and "died=True" in repr(Answer(0, died=True))
