"""Tests of the state files of ``make million``, ``keyed``, ``blocks`` and ``trees``: campaigns without failures, in
files for resuming."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from cachesim.tools.search.campaign_file import read_campaign
from tests.docs.trust import CAMPAIGNS, searched

ROOT = CAMPAIGNS.parents[1]
TARGETS = ("million", "keyed", "blocks", "trees")
KEPT = {target: sorted((CAMPAIGNS / target).glob("campaign-*.json")) for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS)
def test_there_is_one_file_for_each_command(target):
    printed = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    asked = [shlex.split(line) for line in printed.replace("\\\n", " ").splitlines() if " fuzz " in line]
    seeds = sorted(int(words[words.index("--seed") + 1]) for words in asked)
    assert seeds == sorted(json.loads(file.read_text())["plan"][4] for file in KEPT[target])


@pytest.mark.parametrize("file", [file for files in KEPT.values() for file in files], ids=lambda file: file.name[:60])
def test_nothing_was_found_in_it(file):
    kept = read_campaign(file)
    assert not kept.campaign.failures
    assert kept.campaign.played == sum(stop - first for first, stop in kept.campaign.done)


@pytest.mark.parametrize("target", TARGETS)
def test_the_pages_say_how_many_conversations_that_is(target):
    assert searched(target) == sum(read_campaign(file).campaign.played for file in KEPT[target]) > 0
