"""What the server did not reuse although the client sent it unchanged: its cause if it follows, else unknown."""

from __future__ import annotations

import re

import pytest

from cachesim.tools.watch.server_losses import (
    KEPT,
    NEAR,
    UNREACHABLE,
    BodyLink,
    ServedRequest,
    ServerLosses,
)


class Server:
    """Requests of conversations in their order, of 200 tokens that extend 100, by default in slot 0."""

    def __init__(self, slots=0):
        self.losses = ServerLosses(slots)
        self.moment, self.numbers = 0, {}

    def event(self, what, slot=None):
        self.moment += 1
        self.losses.note(self.moment, what, slot)

    def ask(self, conversation, reused, prompt=200, slot=0, cause="extends", forbids=False, **more):
        self.moment += 1
        before = self.numbers.get(conversation, 0)
        self.numbers[conversation] = number = self.moment
        link = BodyLink(number, before, conversation, forbids)
        self.losses.add(ServedRequest(link, self.moment, slot=slot, prompt=prompt, reused=reused, **more), cause)
        return self.losses.loss(number, cause)


def started(**more):
    server = Server(**more)
    assert server.ask(1, 0, 100, cause="new") is None
    return server


def test_what_was_reused_is_no_loss_and_neither_are_the_last_tokens_of_a_turn():
    assert started().ask(1, 100) is None and started().ask(1, 100 - NEAR) is None
    assert started().ask(1, 99 - NEAR)["tokens"] == NEAR + 1


@pytest.mark.parametrize("cause, prompt, tokens", [("extends", 200, 100), ("same", 100, 99), ("back", 60, 59)])
def test_the_previous_prompt_counts_as_far_as_this_one_repeats_it(cause, prompt, tokens):
    loss = started().ask(1, 0, prompt, cause=cause)
    assert (loss["tokens"], loss["cause"]) == (tokens, "unknown")


@pytest.mark.parametrize("cause", ["new", "edited", "text"])
def test_a_changed_prompt_has_the_cause_of_its_body_alone(cause):
    assert started().ask(1, 0, cause=cause) is None


def test_another_conversation_in_the_slot_overwrote_it():
    server = started()
    server.ask(2, 0, cause="new")
    loss = server.ask(1, 0)
    assert (loss["cause"], loss["tokens"], bool(loss["advice"])) == ("overwritten", 100, True)
    assert re.findall(r"\d+", loss["says"]) == ["100", "100", "2", "0"]             # conversation 2, slot 0


def test_the_only_slot_has_the_number_0():
    server = started(slots=1)
    server.ask(2, 0, 100, slot=None, cause="new")
    assert server.ask(1, 0)["cause"] == "overwritten"


@pytest.mark.parametrize("slots, cause", [(1, "overwritten"), (0, "unknown"), (2, "unknown")])
def test_slots_that_no_reply_states_are_known_only_if_there_is_one(slots, cause):
    server = Server(slots)
    server.ask(1, 0, 100, slot=None, cause="new")
    server.ask(2, 0, slot=None, cause="new")
    loss = server.ask(1, 0, slot=None)
    assert loss["cause"] == cause and re.findall(r"\d+", loss["says"])[:3] == ["100", "100", "2"]


def test_several_conversations_are_counted():
    server = started()
    for conversation in (2, 3):
        server.ask(conversation, 0, slot=None, cause="new")
    assert re.findall(r"\d+", server.ask(1, 0)["says"]) == ["100", "100", "2"]


@pytest.mark.parametrize("action, cause", [("erase", "erased"), ("restore", "restored over")])
def test_an_action_on_the_slot_is_the_cause_and_one_on_another_slot_is_not(action, cause):
    for slot, expected in ((0, cause), (1, "unknown")):
        server = started()
        server.event(action, slot)
        assert server.ask(1, 0)["cause"] == expected


def test_the_first_of_several_events_is_the_cause():
    server = started()
    server.event("erase", 0)
    server.ask(2, 0, cause="new")
    assert server.ask(1, 0)["cause"] == "erased"


def test_events_before_the_previous_request_or_after_this_one_are_not_its_cause():
    server = Server()
    server.event("erase", 0)
    server.event(UNREACHABLE)
    server.ask(1, 0, 100, cause="new")
    assert server.ask(1, 0)["cause"] == "unknown"


def test_a_slot_that_still_holds_the_conversation_is_named():
    loss = started().ask(1, 0, slot=2)
    assert loss["cause"] == "other slot" and re.findall(r"\d+", loss["says"])[2:] == ["2", "0"]


def test_a_request_that_forbids_reuse_lost_it_by_itself():
    server = started()
    server.event("erase", 0)
    assert server.ask(1, 0, forbids=True)["cause"] == "reuse forbidden"


def test_a_server_that_could_not_be_reached_is_not_known_to_be_restarted():
    server = started()
    server.event(UNREACHABLE)
    loss = server.ask(1, 0)
    assert loss["cause"] == "unreachable"


@pytest.mark.parametrize("run, task, cause", [(1, 0, "restarted"), (1, 9, "unknown"), (0, 9, "unknown")])
def test_a_log_shows_a_restart_where_task_numbers_begin_again(run, task, cause):
    server = Server()
    server.ask(1, 0, 100, cause="new", run=0, task=4)
    loss = server.ask(1, 0, run=run, task=task)
    assert loss["cause"] == cause


def test_a_restart_before_a_request_of_another_conversation_is_found():
    server = Server()
    server.ask(1, 0, 100, cause="new", run=0, task=4)
    server.ask(2, 0, cause="new", run=1, task=0)
    assert server.ask(1, 0, run=1, task=6)["cause"] == "restarted"


def test_a_request_without_counts_leaves_at_least_what_it_extends():
    server = started()
    assert server.ask(1, None, None, slot=None) is None                  # its client hung up
    assert server.ask(1, 100) is None and server.ask(2, 0, cause="new") is None
    assert server.ask(1, 0)["cause"] == "overwritten"
    moved = started()
    moved.ask(1, None, None, slot=3)
    assert moved.ask(1, 0) is None                                       # what slot 3 held is unknown


@pytest.mark.parametrize("moment, cause", [(10, "unknown"), (11, "erased"), (20, "erased"), (21, "unknown")])
def test_events_after_the_previous_request_up_to_the_end_of_this_one_count(moment, cause):
    losses = ServerLosses()
    losses.note(moment, "erase", 0)
    losses.add(ServedRequest(BodyLink(1), 10, slot=0, prompt=100, reused=0), "new")
    losses.add(ServedRequest(BodyLink(2, 1), 20, slot=0, prompt=200, reused=0), "extends")
    assert losses.loss(2, "extends")["cause"] == cause


@pytest.mark.parametrize("moment, cause", [(10, "unknown"), (11, "overwritten"), (20, "overwritten"), (21, "unknown")])
def test_requests_that_ended_after_the_previous_one_up_to_the_end_of_this_one_count(moment, cause):
    losses = ServerLosses()
    losses.add(ServedRequest(BodyLink(1, 0, 1), 10, slot=0, prompt=100, reused=0), "new")
    losses.add(ServedRequest(BodyLink(2, 0, 2), moment, slot=0, prompt=100, reused=0), "new")
    losses.add(ServedRequest(BodyLink(3, 1, 1), 20, slot=0, prompt=200, reused=0), "extends")
    assert losses.loss(3, "extends")["cause"] == cause


@pytest.mark.parametrize("run, task, next_task, cause", [
    (1, 4, 4, "restarted"), (1, 4, 5, "unknown"), (0, 4, 4, "unknown"), (1, None, 0, "unknown"),
    (1, 4, None, "unknown"),
])  # fmt: skip
def test_a_restart_needs_two_task_numbers_of_different_runs(run, task, next_task, cause):
    server = Server()
    server.ask(1, 0, 100, cause="new", run=0, task=task)
    assert server.ask(1, 0, run=run, task=next_task)["cause"] == cause


def test_what_is_not_known_of_a_request_is_no_loss():
    losses = ServerLosses()
    losses.add(ServedRequest(BodyLink(2, 1), 20, slot=0, prompt=200, reused=0), "extends")
    assert losses.loss(2, "extends") is None and losses.loss(7, "extends") is None
    assert started().ask(1, None) is None
    unknown = Server()
    assert unknown.ask(1, 0, None, cause="new") is None and unknown.ask(1, 0) is None


@pytest.mark.parametrize("cause, tokens", [("extends", 100), ("edited", None)])
def test_a_request_without_counts_counts_as_its_previous_one_only_if_it_keeps_its_prompt(cause, tokens):
    server = started()
    server.ask(1, None, None, cause=cause)
    loss = server.ask(1, 0)
    assert (loss and loss["tokens"]) == tokens


def test_the_only_slot_of_a_server_is_slot_0():
    server = started(slots=1)
    server.event("erase", 0)
    assert server.ask(1, 0, slot=None)["cause"] == "erased"


def test_the_oldest_request_is_dropped_first():
    server = Server()
    for number in range(KEPT + 1):
        server.ask(number, 0, 100, cause="new")
    assert server.ask(KEPT, 0)["tokens"] == 100 and server.ask(0, 0) is None