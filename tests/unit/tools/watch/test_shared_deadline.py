"""A deadline that a parent sets is one of its child."""

from __future__ import annotations

import os

from cachesim.tools.watch.shared_deadline import SharedDeadline


def test_a_deadline_passes_after_its_seconds_and_not_before_it_is_set():
    now = [5.0]
    deadline = SharedDeadline(lambda: now[0])
    assert not deadline.is_over()
    deadline.set(3)
    found = [deadline.is_over()]
    for now[0] in (7.9, 8.0, 9.0):
        found.append(deadline.is_over())
    assert found == [False, False, True, True]


def test_a_child_sees_the_deadline_of_its_parent():
    deadline = SharedDeadline(lambda: 5.0)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(7 if deadline.is_over() else 1)
    os.close(read)
    deadline.set(-1)
    os.close(write)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
