"""Tests of the documents' plots: they have the numbers of the pages."""

import re
from html import unescape

from tests.workloads.agents import CLIENTS, LINES, MEMORY, MODELS, read
from tests.workloads.agents import PAGE as AGENTS
from tests.workloads.page import PAGE
from tests.workloads.plots import agents_picture, loss_picture, loss_rows


def says(drawing):
    return [unescape(one) for one in re.findall(r">([^<>]+)<", drawing)]


def test_a_row_has_the_sum_of_the_causes_and_names_the_largest():
    page = PAGE.read_text("utf-8")
    about, rows = loss_rows(page)
    shown = says(loss_picture(page))
    assert about.startswith("In 30 sessions") and len(rows) == 9
    for row in rows:
        assert f"| {row.rules} | {' | '.join(f'{share:.2f}' for share in row.lost.values())} |" in page
        assert row.rules in shown and row.says in shown
        assert row.says.startswith(f"{sum(row.lost.values()):.2f} %: {max(row.lost, key=row.lost.get)} ")


def test_a_point_has_the_share_of_its_row():
    page = AGENTS.read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| `[^`]*` \| ([\d.]+ %)", page, re.M)
    found = [re.fullmatch(r"(\d) agents?, (\d+) GiB: ([\d.]+ %)", one) for one in says(agents_picture(read(LINES)))]
    assert [one.groups() for one in found if one] == rows
    assert len(rows) == len(MODELS) * len(CLIENTS) * len(MEMORY)
