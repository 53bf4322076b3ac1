"""A short campaign, and a test that a campaign detects removed checks."""

from __future__ import annotations

import json
import os
import time
from collections import Counter

import pytest

from tests.hostile import judged, tally
from tests.hostile.campaign import Campaign
from tests.hostile.child import Ended, prepare, run
from tests.hostile.fixed import cases, made
from tests.hostile.kinds import KINDS, MADE, mutant, wheel
from tests.hostile.mutant import Mutant
from tests.hostile.planted import PLANTS, no_escape, no_form
from tests.hostile.readers import READERS
from tests.hostile.smaller import smaller
from tests.hostile.tame import tame
from tests.hostile.warm_child import run_all

pytestmark = pytest.mark.long
SHORT = 160                  # mutants
NOTICED = 400                # mutants of a kind, within which a removed check is detected
HASTE, LONGER = 0.3, 4       # CPU seconds after which a missing check may have cost time; factor by which it must
WELL = Ended(code=0, cpu=0.1, mib=50, stdout=10, stderr="", parsed=True)


@pytest.fixture(autouse=True, scope="module")
def prepared():
    prepare()


def test_a_short_campaign_finds_nothing():
    total = tally.play(1, 0, SHORT)
    assert total["findings"] == []
    assert tally.good(total), "\n".join(tally.table(total))


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_removed_check_is_detected(plant):
    for number in range(plant.first, plant.first + NOTICED):
        one = mutant(plant.kind, number)
        ended = run(one, plant=plant.take_out, cpu=1)
        if not any(what.startswith(plant.found) for what in judged.findings(ended, cpu=HASTE)):
            continue
        checked = run(one, cpu=3)
        if plant.found == "time" and ended.cpu < LONGER * checked.cpu:
            continue                                                     # it takes as long with the check
        assert judged.findings(checked, cpu=3) == []                     # no findings with the check
        return
    pytest.fail(f"{NOTICED} mutants do not detect it")


def test_a_number_is_always_the_same_mutant():
    for name in wheel():
        assert mutant(name, 7) == mutant(name, 7)
        assert mutant(name, 7) != mutant(name, 8)


def test_earlier_mutants_do_not_change_a_mutant():
    for name in wheel():
        before = mutant(name, 3)
        for number in range(40):
            mutant(name, number)
        assert mutant(name, 3) == before


def test_every_kind_has_its_share_of_a_round():
    assert Counter(wheel()) == {kind.name: kind.weight for kind in KINDS.values() if kind.possible}


CRASHED = 'Traceback (most recent call last)\n  File "/a/cachesim/x.py", line 3\nKeyError: 1\n'
BAD_ENDS = {
    "traceback: cachesim/x.py:3 KeyError": {"code": 70, "stderr": CRASHED},
    "signal: 11": {"code": -11},
    "hang: not finished in 300 seconds": {"code": -14},
    "time: more than 10 CPU seconds": {"cpu": 10.5},
    "memory: more than 512 MiB": {"mib": 513},
    "error: 2 lines": {"code": 2, "stderr": "cachesim: a\ncachesim: b\n"},
    "error: no message": {"code": 2},
    "noise: x.py:0: Warning": {"stderr": "x.py:12: Warning\n"},
    "error: a line of more than 300 characters: cachesim a": {"code": 2, "stderr": f"cachesim: a{'.' * 300}\n"},
    "exit code: 4": {"code": 4},
    "output: more than 16 MiB": {"stdout": 17 << 20},
    "left: tmp*": {"left": ("tmpab_d1234",)},
    "left: a process": {"running": 1},
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_ENDS)
def test_a_bad_end_is_a_finding(what):
    assert judged.findings(WELL) == []
    assert judged.findings(Ended(**{**vars(WELL), **BAD_ENDS[what]})) == [what]


def test_mutants_that_share_a_process_end_as_they_do_alone():
    for name in ("scenario", "trace", "body", "kv-events", "config", "watch"):
        cases = [mutant(name, number) for number in range(6)]
        shared = [(end.code, end.stdout, end.parsed) for end, _ in run_all(cases, KINDS[name].parser)]
        ends = [run(case, KINDS[name].parser) for case in cases]
        assert shared == [(end.code, end.stdout, end.parsed) for end in ends]


def test_a_shared_process_that_ends_loses_no_mutant(monkeypatch):
    monkeypatch.setitem(READERS, "abort", lambda mutant: os._exit(3))
    cases = [Mutant("x", number, ("--version",)) for number in range(3)]
    cases[1:1] = [Mutant("x", 9, (), given_to="abort")]
    assert [end.code for end, _ in run_all(cases)] == [0, 3, 0, 0]


def test_leftover_files_and_cpu_time_are_measured():
    def bad():
        import tempfile

        tempfile.mkstemp()
        while True:
            pass

    ended = run(Mutant("x", 0, ("--version",)), plant=bad, cpu=0)
    assert ended.cpu > 0.5 and ended.left and ended.left[0].startswith("tmp")
    assert any(what.startswith("time") for what in judged.findings(ended, 0))


@pytest.mark.parametrize("form", ["curl", "script"])
def test_a_text_that_an_export_executes_is_a_finding(form):
    [case] = [case for case in cases() if case["name"].startswith("C1") and case["argv"][3] == form]
    assert judged.findings(run(made(case))) == []
    found = judged.findings(run(made(case), plant=no_escape))
    assert any(what.startswith("traceback: tests/hostile/exported.py") for what in found)


def test_a_process_outside_of_the_group_is_a_finding():
    def bad():
        if not os.fork():
            os.setsid()
            time.sleep(60)

    ended = run(Mutant("x", 0, ("--version",)), plant=bad)
    assert "left: a process" in judged.findings(ended)


def test_control_characters_on_stdout_are_a_finding():
    ended = run(Mutant("x", 0, ("--version",)), plant=lambda: print("\x1b[31m"))
    assert judged.findings(ended) == ["raw: control character U+001B printed"]


def test_a_search_is_short_and_may_leave_its_files():
    assert tame(["fuzz", "--out", "a"]) == ("fuzz", "--examples", "4", "--out", "a")
    argv = ("fuzz", "-p", "ik_llama@1889-base", "--model", "GA", "--examples", "20", "--no-shrink", "--out", "a")
    left = run(Mutant("option", 0, argv)).left
    assert left and run(Mutant("option", 0, argv, made=MADE)).left == ()


def test_a_finding_is_shrunk():
    one = mutant("trace", PLANTS[0].first)
    [what] = judged.findings(run(one, plant=no_form))
    small = smaller(one, lambda candidate: what in judged.findings(run(candidate, plant=no_form)))
    assert len(small.files["in.json"]) < len(one.files["in.json"]) / 10
    assert small.argv == ("replay", "in.json")


def test_a_campaign_is_continued(tmp_path):
    first = Campaign(0, 12, state=tmp_path)
    first.shares = [(0, 4), (4, 8), (8, 12)]
    first.file((0, 4)).write_text(json.dumps(tally.play(0, 0, 4)))
    assert first.left() == [(4, 8), (8, 12)]
    assert list(first.work(2)) == [0, 1]
    total = tally.added(first.done())
    assert tally.whole(total)["n"] == 12
    assert first.left() == []
