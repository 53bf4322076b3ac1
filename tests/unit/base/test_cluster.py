"""Tests of jobs on a local dask cluster: same results as a local run, also after the death of workers."""

from __future__ import annotations

import json
import os
import signal

import pytest

from cachesim.base.cluster import Cluster, checked_address
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.tools.search.campaign import Campaign, CampaignPlan, blocks, work
from cachesim.tools.search.campaign_folder import campaign_data
from cachesim.tools.search.campaign_jobs import PLAY, packed, parse_block, play, unpacked
from tests.shared import ROOT

pytestmark = pytest.mark.long
distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
PROFILE = "ik_llama@1889-base"
PLAN = CampaignPlan(PROFILE, ("warm-equals-cold",), ("GA",), "provenance", 0)
JOBS = list(blocks(PLAN, 300))


@pytest.fixture(scope="module")
def two_workers():
    """Start two worker processes that import the tested tree."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)
    try:
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as running, Cluster(running.scheduler_address.replace("tcp://", "dask://")) as one:
            yield one, [worker.pid for worker in running.workers.values()]
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
def cluster(two_workers):
    return two_workers[0]


def summed(found):
    whole = Campaign(PROFILE)
    for block in found:
        whole.take(block)
    return campaign_data(whole, PLAN)


def test_a_worker_is_killed_in_the_middle_and_the_findings_are_those_of_one_process(two_workers):
    cluster, pids = two_workers
    blocks_found, numbers = [], []
    for done in cluster.each(PLAY, map(packed, JOBS)):
        if pids:
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()
        numbers.append(done.number)
        blocks_found.append(parse_block(done.result))
    assert sorted(numbers) == list(range(len(JOBS)))
    assert summed(blocks_found) == summed(map(work, JOBS))


def test_a_workload_on_a_cluster_is_that_of_one_process(cluster, capsys):
    argv = ["workload", "tests/workloads/data", "--scale", "16", "-p", "llama_cpp@b10587", "-p", "ik_llama@main"]
    assert main([*argv, "--json"]) == 0
    want = capsys.readouterr().out
    assert (main([*argv, "--json", "--on", cluster.address]), capsys.readouterr().out) == (0, want)


def test_nothing_is_begun_when_the_time_is_over(cluster):
    assert list(cluster.each(PLAY, map(packed, JOBS), lambda: 0.0)) == []


def test_what_a_worker_raises_is_raised_here(cluster):
    with pytest.raises(BadInput, match="not a function of cachesim"):
        list(cluster.each("os:system", ['"true"']))
    with pytest.raises(BadInput, match=r"(?s)cannot import.*no_such"):
        list(cluster.each("cachesim.no_such:play", ["{}"]))
    with pytest.raises(json.JSONDecodeError):
        list(cluster.each(PLAY, ["not JSON"]))


def test_jobs_and_results_are_json_and_come_back():
    job = JOBS[0]._replace(plan=PLAN._replace(against="ik_llama@main"), stop=JOBS[0].first + 10)
    assert unpacked(packed(job)) == job
    block = work(job)
    assert parse_block(play(packed(job))) == block._replace(mended=list(block.mended))


@pytest.mark.parametrize("text", ["", "dask://", "dask://host", "tcp://host:1", "dask://host:x", "dask://a/b:1"])
def test_an_invalid_address_is_refused(text):
    with pytest.raises(BadInput, match="not a cluster address"):
        checked_address(text)


def test_an_unreachable_scheduler_is_an_error(monkeypatch):
    monkeypatch.setattr("cachesim.base.cluster.SECONDS", 0.2)
    with pytest.raises(BadInput, match="no dask scheduler answers at dask://127"):
        Cluster("dask://127.0.0.1:9")


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(BadInput, match=r"not installed \(pip install 'distributed>="):
        Cluster("dask://127.0.0.1:9")
