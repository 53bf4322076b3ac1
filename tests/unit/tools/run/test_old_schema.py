"""Are options that nobody sets the real server's, and does a file that was written for others say what to do?"""

from __future__ import annotations

import json
import tomllib

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from tests.shared import ROOT

FILE = """\
id = "old"
title = "one slot, small batches"
source = ["cachesim"]
why = "written for cachesim 0.1"
engine = "llama_cpp"
model = "GGGA"
profiles = ["llama_cpp@b11549"]
[words]
A = 100
[[request]]
prompt = "A"
[[request]]
prompt = "A[:90]"
[expect."llama_cpp@b11549"]
cache_n = [0, 80]
"""


def reused(capsys, *words):
    assert main(["try", *words, "--json"]) == exits.HOLDS
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    return [one["cache_n"] for one in run["requests"]]


def test_one_line_requests_go_to_a_server_without_flags(capsys):
    """Batches end 4 + 512 tokens before the prompt does, and 4 before; with smaller ones none is early enough."""
    assert reused(capsys, "S2000.A300>a5/S.A[:200].B50", "--model", "GGGA") == [0, 1784]
    assert reused(capsys, "S2000.A300>a5/S.A[:200].B50", "--model", "GGGA", "--set", "ubatch_size=64") == [0, 0]


def test_four_slots_without_a_flag(capsys):
    """B does not push A out of its slot."""
    assert reused(capsys, "A60/B80/A.C9", "--model", "A") == [0, 0, 60]


@pytest.mark.parametrize("name", ENGINES)
def test_a_long_prompt_fits_into_the_models_own_context(capsys, name):
    profile = ENGINES[name].newest
    if profile:
        assert len(reused(capsys, "A9000/A.B5", "--model", "A", "-p", profile)) == 2


@pytest.mark.parametrize(("top", "server", "code", "hinted"), [
    ("", "", exits.BROKEN, True), ("schema = 1\n", "", exits.HOLDS, False), ("schema = 2\n", "", exits.BROKEN, False),
    ("", "[server]\nctx_size = 1024\nbatch_size = 64\nubatch_size = 16\nparallel = 1\n", exits.HOLDS, False),
    ("", "[server]\nctx_size = 2048\nbatch_size = 32\nubatch_size = 32\nparallel = 1\n", exits.BROKEN, False),
])  # fmt: skip
def test_a_file_of_schema_1_is_named_where_its_numbers_differ(capsys, tmp_path, top, server, code, hinted):
    file = tmp_path / "old.toml"
    file.write_text(top + FILE.replace("[words]", server + "[words]"))
    assert main(["run", str(file)]) == code
    assert ("`schema = 1`" in capsys.readouterr().err) is hinted


def test_no_scenario_of_ours_relies_on_the_options_of_then():
    """Each sets the four that were others, where its server has them."""
    for file in (ROOT / "scenarios").rglob("*.toml"):
        raw = tomllib.loads(file.read_text("utf-8"))
        if "engine" not in raw or "schema" in raw:
            continue
        manual = ENGINES[raw["engine"]].manual
        other = {name for name in ("ctx_size", "batch_size", "ubatch_size", "parallel") if name in manual.schema_1}
        assert other <= raw.get("server", {}).keys(), file
