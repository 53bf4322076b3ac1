"""Tests of empty rounds in a server's main loop: from the third on they are dropped, and many mean that it is stuck."""

from __future__ import annotations

from cachesim.engines.llama_cpp.log_events import entries, read_event
from cachesim.tools.live.llama_server.server import LONG, MANY, RoundFilter

ROUND = "D que    start_loop: processing new tasks"
UPDATE = "D srv  update_slots: posting NEXT_RESPONSE"
DECODE = "D srv        decode: n_batch (effective) = 512, off = 0"
IDLE = "I srv  update_slots: all slots are idle"
AT = "I slot   operator(): id  1 | task 16 |"
BATCH = f"{AT} cached n_tokens = 385, memory_seq_rm [385, end)"
CHOICE = "I slot get_availabl: id  1 | task 16 | selected slot by id (1)"
RELEASE = f"{AT} stop processing: n_tokens = 9, truncated = 0"
EMPTY = (ROUND, UPDATE, BATCH)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def hear(rounds, *lines):
    """Return the kinds of the kept events."""
    said = [entry for line in lines for entry in entries(f"0.00.000.001 {line}")]
    return [event["ev"] for event in map(read_event, rounds.hear(said)) if event]


def test_two_empty_rounds_are_heard_and_no_more():
    rounds = RoundFilter(Clock())
    assert hear(rounds, ROUND, CHOICE, UPDATE, BATCH, DECODE, *EMPTY * 9) == ["slot_by_id", "batch", "batch", "batch"]
    assert hear(rounds, *EMPTY * 9) == []


def test_what_is_asked_meanwhile_is_heard_with_its_round():
    rounds = RoundFilter(Clock())
    hear(rounds, *EMPTY * 9)
    assert hear(rounds, ROUND, CHOICE, UPDATE, BATCH, *EMPTY * 9) == ["slot_by_id", "batch"]


def test_what_changes_nothing_is_heard_and_the_round_around_it_is_not():
    """Another thread logs the disconnect of a waiting request; a control request for an unknown completion has no
    effect."""
    for what, line in (("cancel", "W srv  stop: cancel task, id_task = 7"), ("warn", "W srv  x: control reasoning")):
        rounds = RoundFilter(Clock())
        hear(rounds, *EMPTY * 9)
        assert hear(rounds, ROUND, line, UPDATE, BATCH, *EMPTY * 9) == [what]


def test_a_round_that_decodes_or_ends_a_task_is_heard_whole_and_counting_begins_again():
    for works in (DECODE, RELEASE):
        rounds = RoundFilter(Clock())
        hear(rounds, *EMPTY * 9)
        found = hear(rounds, ROUND, UPDATE, BATCH, works, *EMPTY * 9)
        assert [kind for kind in found if kind != "release"] == ["batch"] * 3


def test_an_idle_server_is_heard():
    rounds = RoundFilter(Clock())
    hear(rounds, *EMPTY * 9)
    said = [entry for line in (ROUND, IDLE) for entry in entries(f"0.00.000.001 {line}")]
    assert [entry.text for entry in rounds.hear(said)] == ["processing new tasks", "all slots are idle"]


def test_a_line_may_come_after_a_pause():
    rounds = RoundFilter(Clock())
    assert [kind for line in EMPTY * 9 for kind in hear(rounds, line)] == ["batch", "batch"]


def test_many_empty_rounds_for_a_long_time_are_spinning():
    clock = Clock()
    rounds = RoundFilter(clock)
    hear(rounds, *EMPTY * (MANY + 1))
    assert not rounds.spinning
    clock.now = LONG
    assert rounds.spinning
    hear(rounds, ROUND, UPDATE, DECODE, ROUND)
    assert not rounds.spinning
    hear(rounds, *EMPTY * 9)
    clock.now = 3 * LONG
    assert not rounds.spinning


def test_the_time_of_empty_rounds_begins_with_the_end_of_the_first():
    clock = Clock()
    rounds = RoundFilter(clock)
    counts = []
    for now in range(1, MANY + 3):
        clock.now = float(now)
        hear(rounds, *EMPTY)
        counts.append(rounds.empty)
    assert counts == [*range(MANY + 2)]                  # a round ends when the next one begins
    clock.now = 2.0 + LONG - 0.5
    assert not rounds.spinning
    clock.now = 2.0 + LONG
    assert rounds.spinning


def test_a_round_that_works_is_not_counted():
    rounds = RoundFilter(Clock())
    for works in (DECODE, RELEASE, IDLE):
        hear(rounds, *EMPTY * 3, ROUND, UPDATE, works)
        assert rounds.empty == 3
        hear(rounds, ROUND)
        assert rounds.empty == 0
    hear(rounds, *EMPTY * 3, ROUND, RELEASE, UPDATE, ROUND)          # a task that ended before the round's update
    assert rounds.empty == 4
