"""Jobs on a cluster: a note if it has no workers yet."""

from __future__ import annotations

import pytest

from cachesim.base import cluster
from cachesim.base.pool import CompletedItem
from cachesim.tools.run.run_jobs import run_on_cluster


@pytest.mark.parametrize(("threads", "text"), [
    (0, "cachesim: dask://x has no workers yet: waiting for one\n"), (2, ""),
])  # fmt: skip
def test_a_cluster_without_workers_is_waited_for_with_a_note(monkeypatch, capsys, threads, text):
    class Cluster:
        def __init__(self, address):
            self.address = address

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def threads(self):
            return threads

        def each(self, function, payloads, left):
            assert left() is None
            yield from (CompletedItem(payload, f"{function} {self.address}", "") for payload in payloads)

    monkeypatch.setattr(cluster, "Cluster", Cluster)
    found = [*run_on_cluster("dask://x", "work", ["a", "b"])]
    assert [item[:2] for item in found] == [("a", "work dask://x"), ("b", "work dask://x")]
    assert capsys.readouterr().err == text
