"""Tests of the records of ``make million``, ``keyed``, ``blocks`` and ``trees``: state files of finished campaigns."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from tests.docs.trust import CAMPAIGNS, searched

ROOT = CAMPAIGNS.parents[1]
TARGETS = ("million", "keyed", "blocks", "trees")
KEPT = {target: sorted((CAMPAIGNS / target).glob("campaign-*.json")) for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS)
def test_there_is_a_finished_record_of_each_command(target):
    printed = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    asked = [shlex.split(line) for line in printed.replace("\\\n", " ").splitlines() if " fuzz " in line]
    numbers = {int(words[words.index("--seed") + 1]): int(words[words.index("--examples") + 1]) for words in asked}
    kept = [json.loads(file.read_text()) for file in KEPT[target]]
    assert {one["plan"][4]: one["played"] for one in kept} == numbers
    assert searched(target) == sum(numbers.values())


@pytest.mark.parametrize("file", [file for files in KEPT.values() for file in files], ids=lambda file: file.name[:60])
def test_nothing_was_found_in_it(file):
    kept = json.loads(file.read_text())
    assert kept["failures"] == []
    assert kept["played"] == sum(stop - first for first, stop in kept["done"])
