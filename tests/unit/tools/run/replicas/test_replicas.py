"""``--replicas``: where requests run, and what routing costs."""

import json

import pytest

from cachesim.cli.main import main
from cachesim.tools.run.replicas.prefix_tree import PrefixTree
from cachesim.tools.run.replicas.routes import ROUTES, Arrival, LeastLoaded, Prefix, ReplicaStats

DATA = "tests/workloads/data"
LINE = "S40.A20>r4/S.B20>q4/S.A.r.C9/S.B.q.D9/S.A.r.C.E9"


def data_of(capsys, *argv):
    """What a command prints as JSON, of its first case."""
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["replicas"][0]


def servers(case, route):
    """The server of each request under a policy."""
    return [sent["replica"] for one in case["routes"] if one["route"] == route for sent in one["sent"]]


def test_each_policy_sends_requests_in_its_way(capsys):
    case = data_of(capsys, "run", LINE, "-p", "vllm@0.33.0", "--model", "A", "--replicas", "2")
    assert [one["route"] for one in case["routes"]] == list(ROUTES) and case["default"] == "least-loaded"
    assert servers(case, "round-robin") == servers(case, "least-loaded") == [0, 1, 0, 1, 0]
    assert servers(case, "session") == [0, 1, 0, 1, 0]
    assert servers(case, "prefix") == [0, 0, 0, 0, 0]
    assert case["routes"][0]["more"] == 32                  # the second server evaluates the system prompt again
    assert case["one"]["evaluated"] + 32 == case["routes"][0]["evaluated"]


def test_one_server_has_the_memory_of_all(capsys):
    argv = ("--model", "A", "-p", "vllm@0.33.0", "--set", "num_gpu_blocks=40", "--replicas", "3", "--route", "session")
    assert data_of(capsys, "run", LINE, *argv)["one"]["set"] == ["num_gpu_blocks=120"]
    argv = ("--model", "A", "-p", "llama_cpp@b11549", "-np", "2", "--replicas", "2", "--route", "session")
    assert data_of(capsys, "run", LINE, *argv)["one"]["set"] == ["parallel=4", "cache_ram=16384"]


def test_a_workload_is_routed_in_tokens_of_the_recording(capsys):
    argv = ("workload", "tests/workloads/data", "--sessions", "2", "--scale", "16", "-p", "sglang", "--model", "A")
    case = data_of(capsys, *argv, "--replicas", "2", "-j", "2")
    assert case["default"] == "prefix" and case["scale"] == 16 and case["speed"] == 10_000
    for route in case["routes"]:
        assert sum(one["requests"] for one in route["servers"]) == case["requests"] == 12
        assert route["evaluated"] == sum(one["evaluated"] for one in route["servers"])
        assert route["more"] == route["evaluated"] - case["one"]["evaluated"]
    assert main([*argv, "--replicas", "2", "--route", "prefix"]) == 0
    assert "prefix *" in capsys.readouterr().out


def test_a_full_memory_makes_waiting_requests_count_more():
    route = LeastLoaded(2)
    route.report([ReplicaStats(waiting=1, running=1, kv_cache_usage=1.0), ReplicaStats(waiting=0, running=4)])
    assert route.send(Arrival((1,), 0)) == 1                # 2 + 3 against 4
    route.report([ReplicaStats(waiting=1, running=1, kv_cache_usage=0.5), ReplicaStats(waiting=0, running=4)])
    assert route.send(Arrival((2,), 0)) == 0


def test_requests_of_other_front_ends_count_if_a_replica_reports_them():
    route = LeastLoaded(2)
    route.report([ReplicaStats(waiting=0, running=3), ReplicaStats(waiting=0, running=0)])
    assert [route.send(Arrival((n,), 0)) for n in range(5)] == [1, 1, 1, 1, 0]      # equal at the fourth: its turn


def test_a_known_prefix_counts_until_the_loads_differ_much():
    route = Prefix(2)
    assert [route.send(Arrival((1, 2, 3, n), 0)) for n in range(65)] == [0] * 65
    assert route.send(Arrival((1, 2, 3, 99), 0)) == 1
    assert route.send(Arrival((1, 7, 7, 7), 0)) == 1        # a quarter is known, and server 1 has fewer requests
    route.finished(1)
    assert route.send(Arrival((1, 2, 3, 99), 0)) == 1       # the loads differ by 64 again


def test_a_part_of_an_edge_belongs_to_the_prompt_that_made_it():
    tree = PrefixTree()
    tree.insert((1, 2, 3, 4), 0)
    tree.insert((1, 2, 5, 6), 1)
    assert tree.match((1, 2, 9)) == (2, 0)
    assert tree.match((1, 2, 5, 9)) == (3, 1)
    assert tree.match((8,)) == (0, -1)


@pytest.mark.parametrize(("argv", "told"), [
    (["run", "A4/A", "--replicas", "1"], "must be 2 to 64"),
    (["run", "A4/A", "--route", "prefix"], "--route needs --replicas N"),
    (["run", "A4/A", "--replicas", "2", "--route", "lru"], "unknown policy 'lru'"),
    (["run", "A4/A", "--replicas", "2", "--steps"], "--replicas does not go with --steps"),
    (["run", "A4/{restart}/A", "--replicas", "2"], "several replicas run requests only"),
    (["workload", DATA, "--speed", "5"], "--speed needs --replicas N"),
    (["workload", DATA, "--replicas", "2", "--curve", "memory"], "--replicas does not go with --curve"),
    (["workload", DATA, "--replicas", "2", "--detail", "causes"], "--detail causes is for one server"),
])  # fmt: skip
def test_unusable_replicas_are_one_line(capsys, argv, told):
    assert main([*argv]) == 2
    err = capsys.readouterr().err
    assert told in err and len(err.splitlines()) == 1
