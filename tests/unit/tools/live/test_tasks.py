"""Tests of the assignment of log tasks to requests."""

from __future__ import annotations

import pytest

from cachesim.base.http_client import HttpReply
from cachesim.tools.live.llama_server.tasks import (
    NO_TASK,
    SentTask,
    ServerTask,
    assign,
    came_to_its_end,
    details,
    lost_tokens,
    read_tasks,
    refused_tasks,
    sent_task,
)
from tests.unit.tools.live.test_hang_ups import launch, new_prompt, release, said, token


def draft(task, held, drafted):
    at = f"id  {task} | task {task} |"
    return f"D slot handle_last_: {at} generate_draft: id=107, #tokens={held}, #draft={drafted}, pos_next={held}"


def test_what_the_log_says_of_a_task(tmp_path):
    lines = said(tmp_path, launch(3), new_prompt(3, 5), token(3, 1, 107, "x"), draft(3, 5, 4), token(3, 2, 9, ")"),
                 release(3, 6))
    assert read_tasks(lines) == {3: ServerTask(slot=3, n_prompt=5, end=6, tokens=[107, 9], drafts=[(5, 4)])}


def test_a_further_completion_is_a_child(tmp_path):
    found = read_tasks(said(tmp_path, launch(3), launch(4, child=1), token(4, 1, 107, "x")))
    assert found == {3: ServerTask(slot=3), 4: ServerTask(slot=4, child=True, tokens=[107])}


def test_a_token_before_any_launch_has_no_task(tmp_path):
    assert read_tasks(said(tmp_path, token(0, 1, 95, "x"))) == {}


def test_an_answered_request_leaves_the_other_task_to_the_one_that_hung_up():
    """Both have equal prompts and first tokens: only slot and end distinguish them."""
    tasks = {
        7: ServerTask(slot=0, n_prompt=2, end=3, tokens=[172, 51]),
        8: ServerTask(slot=1, n_prompt=2, end=7, tokens=[172, 51]),
    }
    answered, hung_up = SentTask(2, [172, 51], 0, 3), SentTask(2, [172, 51])
    assert assign([answered, hung_up], tasks) == [7, 8]
    assert assign([hung_up, answered], tasks) == [8, 7]


def test_equal_lengths_are_told_apart_by_the_tokens():
    tasks = {
        1: ServerTask(slot=0, n_prompt=43, end=43, tokens=[81]),
        2: ServerTask(slot=0, n_prompt=43, end=43, tokens=[26]),
    }
    assert assign([SentTask(43, [26], 0, 43), SentTask(43, [81])], tasks) == [2, 1]


def test_the_end_decides_where_nothing_else_does():
    tasks = {
        1: ServerTask(slot=0, n_prompt=4, end=9, tokens=[5, 6, 7]),
        2: ServerTask(slot=0, n_prompt=4, end=5, tokens=[5, 6]),
    }
    assert assign([SentTask(4, [5, 6], 0, 5)], tasks) == [2]


def test_a_request_that_saw_more_tokens_than_a_task_made_is_another():
    """The log has only the first token of both; the disconnected request was sent first and launched second."""
    tasks = {
        1: ServerTask(slot=0, n_prompt=4, end=5, tokens=[5]),
        2: ServerTask(slot=0, n_prompt=4, end=22, tokens=[5, 6, 7]),
    }
    hung_up, answered = SentTask(4, [5, 6, 7]), SentTask(4, [5, 6], 0, 5)
    assert assign([hung_up, answered], tasks) == [2, 1]
    assert assign([answered, hung_up], tasks) == [1, 2]


def test_of_two_that_hung_up_the_one_that_asked_for_a_slot_has_it():
    tasks = {1: ServerTask(slot=1, n_prompt=9), 2: ServerTask(slot=0, n_prompt=9)}
    assert assign([SentTask(9), SentTask(9, asked=1)], tasks) == [2, 1]
    assert assign([SentTask(9, asked=1), SentTask(9)], tasks) == [1, 2]
    assert assign([SentTask(9, asked=3)], tasks) == [1]            # the slot does not exist: any


def test_a_task_that_ended_with_the_last_token_that_a_client_saw_is_as_good_as_one_that_went_on():
    """The last generated token is not in the slot. The first of two equally good tasks is assigned."""
    tasks = {1: ServerTask(slot=0, n_prompt=4, end=5, tokens=[5]), 2: ServerTask(slot=0, n_prompt=4, end=9, tokens=[5])}
    assert assign([SentTask(4, [5, 6])], tasks) == [1]
    assert assign([SentTask(4, [5, 6, 7])], tasks) == [2]


def test_what_was_never_launched_has_no_task_and_completions_stay_with_theirs():
    tasks = {1: ServerTask(slot=1, child=True), 2: ServerTask(slot=0, n_prompt=4)}
    assert assign([SentTask(9), SentTask(4)], tasks) == [None, 2]
    assert assign([SentTask(4), SentTask(4)], tasks) == [2, None]


def test_beside_a_request_stands_what_only_the_log_says():
    task = ServerTask(slot=0, n_prompt=2, tokens=[5, 6], drafts=[(3, 4)])
    assert details(task, 1, answered=True) == {"task": 1, "drafts": [[3, 4]]}
    assert details(task, None, answered=False) == {"drafts": [[3, 4]], "generated": [5, 6]}


def test_a_request_over_which_another_conversation_was_loaded_came_to_its_end_elsewhere():
    assert came_to_its_end(ServerTask(end=7, tokens=[1, 2, 3]), 9, 3)
    assert not came_to_its_end(ServerTask(end=11, tokens=[1, 2, 3]), 9, 3)       # in place
    assert not came_to_its_end(ServerTask(end=7, tokens=[1, 2]), 9, 3)           # the hang-up ended it
    assert not came_to_its_end(ServerTask(tokens=[1, 2, 3]), 9, 3)               # not released


def test_a_request_that_was_refused_before_its_launch_has_no_task(tmp_path):
    """The other request with an equal prompt has disconnected."""
    member = {"op": "completion", "request": {"prompt": [1, 2, 3, 4]}}
    error = {"error": {"message": "Cannot run multiple aLoRAs in a single request"}}
    refused, gone = sent_task(member, HttpReply(400, error)), sent_task(member, [])
    assert (refused.n_prompt, gone.n_prompt) == (NO_TASK, 4)
    assert assign([refused, gone], {1: ServerTask(slot=0, n_prompt=4)}) == [None, 1]
    assert assign([refused], {1: ServerTask(slot=0)}) == [None]
    assert sent_task(member, HttpReply(400, {"error": {"message": "too long"}})).n_prompt == 4
    lines = said(tmp_path, *(f"E srv  process_sing: failed to launch slot with {what}task, id_task = 3"
                             for what in ("", "child ", "parent ")))
    assert refused_tasks(lines, [refused, gone]) == 1


COMPLETION = {"id_slot": 1, "tokens": [5, 6], "tokens_cached": 7}


@pytest.mark.parametrize(("request_", "reply", "sent"), [
    ({}, HttpReply(200, COMPLETION), SentTask(4, [5, 6], slot=1, end=7)),
    ({}, HttpReply(200, [COMPLETION, {}]), SentTask(4, [5, 6], slot=1, end=7)),
    ({}, HttpReply(500, COMPLETION), SentTask(4)), ({}, HttpReply(400, "invalid tokens"), SentTask(4)),
    ({}, HttpReply(400, "Prompt contains invalid tokens"), SentTask(NO_TASK)), ({}, None, SentTask(4)),
    ({}, [5, 6], SentTask(4, [5, 6])), ({"n_cmpl": 1}, [5, 6], SentTask(4, [5, 6])),
    ({"n_cmpl": 2}, [5, 6], SentTask(4, [5])), ({"n_cmpl": 2}, None, SentTask(4, [])),
    ({"id_slot": 0}, [5], SentTask(4, [5], asked=0)), ({"id_slot": -1}, [5], SentTask(4, [5])),
])  # fmt: skip
def test_known_facts_of_a_request(request_, reply, sent):
    member = {"op": "completion", "request": {"prompt": [1, 2, 3, 4], **request_}}
    assert sent_task(member, reply) == sent


def test_a_slot_operation_has_no_tokens():
    assert sent_task({"op": "slot", "request": {}}, HttpReply(200, {"n_saved": 3})) == SentTask(0)


@pytest.mark.parametrize(("request_", "reply", "end", "lost"), [
    ({"cancel_after": 2}, [5], 7, True), ({"cancel_after": 0}, None, 7, True), ({}, [5], 7, False),
    ({"cancel_after": 2}, HttpReply(200, COMPLETION), 7, False), ({"cancel_after": 2, "n_cmpl": 2}, [5], 7, False),
    ({"cancel_after": 2, "n_cmpl": 1}, [5], 7, True), ({"cancel_after": 2}, [5], 6, False),
    ({"cancel_after": 2}, [5], None, False), ({"cancel_after": 2, "n_predict": 2}, [5], 7, False),
])  # fmt: skip
def test_tokens_that_neither_client_nor_slot_has_are_lost(request_, reply, end, lost):
    member = {"request": {"prompt": [1, 2, 3, 4], "n_predict": 3, **request_}}
    assert lost_tokens(member, reply, ServerTask(end=end, tokens=[5, 6, 7])) is lost


def test_a_task_is_best_without_contradictions_and_none_is_worse_than_any():
    """The end, the requested slot, and an end before the received tokens count one each."""
    sent = SentTask(4, [5, 6, 7], asked=1)
    early, elsewhere, right = (ServerTask(slot=slot, n_prompt=4, end=end, tokens=[5])
                               for slot, end in ((0, 5), (0, 6), (1, 6)))  # fmt: skip
    assert assign([sent], {1: early, 2: elsewhere, 3: right}) == [3]
    assert assign([sent], {1: early, 2: elsewhere}) == [2] and assign([sent], {1: early}) == [1]
    assert assign([sent, sent], {1: early, 2: right}) == [2, 1] and assign([], {1: early}) == []
    for number in (0, 2):                                        # the request with fewer contradictions gets the task
        assert assign([SentTask(4, asked=9), SentTask(4)], {number: right}) == [None, number]
    assert assign([SentTask(4, slot=0)], {1: right}) == [None] and assign([SentTask(5)], {1: right}) == [None]


def test_of_equal_assignments_the_first_task_goes_to_the_first_request():
    """The second request asked for a slot that neither task has."""
    tasks = {number: ServerTask(slot=0, n_prompt=4, end=4, tokens=[5]) for number in (1, 2)}
    assert assign([SentTask(4, [5]), SentTask(4, [5], asked=9)], tasks) == [1, 2]
