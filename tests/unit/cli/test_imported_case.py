"""A case of `advise` may be a log or request bodies: which reader gets it, and with what."""

from __future__ import annotations

from argparse import Namespace

import pytest

from cachesim.cli.imported_case import imported_case
from cachesim.tools.request_bodies import command as bodies
from cachesim.tools.server_logs import command as logs
from tests.shared import ROOT

UNIT = ROOT / "tests" / "unit" / "tools"
BODIES, LOG = UNIT / "request_bodies" / "agent.jsonl", UNIT / "server_logs" / "default_verbosity.log"


@pytest.fixture
def case(monkeypatch):
    """Return what the reader of a case is called with."""
    monkeypatch.setattr(bodies, "bodies_case", lambda *args: ("bodies", *args))
    monkeypatch.setattr(logs, "log_case", lambda *args, **more: ("log", *args, more))
    return lambda name, model: imported_case(Namespace(case=str(name), profiles=["p"], model=model, settings=["s"],
                                                       json=True))  # fmt: skip


@pytest.mark.parametrize("model, text", [("GA", "GA"), (None, "")])
def test_bodies_and_logs_are_read_with_the_arguments(case, model, text):
    assert case(BODIES, model) == ("bodies", BODIES, ["p"], text, ["s"])
    assert case(LOG, model) == ("log", LOG, ["p"], text, ["s"], {"is_silent": True})


def test_standard_input_is_a_log(case):
    assert case("-", None)[0] == "log"


def test_scenarios_their_folders_and_lines_are_no_imports(case, tmp_path):
    assert case("A60/A.B9", None) is None and case("case.toml", None) is None
    (tmp_path / "one.toml").touch()
    assert case(tmp_path, None) is None
    (tmp_path / "one.toml").unlink()
    (tmp_path / "one.log").write_text("nothing")
    assert case(tmp_path, None) is not None
