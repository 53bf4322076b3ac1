"""Sentences of the report on a log, as a file shows them."""

from __future__ import annotations

import pytest

from tests.unit.tools.server_logs.report_sentences import recorded, sentences

RECORDED = recorded()
PRINTED = {label: [line.rstrip() for line in lines] for label, lines in sentences()}


@pytest.mark.parametrize("section", ["headline", "facts", "next", "sections", "contents", "report"])
def test_the_report_prints_the_sentences_of_the_file(section):
    """``python -m tests.unit.tools.server_logs.report_sentences`` updates the file."""
    found = {label: lines for label, lines in PRINTED.items() if label.split(":")[0].split()[0] == section}
    assert found and found == {label: RECORDED.get(label) for label in found}


def test_the_file_has_no_other_cases():
    assert [*RECORDED] == [*PRINTED]
