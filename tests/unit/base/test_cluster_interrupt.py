"""Tests of an interrupt while a cluster works: the client's event loop logs a traceback, which is not shown."""

from __future__ import annotations

import logging
import sys
from types import ModuleType

import pytest

from cachesim.base.cluster import Cluster
from cachesim.base.errors import Terminated
from cachesim.cli.main import main


@pytest.fixture(params=[KeyboardInterrupt(), Terminated(15)], ids=["SIGINT", "SIGTERM"])
def interrupted(monkeypatch, request):
    """Install a package ``distributed`` whose client is interrupted while it waits, as distributed's ``sync`` is."""

    def as_completed(*_, **__):
        try:
            raise NameError("cancel")
        except NameError:
            logging.getLogger("tornado.application").exception("Exception in callback")
        raise request.param
        yield

    class Client:
        """Connection to one worker that never answers."""

        loop = None

        def __init__(self, *_, **__):
            self.submit = self.cancel = self.close = lambda *_, **__: object()

        def nthreads(self):
            return {"w": 1}

    fake = ModuleType("distributed")
    fake.Client, fake.as_completed, fake.TimeoutError = Client, as_completed, TimeoutError
    monkeypatch.setitem(sys.modules, "distributed", fake)
    return 130 if type(request.param) is KeyboardInterrupt else 143


def test_an_interrupt_ends_in_a_line_with_the_results_so_far(interrupted, capsys, caplog):
    argv = ["fuzz", "-p", "ik_llama@main", "--examples", "50", "--on", "dask://127.0.0.1:9"]
    assert main(argv) == interrupted
    out, err = capsys.readouterr()
    assert "0 conversations" in out and caplog.records == []
    assert "Traceback" not in err and "interrupted: results so far" in err


def test_the_log_is_as_before_afterwards(interrupted, caplog):
    with Cluster("dask://127.0.0.1:9"):
        logging.getLogger("tornado.application").error("hidden")
    logging.getLogger("tornado.application").error("shown")
    assert [one.message for one in caplog.records] == ["shown"]
