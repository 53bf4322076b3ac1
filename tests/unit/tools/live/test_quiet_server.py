"""A server whose log is not read: its slots show whether it works."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost, HttpReply
from cachesim.tools.live.llama_server.process import ProcessEnd, ServerEnded
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.server import IDLE_WITHIN

IDLE, BUSY = {"id": 0, "is_processing": False}, {"id": 1, "is_processing": True}


class GivenProcess:
    """A process that notes what is waited for."""

    url, returncode = "http://127.0.0.1:1", -6

    def __init__(self):
        self.waits = []

    def wait(self, until, seconds, what):
        polls = 1
        while not until():
            polls += 1
        self.waits.append((polls, seconds, what))

    def died(self):
        return ProcessEnd(-6, ("no memory",))


def quiet(*pages, status=200):
    """Return a server that answers with these lists of slots, one after another; an exception is raised."""
    replies = iter(pages)

    def get(path):
        assert path == "/slots"
        page = next(replies)
        if isinstance(page, Exception):
            raise page
        return HttpReply(status, page)

    made = object.__new__(QuietServer)
    made.client, made.process = SimpleNamespace(get=get), GivenProcess()
    return made


def test_a_server_has_the_slots_that_it_reports_and_no_messages():
    assert quiet([IDLE, BUSY, "junk"])._read_facts() == {"n_slots": 2}
    silent = quiet()
    assert silent.taken() == [] and silent.listen() is None and silent.await_answers() is None
    assert not silent.is_logged


def test_a_server_has_settled_when_no_slot_works():
    server = quiet([IDLE, BUSY], [BUSY], [IDLE, {}])
    assert server.settled() == []
    assert server.process.waits == [(3, IDLE_WITHIN, "finishing the pending work")]


def test_a_request_has_begun_when_a_slot_works():
    server = quiet([IDLE], [], [IDLE, BUSY])
    wait = server.ear(("a text",))
    assert server.process.waits == [] and wait() is None
    assert server.process.waits == [(3, IDLE_WITHIN, "starting a request")]


@pytest.mark.parametrize(("page", "status"), [({"error": "no"}, 200), ([IDLE], 501), (None, 200)])
def test_a_server_that_does_not_report_its_slots_is_refused(page, status):
    with pytest.raises(BadInput, match="the server does not report its slots") as bad:
        quiet(page, status=status).settled()
    assert bad.value.file == "http://127.0.0.1:1"


def test_a_broken_connection_is_the_end_of_the_server():
    with pytest.raises(ServerEnded) as ended:
        quiet(ConnectionLost("gone")).settled()
    assert ended.value.died == ProcessEnd(-6, ("no memory",))
