"""Reader of a log: the main server run, the others, and the number of lines."""

from __future__ import annotations

from cachesim.tools.server_logs.log_reader import read_session
from cachesim.tools.server_logs.recognise import grammars

START = "version: 6900 (abcdef12)"
LAUNCH = "slot launch_slot_: id  {slot} | task {task} | processing task"
RELEASE = "slot      release: id  {slot} | task {task} | stop processing: n_tokens = {n}, truncated = 0"


def requests(*tasks):
    return [text.format(slot=0, task=task, n=50 + task) for task in tasks for text in (LAUNCH, RELEASE)]


def read(*lines):
    return read_session("llama_cpp", grammars()["llama_cpp"], lines)


def tasks(session):
    return [request.task for request in session.requests]


def test_an_empty_log_is_a_run_without_requests():
    found = read()
    assert (found.requests, found.others, found.lines) == ([], [], 0)


def test_every_line_is_counted_and_requests_stand_in_their_order():
    found = read("something else", *requests(3, 5), "", "the end")
    assert (tasks(found), found.others, found.lines) == ([3, 5], [], 7)


def test_the_run_with_the_most_requests_is_the_main_one():
    first, second = [START, *requests(0, 4)], [START, *requests(0, 4, 9)]
    for lines in ((*first, *second), (*second, *first)):
        found = read(*lines)
        assert (tasks(found), [tasks(one) for one in found.others], found.lines) == ([0, 4, 9], [[0, 4]], len(lines))
