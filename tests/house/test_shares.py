"""Every test file belongs to exactly one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shares import ROOT, SECONDS, TOGETHER, files_below, shares


@pytest.mark.parametrize("number", [1, 2, 4])
def test_each_file_is_in_one_share(number):
    files = files_below([ROOT / "tests"])
    found = shares(files, number)
    assert len(found) == number and sorted(file for share in found for file in share) == files
    assert min(map(len, found)) > len(files) // (3 * number)


def test_files_that_keep_the_same_runs_are_in_one_share():
    together = {ROOT / name for name in TOGETHER}
    assert sum(not share.isdisjoint(together) for share in shares(files_below([ROOT / "tests"]), 4)) == 1


def test_listed_files_exist():
    assert [name for name in (*SECONDS, *TOGETHER) if not Path(ROOT, name).is_file()] == []


def test_a_file_that_is_named_alone_is_not_shared_out():
    assert files_below([ROOT / "tests" / "house" / "test_shares.py"]) == []
