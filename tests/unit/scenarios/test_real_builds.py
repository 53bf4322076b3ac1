"""Tests of the real builds on which the bundled scenarios were run."""

from __future__ import annotations

import re

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.real_builds import SEEN_ON, RealBuilds, counts_on, real_builds, seen_text

NAMED = "llama-24755-named-slot-no-lookup"
LINES = (corpus_root() / SEEN_ON).read_text("utf-8").splitlines()


@pytest.mark.parametrize(("found", "text"), [
    (RealBuilds(), ""),
    (RealBuilds(("b8672", "b9713"), ("b10566", "b11549")),
     "seen on the real b8672 and b9713, gone in b10566"),
    (RealBuilds(("b9713", "b9873", "b10566", "b11549"), ("b8352", "b8672")),
     "seen on 4 real builds, b9713 to b11549, not yet in b8672"),
    (RealBuilds(("b10566", "b11063", "b11549"), ("b9713",)),
     "seen on the real b10566, b11063 and b11549, not yet in b9713"),
    (RealBuilds(("b9713",), ("b8672", "b11549")), "seen on the real b9713, not yet in b8672, gone in b11549"),
    (RealBuilds((), ("b8672", "b9713")), "as simulated on the real b8672 and b9713"),
])  # fmt: skip
def test_where_a_fault_was_seen(found, text):
    assert seen_text(found) == text


def test_a_fault_that_a_build_repaired():
    found = real_builds(NAMED)
    assert "b9713" in found.shown and "b10566" in found.absent
    assert real_builds("no-such-scenario") == real_builds("b11549") == RealBuilds()


def test_the_counts_of_a_build():
    assert counts_on("b11549")["equal"] > 200 and "different" not in counts_on("b11549")
    assert counts_on("b1") == {}


def test_every_line_is_of_a_build_or_of_a_bundled_scenario():
    names = [line.partition(": ")[0] for line in LINES]
    scenarios = [name for name in names if not re.fullmatch(r"b\d+", name)]
    assert scenarios == sorted(scenarios) and set(scenarios) <= set(corpus_files())


@pytest.mark.long
def test_why_and_profiles_show_print_it(capsys):
    assert main(["why", NAMED, "2", "-p", "llama_cpp@b9518", "-q"]) == exits.HOLDS
    assert seen_text(real_builds(NAMED)) in " ".join(capsys.readouterr().out.split())
    assert main(["profiles", "show", "llama_cpp@b11549"]) == exits.HOLDS
    assert re.search(r"scenarios on the real build: \d+ equal", capsys.readouterr().out)
