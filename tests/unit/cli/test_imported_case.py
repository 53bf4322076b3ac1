"""A case of `advise` may be a log or request bodies."""

from __future__ import annotations

import pytest

from cachesim.cli.imported_case import imported_case
from cachesim.tools.run.arguments import CaseOptions
from tests.shared import ROOT

UNIT = ROOT / "tests" / "unit" / "tools"
BODIES, LOG = UNIT / "request_bodies" / "agent.jsonl", UNIT / "server_logs" / "default_verbosity.log"


def case(name, model=None):
    return imported_case(str(name), CaseOptions(model, ["llama_cpp@b10587"], ["parallel=3"]))


@pytest.mark.parametrize("file", [BODIES, LOG], ids=["bodies", "log"])
def test_bodies_and_logs_are_read_with_the_arguments(tmp_path, file):
    copy = tmp_path / file.name
    copy.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:22]))     # two requests of the log
    found = case(copy, "GA")
    assert (found.scenario.model, found.scenario.profiles[0], found.scenario.server["parallel"]) == (
        "GA", "llama_cpp@b10587", 3)  # fmt: skip


def test_scenarios_their_folders_and_lines_are_no_imports(tmp_path):
    assert case("A60/A.B9") is None and case("case.toml") is None
    (tmp_path / "one.toml").touch()
    assert case(tmp_path) is None
