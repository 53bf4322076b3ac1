"""Does the table of a run say of each request how it ended, and is the closing line green only where all is well?"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.reports.run_data import run_data
from cachesim.reports.run_table import closing_line, run_report, verdict_word
from tests.unit.reports.made import BROKEN, UNDECIDED, judgement, run, shown

STORED = SimpleNamespace(kind="entry", owner=1, resume=7)


def rows(*requests, **more):
    return shown(run_report(run_data(run(*requests, **more))))


@pytest.mark.parametrize(("equal", "refused", "word"), [
    (True, False, "yes"), (False, False, "NO"), (None, False, "?"), (None, True, "-"),
])  # fmt: skip
def test_the_verdict_in_one_word(equal, refused, word):
    assert verdict_word({"equal_cold": equal, "refused": refused})[0] == word


def test_every_column_shows_its_own_count():
    lines = rows(judgement(cache_n=3, prompt_n=7, deciding="R.1"), judgement(cache_n=4, prompt_n=6, restored=True))
    assert lines[1].split() == ["#", "prompt", "tokens", "kept", "restored", "computed", "decided", "by", "=cold"]
    assert [line.split() for line in lines[2:4]] == [
        ["0", "A", "10", "3", "·", "7", "R.1", "yes"], ["1", "B", "10", "·", "4", "6", "yes"],
    ]  # fmt: skip


@pytest.mark.parametrize(("fields", "said"), [
    ({"died": True, "status": 500}, "process ended"), ({"cancelled": True}, "hung up"),
    ({"status": 500}, "error (500)"), ({"status": 400}, "error (400)"),
    ({"status": 400, "refused": True}, "refused (400)"), ({"status": 500, "refused": True}, "error (500)"),
])  # fmt: skip
def test_how_a_request_ended(fields, said):
    verdict = UNDECIDED if "refused" in fields else BROKEN
    assert said in rows(judgement(verdict, **fields))[2]


def test_a_loss_at_the_request_itself_has_no_other_request():
    lines = rows(judgement(charges=[(1, 3, "erased", "R.1", -1, "checkpoint")]),
                 judgement(charges=[(1, 2, "evicted", "R.2", 0, "entry")]))  # fmt: skip
    assert "request 1: 3 tokens: checkpoint erased R.1" in lines
    assert "request 1: 2 tokens: entry evicted at request 0 R.2" in lines


def test_an_armed_object_is_told_once_where_it_first_shows():
    armed = [(STORED, BROKEN)]
    lines = rows(judgement(), judgement(armed=armed), judgement(armed=armed))
    told = [line for line in lines if "armed" in line]
    assert len(told) == 1 and told[0].startswith("after request 1: entry of 7 tokens (of 1)")


def test_what_ends_the_table():
    assert "=> holds" in rows(judgement())
    assert "=> BROKEN at request 1, 2" in rows(judgement(), judgement(BROKEN), judgement(BROKEN))
    assert "=> undecided; not answered: request 0" in rows(judgement(UNDECIDED, refused=True))


def of_runs(*runs, failed=0):
    """(text, colour) of the closing line of runs, each (holds, as expected)."""
    line = closing_line([{"holds": holds, "as_expected": met} for holds, met in runs], failed)
    return line.plain, str(line.style)


@pytest.mark.parametrize(("runs", "failed", "text", "colour"), [
    ([(True, True)], 0, "1 run: 1 holds, 0 broken, 0 undecided; 1 as its file says, 0 not", "bold green"),
    ([(True, None)] * 2, 0, "2 runs: 2 hold, 0 broken, 0 undecided; 0 as their files say, 0 not", "bold green"),
    ([(True, None), (False, True)], 0, "1 broken", "bold yellow"),
    ([(True, None), (None, True)], 0, "1 undecided", "bold yellow"),
    ([(True, False)], 0, "1 not", "bold red"),
    ([(True, True)], 2, "; 2 not run", "bold red"),
])  # fmt: skip
def test_the_closing_line_is_green_only_where_all_is_well(runs, failed, text, colour):
    line = of_runs(*runs, failed=failed)
    assert text in line[0] and line[1] == colour
