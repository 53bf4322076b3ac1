"""Report on an imported log: what is shown, in which colour, and what only with -v."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cachesim.tools.server_logs.report.import_report import import_report, report_head, report_rest, short
from tests.unit.tools.server_logs.report_sentences import rendered, report, request


def test_counts_are_short_from_ten_thousand_on():
    assert [short(n) for n in (0, 9_999, 10_000, 1_234_567)] == ["0", "9,999", "10k", "1,235k"]


def test_the_report_is_its_head_and_its_rest():
    found, console = report([request(0)]), Console(file=io.StringIO(), width=200, color_system=None)
    console.print(report_head(found))
    console.print(report_rest(found, "", False))
    assert console.file.getvalue() == rendered(found)
    assert rendered(found).splitlines()[0].startswith("a.log: ")


def test_each_request_has_a_row_with_its_numbers_and_its_certainty():
    rows = [request(0), request(1, False), request(2, None, undecided=True), request(3, None, left_out="no length"),
            request(4, assumed="x"), request(5, cache_n=None, lcp=0, n_tokens=12)]  # fmt: skip
    lines = [line for line in rendered(report(rows), everything=True).splitlines() if line.strip()[:1].isdigit()]
    cells = [line.split() for line in lines]
    assert [line[:3] for line in cells[:2]] == [["0", "0", "1,000"], ["1", "0", "1,001"]]
    assert cells[5][:7] == ["5", "0", "12", "-", "7", "-", "9"] and len({line[7] for line in cells}) == 5
    assert lines[0].index("1,000") + 5 == lines[5].index("12") + 2


def test_the_table_of_the_simulation_is_shown_only_with_v_and_only_for_a_simulated_log():
    rows = [request(number) for number in range(3)]
    assert "1,002" not in rendered(report(rows)) and "1,002" in rendered(report(rows), everything=True)
    assert "1,002" not in rendered(report(rows, line=""), everything=True)


@pytest.mark.parametrize(("requests", "summary", "more", "numbers"), [
    (15, {}, {"rejected": True, "contradicted": [{"line": 700 + n, "what": "x", "printed": {}, "simulated": None,
                                                  "by_all": False} for n in range(5)]}, {700, 701, 702}),
    (2, {"causes": [{"says": "a", "requests": [1], "lost": 1234, "advice": ""},
                    {"says": "b", "requests": [0], "lost": 5678, "advice": ""}]}, {}, {1234}),
])  # fmt: skip
def test_the_first_of_several_are_shown_and_the_rest_with_v(requests, summary, more, numbers):
    found = report([request(number) for number in range(requests)], summary, **more)
    for everything, expected in ((False, numbers), (True, numbers | {703, 704} if 700 in numbers else {1234, 5678})):
        text = rendered(found, everything).replace(",", "")
        assert {number for number in (1234, 5678, *range(700, 705)) if f" {number}" in text} == expected


def test_requests_that_differ_are_red_and_those_that_were_left_out_yellow():
    rows = [request(0), request(1, False), request(2, None, left_out="no length"), request(3, False, left_out="why")]
    console = Console(file=io.StringIO(), width=200, color_system="standard", force_terminal=True, no_color=False)
    console.print(import_report(report(rows), "", True))
    lines = [line for line in console.file.getvalue().splitlines() if ",00" in line]
    assert ["\x1b[31m" in line for line in lines] == [False, True, False, True]
    assert ["\x1b[33m" in line for line in lines] == [False, False, True, False]
