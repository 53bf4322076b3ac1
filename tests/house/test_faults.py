"""Every fault attributed to a server names evidence, and the evidence shows it."""

from __future__ import annotations

import json

import pytest

from tests.evidence.digests import of_case
from tests.house import faults
from tests.house.faults import Fault, doubt, misplaced
from tests.shared import ROOT

PAGE = """# Known faults

## engine: found by reading

### D1

**A checkpoint survives.** Wrong answer.
Evidence: recording llama_cpp/mamba2-bug-stale-ckpt-pos0.json step 2;
scenario one on b1.

## engine: reported faults

### LC-1

**A window is short.** Reported as [#1](https://github.com/ggml-org/llama.cpp/issues/1).

## Predicted

### P1

**A row is not zeroed.** Read in the source.
"""


def test_a_fault_gives_evidence_or_stands_under_predicted():
    for fault in faults.faults(faults.FAULTS.read_text("utf-8")):
        assert misplaced(fault) == "", fault.name
        assert [why for piece in fault.evidence if (why := doubt(piece))] == [], fault.name


def test_a_page_is_read_by_sections():
    one, two, three = faults.faults(PAGE)
    assert one.evidence == ("recording llama_cpp/mamba2-bug-stale-ckpt-pos0.json step 2", "scenario one on b1")
    assert (two.evidence, three.section) == ((), "Predicted")
    assert [misplaced(fault) for fault in (one, two, three)] == ["", "", ""]


@pytest.mark.parametrize("fault", [
    Fault("D1", "engine: found by reading", "**It is.**", ()),
    Fault("LC-1", "engine: reported faults", "**It is.** Without a thread.", ()),
    Fault("P1", "Predicted", "**It is.**", ("compared with mlx-lm 0.32.2",)),
])
def test_a_fault_in_the_wrong_place_is_found(fault):
    assert misplaced(fault)


STALE = "recording llama_cpp/mamba2-bug-stale-ckpt-pos0.json"


@pytest.mark.parametrize("piece, told", [
    (f"{STALE} step 2", ""), (f"{STALE} step 0", "is not wrong"), (f"{STALE} step 0 (reuse)", ""),
    (f"{STALE} step 99", "has no step"), ("compared with mlx-lm 0.32.2", ""),
    ("compared with mlx-lm 9.9", "missing transcript"), ("everybody knows", "not a piece of evidence"),
    ("scenario nothing on b0", "no output of b0"),
])
def test_a_piece_of_evidence_is_looked_at(piece, told):
    assert told in doubt(piece) and bool(doubt(piece)) == bool(told)


def stored(tmp_path, **changes):
    """Write the output of a build for a scenario, in the form of scenarios/evidence."""
    file = next((ROOT / "scenarios").rglob("llama-24143-entry-removed-hybrid.toml"))
    one = {
        "scenario": of_case(file), "profile": "llama_cpp@b1", "flags": ["-np", "1"],
        "requests": [{"n": 0, "cache_n": 0, "prompt_n": 5, "warm": [1], "cold": [2], "max_dlogprob": 0.5,
                      "differs": True}], "as_simulated": True, **changes,
    }  # fmt: skip
    data = {"build": "b1", "version": "version: 1", "scenarios": {file.stem: one}}
    (tmp_path / "b1.json").write_text(json.dumps(data))
    return f"scenario {file.stem} on b1"


@pytest.mark.parametrize("changes, told", [
    ({}, ""), ({"scenario": "0" * 64}, "has changed"), ({"as_simulated": False}, "did otherwise"),
])
def test_the_output_of_a_server_is_that_of_the_scenario_as_it_is(tmp_path, changes, told):
    assert told in (found := doubt(stored(tmp_path, **changes), tmp_path)) and bool(found) == bool(told)
    assert "has no scenario" in doubt("scenario another on b1", tmp_path)
