"""Commands with an engine that is installed from its own wheel."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.long
NEW, OLD = "blockpool@0.33.0", "blockpool@0.15.1"
TWINS = f"""
id = "twins"
title = "two requests with one prefix, sent together"
source = ["vllm-project/vllm#29387"]
why = "A state is promised while a step is scheduled, and read before it is there."
engine = "blockpool"
model = "GA"
profiles = ["{OLD}", "{NEW}"]

[words]
A = 36
B = 9
C = 9

[[request]]
prompt = "A.B"

[[request]]
prompt = "A.C"
together = true

[expect."{OLD}"]
cache_n = [0, 32]
broken = [1]

[expect."{NEW}"]
cache_n = [0, 32]
"""
RECORDED = {
    "engine": "blockpool", "commit": "0.33.0", "profile": "0.33.0", "model": "tiny.gguf", "name": "one",
    "flags": [], "server": {}, "inexact": [], "steps": [],
}  # fmt: skip


@pytest.fixture
def twins(tmp_path):
    path = tmp_path / "twins.toml"
    path.write_text(TWINS)
    return path


def test_run(installed, twins):
    code, out, err = installed("run", twins, "--json")
    runs = {one["profile"]: one for one in json.loads(out)["runs"]}
    assert (code, err) == (1, ""), "one answer is broken"
    assert [runs[name]["requests"][1]["equal_cold"] for name in (OLD, NEW)] == [False, True]


def test_try(installed):
    code, out, err = installed("run", "A40/A.B9/A.C9", "--model", "GA", "-p", NEW, "--json")
    assert (code, err) == (0, "")
    assert [one["cache_n"] for one in json.loads(out)["runs"][0]["requests"]] == [0, 32, 32]


def test_why(installed, twins):
    code, out, err = installed("why", twins, 1, "-p", NEW)
    assert (code, err) == (0, "")
    assert "BP-GUARD.STEP" in out and "its state is promised but not there: it waits a step" in out


def test_diff(installed, twins):
    code, out, err = installed("diff", twins, "-p", OLD, "-p", NEW)
    assert err.startswith("next: cachesim explain BP-") and OLD in out and NEW in out
    code, out, err = installed("profiles", "diff", OLD, NEW)
    assert (code, err) == (0, "")
    assert "BP-GUARD.NONE" in out and "BP-RETAIN.BOUNDARY" in out


def test_bisect(installed, twins):
    code, out, err = installed("bisect", twins)
    assert (code, err) == (0, "")
    assert "by guard BP-GUARD.NONE -> BP-GUARD.STEP (#29387)" in out


def test_fuzz_finds_it_and_writes_it_down(installed, tmp_path):
    words = ("fuzz", "-p", OLD, "--model", "GA", "--examples", 30, "--no-shrink", "--out", tmp_path, "--json")
    code, out, err = installed(*words)
    assert code == 1 and json.loads(out)["profile"] == OLD and "written" in err
    file = sorted(tmp_path.glob("*.toml"))[0]
    assert "together = true" in file.read_text() and 'engine = "blockpool"' in file.read_text()
    code, out, err = installed("run", file)
    assert err.startswith(f"next: cachesim why {file} ") and "WRONG" in out


def test_explain(installed):
    code, out, err = installed("explain", "BP-RETAIN.BOUNDARY")
    assert (code, err) == (0, "")
    assert "vllm-project/vllm/blob/v0.33.0/vllm/v1/core/" in out and NEW in out and "blockpool/rules.py" in out


def test_profiles(installed):
    code, out, err = installed("profiles", "show", NEW)
    assert (code, err) == (0, "") and "BP-SPLIT.ALIGN" in out and "cachesim-blockpool 1.0" in out
    code, out, err = installed("run", "A9", "--model", "A", "-p", NEW, "--set", "block_sise=4")
    assert code == 2 and "block_size" in err and err.count("\n") == 1


@pytest.mark.parametrize("line, why", [
    ("A9/{save@0 f}", "slot"), ("A9{n_cmpl=2}", "single completions"), ("A9{id_slot=1}", "id_slot"),
])  # fmt: skip
def test_what_it_does_not_know_is_refused_in_a_line(installed, line, why):
    code, _, err = installed("run", line, "--model", "A", "-p", NEW)
    assert code == 2 and why in err and err.count("\n") == 1


def test_replay(installed, tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(RECORDED))
    _, out, err = installed("replay", path)
    assert "recordings of blockpool are not replayed" in out + err
