"""Server runs of a log: restarts, and several servers in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines import server_runs
from cachesim.tools.server_logs.lines.logical_lines import logical_lines
from cachesim.tools.server_logs.lines.recognise import grammars

HERE = Path(__file__).parents[1]
LLAMA = grammars()["llama_cpp"]
FIRST = (HERE / "verbosity_4.log").read_text("utf-8").splitlines()
SECOND = (HERE / "parallel_slots.log").read_text("utf-8").splitlines()


def runs(lines):
    return [line.run for line in logical_lines(LLAMA, lines)]


def unstamped(line):
    return line[line.index(" ", 13) + 1 :]


def requests(session):
    return [(request.slot, request.task, request.n_tokens, request.cache_n, request.held, request.end)
            for request in session.requests]  # fmt: skip


def test_a_log_is_one_run():
    assert set(runs(FIRST)) == set(runs(SECOND)) == {0}


@pytest.mark.parametrize("change", [str, unstamped], ids=["stamped", "plain"])
def test_a_restart_begins_a_run(change):
    lines = [*map(change, FIRST), *map(change, SECOND)]
    assert runs(lines) == [0] * len(FIRST) + [1] * len(SECOND)


def test_a_restart_without_the_lines_of_the_start_is_found_by_time_stamps_or_tasks():
    first = [line for line in FIRST if "slot " in line and "load_model" not in line]
    half = first[: len(first) // 2]
    assert runs([*first, *half]) == [0] * len(first) + [1] * len(half)
    plain = [*map(unstamped, first)]
    found = runs([*plain, *plain])
    again = next(number for number, line in enumerate(plain) if "processing task" in line)
    assert found[: len(plain)] == [0] * len(plain) and set(found[len(plain) + again :]) == {1}


def test_further_completions_are_launched_before_their_request():
    launches = [f"slot launch_slot_: id  {slot} | task {task} | processing task, is_child = {child}"
                for slot, task, child in ((1, 6, 1), (2, 7, 1), (0, 5, 0))]  # fmt: skip
    assert runs(launches) == [0, 0, 0]
    assert runs([*launches, *launches]) == [0, 0, 0, 0, 0, 1]


def test_a_server_with_time_stamps_and_one_without_are_told_apart():
    stamped, plain = ([change(line) for line in lines if " slot " in line]
                      for change, lines in ((str, FIRST), (unstamped, SECOND)))  # fmt: skip
    mixed = [line for pair in zip(stamped, plain, strict=False) for line in pair]
    found = runs(mixed)
    assert set(found[::2]) & set(found[1::2]) == set()


def test_two_servers_with_sources_are_told_apart():
    mixed = [line for pair in zip((f"[41001] {line}" for line in FIRST), (f"[41002] {line}" for line in SECOND),
                                  strict=False) for line in pair]  # fmt: skip
    assert runs(mixed) == [0, 1] * (len(mixed) // 2)


@pytest.mark.parametrize("line", ["something", '127.0.0.1 - - "GET /health HTTP/1.1" 200', "  File \"x.py\", line 3"])
def test_a_line_of_another_program_begins_no_run(line):
    known = [f"[41001] {one}" for one in FIRST[:3]]
    assert runs([line, *known, line, f"[41002] {SECOND[0]}", line]) == [0, 0, 0, 0, 0, 1, 1]


def test_two_servers_without_sources_are_told_apart_by_time_stamps():
    late = [f"47{line[line.index('.') :]}" for line in SECOND]
    mixed = [line for pair in zip(FIRST, late, strict=False) for line in pair]
    found = runs(mixed)[1:]
    assert set(found[::2]) & set(found[1::2]) == set() and len(set(found)) <= 4


@pytest.mark.parametrize("change", [str, unstamped], ids=["stamped", "plain"])
def test_nothing_is_combined_across_runs(change):
    """Each run reads as it does alone."""
    first, second = [*map(change, FIRST)], [*map(change, SECOND)]
    session = read_session("llama_cpp", LLAMA, [*first, *second])
    assert session.lines == len(first) + len(second) and len(session.others) == 1
    alone = [read_session("llama_cpp", LLAMA, lines) for lines in (first, second)]
    main, other = (session, session.others[0]) if session.first == 1 else (session.others[0], session)
    assert requests(main) == requests(alone[0]) and main.facts == alone[0].facts
    assert requests(other) == requests(alone[1]) and other.facts == alone[1].facts and other.first == len(first) + 1


def test_in_doubt_a_new_run_begins():
    """Two runs ended equally long ago: the line may belong to either."""
    line = "{}.00.000.000 I slot release: id  0 | task {} | n_tokens = 5"
    assert runs([line.format(9, 1), line.format(3, 2), line.format(13, 3), line.format(13, 4)]) == [0, 1, 2, 2]
    assert runs([line.format(9, 1), line.format(3, 2), line.format(13, 1)]) == [0, 1, 0]       # its task is known


def test_a_run_that_printed_its_end_gets_no_more_lines_about_requests():
    """The time stamps of a restarted server begin again, so that its later lines follow those of the run before."""
    line = "0.00.{}.000 I slot launch_slot_: id  0 | task {} | processing task, is_child = 0"
    ends = ["0.00.910.000 I srv    operator(): operator(): cleaning up before exit...",
            "0.00.911.000 I ~Server: main loop exited"]  # fmt: skip
    first = [line.format(200, 0), line.format(800, 2)]
    second = ["0.00.000.376 I srv          init: initializing ...", line.format(300, 0), line.format(912, 4)]
    assert runs([*first, *ends, *second]) == [0, 0, 0, 0, 1, 1, 1]


STAMPED = "0.{:02}.{:03}.{:03} I slot release: id  0 | task {} | n_tokens = 5"


@pytest.mark.parametrize(("back", "found"), [(9_999, 0), (10_000, 0), (10_001, 1)])
def test_lines_of_threads_may_be_swapped_by_ten_milliseconds(back, found):
    time = 1_000_000 - back
    lines = [STAMPED.format(1, 0, 0, 1), STAMPED.format(0, time // 1000, time % 1000, 2)]
    assert runs(lines) == [0, found]


@pytest.mark.parametrize(("microseconds", "run"), [(888, 0), (889, 2)])
def test_a_run_must_be_ten_times_nearer_than_another(microseconds, run):
    """The line comes 0.89 s after that of run 0, which was printed 8 s after that of run 1."""
    lines = [STAMPED.format(10, 0, 0, 1), STAMPED.format(2, 0, 0, 2), STAMPED.format(10, 888, microseconds, 3)]
    assert runs(lines) == [0, 1, run]


LAUNCH_PLAIN = "slot launch_slot_: id  0 | task {} | processing task, is_child = 0"


@pytest.mark.parametrize(("tasks", "found"), [
    ((5, 6, 7), [0, 0, 0]), ((5, 6, 6), [0, 0, 1]), ((5, 8, 6), [0, 0, 0]), ((5, 6, 4), [0, 0, 1]),
    ((5, 6, 5, 6), [0, 0, 1, 1]), ((0, 0), [0, 1]),
])  # fmt: skip
def test_a_task_is_launched_once_and_none_before_the_first(tasks, found):
    assert runs([LAUNCH_PLAIN.format(task) for task in tasks]) == found


@pytest.mark.parametrize(("middle", "found"), [
    ([LAUNCH_PLAIN.format(5)], 1), ([], 0), (["srv          init: initializing slots, n_slots = 1"], 0),
])  # fmt: skip
def test_the_start_of_a_server_ends_only_a_run_with_requests(middle, found):
    start = "srv          init: initializing slots, n_slots = 1"
    assert runs([start, *middle, start])[-1] == found


def test_the_latest_sources_are_kept(monkeypatch):
    monkeypatch.setattr(server_runs, "SOURCES", 2)
    line = "[4100{}] slot release: id  0 | task 7 | stop processing: n_tokens = 5, truncated = 0"
    assert runs(line.format(source) for source in (1, 2, 1, 2, 3, 2, 1, 2, 3)) == [0, 1, 0, 1, 2, 1, 3, 4, 5]


RELEASED = "{}.00.000.000 I slot release: id  0 | task {} | n_tokens = 5"


def test_the_latest_runs_of_a_source_get_lines(monkeypatch):
    """Each line with an earlier time stamp begins a run; the last is about a task of an earlier run."""
    monkeypatch.setattr(server_runs, "KEPT", 2)
    lines = [RELEASED.format(9, 1), RELEASED.format(6, 2), RELEASED.format(3, 3)]
    assert runs([*lines, RELEASED.format(9, 3)]) == [0, 1, 2, 2]
    assert runs([*lines, RELEASED.format(9, 2)]) == [0, 1, 2, 1]
    assert runs([*lines, RELEASED.format(9, 1)]) == [0, 1, 2, 3]          # the first run is forgotten
    assert runs([*lines, RELEASED.format(9, 2), RELEASED.format(9, 3)]) == [0, 1, 2, 1, 2]


def test_a_task_that_several_runs_had_does_not_show_the_run():
    lines = [RELEASED.format(9, 1), RELEASED.format(3, 1)]
    assert runs([*lines, RELEASED.format(15, 1)]) == [0, 1, 2]


def test_a_run_with_later_lines_does_not_own_an_earlier_one():
    lines = [RELEASED.format(9, 1), RELEASED.format(3, 2)]
    assert runs([*lines, RELEASED.format(4, 1)]) == [0, 1, 1]


def test_the_run_of_the_last_line_is_the_current_one():
    """A line without a time stamp belongs to it."""
    lines = [RELEASED.format(9, 1), RELEASED.format(6, 2), RELEASED.format(3, 3)]
    assert runs([*lines, RELEASED.format(9, 1), "something"]) == [0, 1, 2, 0, 0]
    assert runs([*lines, RELEASED.format(9, 2), "something"]) == [0, 1, 2, 1, 1]
    assert runs([*lines, RELEASED.format(9, 3), "something"]) == [0, 1, 2, 2, 2]


KNOWN = "slot release: id  0 | task 7 | stop processing: n_tokens = 8163, truncated = 0"


@pytest.mark.parametrize(("line", "run"), [
    (KNOWN, 1), ("stop processing: n_tokens = 8163, truncated = 0", 1),
    ("slot update_slots: id  0 | task 9 | nothing known", 1),
    ("nothing known", 0),
])  # fmt: skip
def test_a_message_without_a_source_is_of_another_server_unless_any_program_may_have_printed_it(line, run):
    assert runs([f"[41000] {KNOWN}", line]) == [0, run]


def test_a_line_belongs_to_the_latest_of_runs_that_are_equally_near():
    """The third run reaches the last time of the first; its next line names a new task."""
    at = "{}.00.000.{:03} I slot release: id  0 | task {} | n_tokens = 5"
    lines = [at.format(9, 0, 1), at.format(6, 0, 2), at.format(3, 0, 3), at.format(9, 1, 3)]
    assert runs([*lines, at.format(9, 2, 4)]) == [0, 1, 2, 2, 2]


def test_the_first_task_of_a_server_shows_its_run_like_any_other():
    assert runs([RELEASED.format(9, 0), RELEASED.format(3, 2), RELEASED.format(13, 0)]) == [0, 1, 0]


def test_a_run_that_is_exactly_ten_times_nearer_gets_the_line():
    """The line comes 1 s after that of run 0, and 10 s after that of run 1, at the start of its server."""
    assert runs([STAMPED.format(9, 0, 0, 1), STAMPED.format(0, 0, 0, 2), STAMPED.format(10, 0, 0, 3)]) == [0, 1, 0]


def test_the_current_run_gets_a_line_within_a_millisecond_although_another_is_less_than_ten_times_farther():
    lines = [STAMPED.format(9, 0, 0, 1), STAMPED.format(3, 0, 0, 2), STAMPED.format(9, 4, 0, 2)]
    assert runs([*lines, STAMPED.format(9, 5, 0, 3)]) == [0, 1, 1, 1]
