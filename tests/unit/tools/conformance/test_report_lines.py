"""What a report says about a property: the fault, what it expected, or how much was checked."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.report import Finding, Result, _about

FINDING = Finding("A2/A", None, "x", "y", ((1,),), ())
OK = Result("answers", "cold", "every answer is that of a cold run", "ok")


@pytest.mark.parametrize("fields, text", [
    ({"checked": 1, "decisive": 1}, "1 check"), ({"checked": 2, "decisive": 2}, "2 checks"),
    ({"checked": 3, "decisive": 1, "reused": 2}, "3 checks, 1 of them could fail, 2 with reuse"),
    ({"checked": 3, "decisive": 3, "why": "few"}, "3 checks; few"), ({"why": "nothing to check"}, "nothing to check"),
    ({"state": "unsupported", "checked": 3, "why": "no burst"}, "no burst"),
    ({"state": "failed"}, "expected: every answer is that of a cold run"),
    ({"state": "missed", "why": "too short"}, "expected: every answer is that of a cold run (too short)"),
    ({"state": "failed", "fault": "another answer"}, "another answer"),
    ({"state": "failed", "fault": "another answer", "like": "stored"}, "another answer"),
    ({"state": "failed", "fault": "another answer", "like": "stored", "finding": FINDING},
     "same fault as stored: A2/A"),
])  # fmt: skip
def test_a_property_is_described_in_a_line(fields, text):
    values = {name: getattr(OK, name) for name in OK.__dataclass_fields__}
    assert _about(Result(**{**values, **fields})) == text
