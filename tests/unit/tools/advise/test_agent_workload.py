"""Tests of workloads of agents: sessions on servers, sessions that are left out, bodies in the order they were sent."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.advise.agent_workload import agent_workload, bodies_workload, recorded_workload
from cachesim.tools.advise.saved_tokens import RepairCase
from cachesim.tools.workload.recorded_session import RecordedRequest, WorkloadSession


def session(name, n_prompt, size=64):
    blocks = tuple(range(1, n_prompt // size + 1))
    return WorkloadSession(name, "test", size, (RecordedRequest(0, 1, n_prompt, 10, blocks),))


def test_as_many_sessions_as_clients_use_a_server_and_the_longest_come_first():
    load = recorded_workload([session(str(n), 64 * n) for n in (1, 3, 2, 5, 4)], "x", 2, 0)
    assert [one.name for one in load.servers] == ["2+5", "4", "1+3"]
    assert (load.sessions, load.left_out, load.longest) == (5, 0, 64 * 5 + 10)
    assert [len(one.prompt) for one in load.requests(0, 64)] == [2, 5]
    assert [len(one.prompt) for one in load.requests(0, 1)] == [128, 320]


def test_sessions_with_longer_requests_are_left_out():
    load = recorded_workload([session("a", 100), session("b", 200)], "x", 1, 110)
    assert (load.sessions, load.left_out, load.longest) == (1, 1, 110)
    with pytest.raises(BadInput, match="every session has requests longer than 109 tokens"):
        recorded_workload([session("a", 100)], "x", 1, 109)


def test_the_scale_divides_blocks_and_windows():
    load = recorded_workload([session("a", 128)], "x", 1, 0)
    assert [load.scale(*units) for units in ((), (0,), (128, 0), (1000,), (512, 16))] == [64, 64, 64, 8, 16]


def test_sessions_of_a_workload_have_blocks_of_a_single_size():
    with pytest.raises(BadInput, match="different block sizes"):
        recorded_workload([session("a", 128), session("b", 128, 32)], "x", 1, 0)


def test_bodies_are_sent_as_they_were():
    line = from_line("S40.A20>r3/S.A.r.B5/S.|C6>4", model="A", profiles=("llama_cpp@b11549",), server={})
    load = bodies_workload(line, "x")
    first, second, third = load.requests(0, load.scale())
    assert (load.scale(), len(first.prompt), len(first.answer), len(second.answer)) == (1, 60, 3, 1)
    assert second.prompt[:63] == first.prompt + first.answer and third.prompt[:40] == first.prompt[:40]
    assert third.starts == (40,) and len(third.answer) == 4
    assert not {*third.answer, *second.answer} & {*first.prompt, *second.prompt, *third.prompt}
    assert load.longest == 69
    bare = bodies_workload(from_line("A5>0/B5>2", model="A"), "x").requests(0, 1)
    assert [len(one.answer) for one in bare] == [1, 2] and bare[0].answer[0] not in bare[1].answer


def bodies(case):
    """Return the request bodies that each file holds."""
    return RepairCase(from_line("S40.A20>r3", model="A"))


def nothing(case):
    """Return None: the file has no request bodies."""


def test_request_bodies_are_a_workload_of_one_server():
    load = agent_workload(["/x/no.jsonl"], 2, 0, bodies)
    assert (load.source, load.longest, len(load.servers)) == ("request bodies of /x/no.jsonl", 63, 1)
    assert agent_workload(["/x/no.jsonl"], 2, 63, bodies).longest == 63


@pytest.mark.parametrize(("cases", "imported", "most", "cause"), [
    (["/x/no.jsonl"], bodies, 62, "a request of 63 tokens exceeds 62 (--tokens N allows it)"),
    (["/x/a.jsonl", "/x/b.jsonl"], bodies, 0, "several files of request bodies (name a folder that holds them)"),
    (["/x/no.jsonl"], nothing, 0, "/x/no.jsonl: no such file or directory"),
])  # fmt: skip
def test_other_files_are_no_workload(cases, imported, most, cause):
    with pytest.raises(BadInput) as bad:
        agent_workload(cases, 2, most, imported)
    assert str(bad.value) == cause


def test_sessions_of_the_user_replace_those_that_come_with_cachesim():
    own = agent_workload(["tests/workloads/data/chat.jsonl"], 1, 0, nothing)
    assert (own.source, own.sessions) == ("sessions of tests/workloads/data/chat.jsonl", 1)
    shipped = agent_workload([], 8, 0, nothing)
    assert shipped.source == "recorded sessions" and shipped.sessions > 1
    with pytest.raises(BadInput, match="every session has requests longer than 1 tokens"):
        agent_workload(["tests/workloads/data/chat.jsonl"], 1, 1, nothing)
