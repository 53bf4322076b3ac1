"""Tests use public names of the package, replace nothing of it, and build its records with their constructors."""

from __future__ import annotations

from functools import cache

import pytest

from tests.house import doors

MOST = 60
"""Accepted findings; the number only shrinks."""


@cache
def found():
    """Return the (file, name) of all findings in the tests."""
    return {(one.file, one.name) for one in doors.all_findings()}


def test_tests_touch_what_modules_offer():
    assert found() - set(doors.exceptions()) == set()


def test_exceptions_are_few_used_and_have_a_reason():
    accepted = doors.exceptions()
    assert len(accepted) <= MOST and all(len(reason.split()) > 3 for reason in accepted.values())
    assert set(accepted) <= found()


IMPORTS = "import time\nfrom cachesim.base import pool\nfrom cachesim.base.pool import Pool\n"


@pytest.mark.parametrize("line, what", [
    ("pool._take(1)", "private"), ("from cachesim.base.pool import _take", "private"),
    ('monkeypatch.setattr("cachesim.base.pool._take", None)', "private"),
    ('monkeypatch.setattr(pool, "spread", None)', "replaced"), ('monkeypatch.setattr(Pool, "map", None)', "replaced"),
    ('monkeypatch.setattr(one, "spread", None)', "replaced"), ("pool.spread = None", "replaced"),
    ("SimpleNamespace(slots=[])", "half object"),
])
def test_a_test_may_not(line, what):
    assert {one.what for one in doors.findings_in(IMPORTS + line, "tests/test_x.py")} == {what}


@pytest.mark.parametrize("line", [
    "pool.spread([])", "one._replace(a=1)", "self._take = 1", 'monkeypatch.setattr(time, "sleep", None)',
    'monkeypatch.setattr(pool, "time", None)', 'monkeypatch.setattr(pool.subprocess, "Popen", None)',
    'monkeypatch.setattr(pool, "LIMIT", 1)', 'monkeypatch.setattr("os.replace", None)', "found = time._take",
])
def test_a_test_may(line):
    assert [*doors.findings_in(IMPORTS + line, "tests/test_x.py")] == []
