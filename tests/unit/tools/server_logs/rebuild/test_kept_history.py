"""Tests of logs whose requests continue the contents of their slot instead: the saving is that of a run by hand."""

from __future__ import annotations

import json

import pytest

from cachesim.cli.main import main
from cachesim.scenarios.notation.canonical_text import spell
from cachesim.tools.server_logs.import_log import rebuild_log
from cachesim.tools.server_logs.rebuild.kept_history import KeptHistory
from tests.unit.tools.server_logs.simulated_log import evaluated, simulated_log

EDITED = "A300>a20/A.a[:19].B200>b20/A[:150].C460>c20/A[:150].C.c[:19].D30>d20"
"""Request 2 leaves the contents of its slot at token 150, within the first prompt; request 3 continues it."""
KEPT = "A300>a20/A.a[:19].B200>b20/A.a[:19].B.b[:19].C460>c20/A.a[:19].B.b[:19].C.c[:19].D30>d20"
REPEATED = "A300>a20/A.a[:19].B200>b20/A.a[:19].B.b[:19].C460[388:]>c20/A.a[:19].B.b[:19].C[388:].c[:19].D30>d20"


def log_of(tmp_path, line, model="GGGA", **server):
    log = tmp_path / "server.log"
    log.write_text(simulated_log(line, model, 4, **server), "utf-8")
    return log


@pytest.mark.parametrize(("repeats", "line"), [(False, KEPT), (True, REPEATED)])
def test_changed_requests_continue_their_slot_and_later_ones_continue_them(tmp_path, repeats, line):
    found = rebuild_log(log_of(tmp_path, EDITED)).found
    changed = KeptHistory(found, frozenset({2}), repeats)(found.scenario.line)
    assert spell(changed).replace("|", "") == line


@pytest.mark.parametrize("steps", [frozenset(), frozenset({1}), frozenset({0})])
def test_requests_that_continue_their_slot_do_not_change(tmp_path, steps):
    found = rebuild_log(log_of(tmp_path, EDITED)).found
    assert KeptHistory(found, steps)(found.scenario.line) is None


def advised(capsys, *words):
    main(["advise", *words, "--json", "-q"])
    (data,) = json.loads(capsys.readouterr().out)["advise"]
    return data


def test_advise_simulates_what_import_proposes(tmp_path, capsys):
    """The history of request 2 was edited: the saving is the difference of two runs."""
    data = advised(capsys, str(log_of(tmp_path, EDITED)))
    history = next(one for one in data["proposed"] if one["cause"] == "history")
    before, least, most = (evaluated(line) for line in (EDITED, KEPT, REPEATED))
    assert (history["outcome"], history["requests"]) == ("saves", [2])
    assert (history["saved"], history["saved_most"]) == (before - least, before - most)
    best = data["advice"][history["suggestion"] - 1]
    assert best["saved"] == history["saved"] > 0 and any("slot" in clause for clause in best["rests_on"])


def test_a_changing_beginning_of_short_prompts_is_not_simulated(capsys):
    """Requests 3 to 5 of the log are shorter than what their slots held."""
    data = advised(capsys, "tests/unit/tools/server_logs/verbosity_4.log")
    outcomes = {one["cause"]: (one["outcome"], one["saved"], bool(one["why"])) for one in data["proposed"]}
    assert outcomes["start"] == ("not simulated", None, True)
    assert outcomes["turn end"] == ("saves", 4, False)
    assert outcomes["no-checkpoint"] == ("saves nothing", 0, False)
