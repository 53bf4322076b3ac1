"""Reports of constructed runs, as reports.txt has them."""

from __future__ import annotations

from tests.unit.tools.run.reports import FILE, shown


def test_reports_are_those_of_the_file():
    assert shown() == FILE.read_text("utf-8")
