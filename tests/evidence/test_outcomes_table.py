"""The stored grades match the current rules and recordings."""

from __future__ import annotations

import random
import re
from itertools import takewhile

import pytest

from cachesim.engines.registry import BUILTIN
from cachesim.engines.rule_outcomes import Outcome, graded_rules
from cachesim.judging.evidence import Grade, released_rules, table_of
from tests.evidence import digests, peer_runs, server_runs, sglang_servers, vllm_start
from tests.evidence.survey import disagrees
from tests.evidence.table import COMPARED, file_of, rules_of_engine
from tests.shared import ROOT, TRACES, absent

DRAWN = 12               # pairs of each engine to verify again
TABLES = {engine: table_of(engine) for engine in BUILTIN}
SEEN = {
    engine: sorted((outcome, other, where) for outcome, one in table.graded.items() for other, where in
                   one.seen.items()) for engine, table in TABLES.items()
}


@pytest.mark.parametrize("engine", BUILTIN)
def test_every_rule_is_graded_with_its_present_code(engine):
    rules, stored = rules_of_engine(engine), TABLES[engine].code
    stale = {name for name, code in stored.items() if name not in rules or code != digests.of_rule(rules[name])}
    ungraded = rules.keys() - stored.keys() - rules_of_newer_builds(engine)
    assert (stale | ungraded, "make grades") == (set(), "make grades")


def rules_of_newer_builds(engine):
    """Return the ids of the rules that began with the main-branch builds after the last one whose rules are all
    graded: those are read, and not yet recorded."""
    kit, stored = BUILTIN[engine], TABLES[engine].code
    ids = {name: {fn.rule for fn in graded_rules(rules).values()} for name, rules in kit.profiles.items()}
    newer = list(takewhile(lambda name: not ids[name] <= stored.keys(), reversed(kit.line)))
    return set().union(*(ids[name] for name in newer)) - set().union(*(ids[name] for name in ids if name not in newer))


@pytest.mark.parametrize("engine", BUILTIN)
def test_every_available_recording_is_unchanged(engine):
    here = {name: file_of(name, TRACES) for name in TABLES[engine].recordings}
    stale = {name for name, file in here.items()
             if file.exists() and digests.of_file(file) != TABLES[engine].recordings[name]}
    assert (stale, "make grades") == (set(), "make grades")


def recorded_pairs(engine):
    """Return randomly chosen pairs, the same on every machine."""
    played = [pair for pair in SEEN[engine] if not pair[2].startswith(COMPARED)]
    return random.Random(27).sample(played, min(DRAWN, len(played)))


RECORDED = [pytest.param(engine, *pair, marks=pytest.mark.long if " scenario " in pair[2] else ())     # takes seconds
            for engine in BUILTIN if engine != peer_runs.ENGINE for pair in recorded_pairs(engine)]  # fmt: skip


@pytest.mark.parametrize("engine, outcome, alternative, where", RECORDED)
def test_a_recording_still_refutes_another_answer(engine, outcome, alternative, where):
    file = file_of(where, TRACES)
    if not file.exists():
        pytest.skip(absent(TRACES))
    if " scenario " in where:
        assert_scenario_refutes((engine, outcome, alternative), where)
        return
    mode = "provenance" if " verdict " in where else "none"
    step, what = disagrees(file, outcome, alternative, mode)
    assert where.endswith(f" {what} at step {step}")


def assert_scenario_refutes(pair, where):
    name, request = re.search(r" scenario (\S+) at request (\d+)", where).groups()
    assert server_runs.refuting_request(pair, file_of(where, TRACES), name) == int(request)


SERVERS = [pair for pair in SEEN["sglang"] if pair[2].startswith(sglang_servers.STORED.relative_to(ROOT).as_posix())]
PEERS = sorted(recorded_pairs(peer_runs.ENGINE), key=lambda pair: " scenario " in pair[2])          # scenarios last


@pytest.mark.parametrize("outcome, alternative, where", [
    pytest.param(*pair, marks=pytest.mark.long if number else ())
    for number, pair in enumerate([*PEERS[:2], *PEERS[-2:]])
])
def test_the_real_code_still_refutes_another_answer(outcome, alternative, where):
    if " scenario " in where:
        assert_scenario_refutes((peer_runs.ENGINE, outcome, alternative), where)
        return
    assert where.startswith("tests/data/mlx_lm/")
    found = peer_runs.search((outcome, alternative))
    assert found.file == file_of(where, TRACES)


@pytest.mark.long
@pytest.mark.parametrize("outcome, alternative, where", random.Random(5).sample(SERVERS, min(3, len(SERVERS))))
def test_a_released_server_of_sglang_still_refutes_another_answer(outcome, alternative, where):
    found = sglang_servers.search((outcome, alternative))
    assert where.endswith(f" {found.what} at step {found.step}")


def test_a_rule_recorded_from_a_patched_server_is_graded_recorded():
    table = TABLES["llama_cpp"]
    assert "LC-PC-LOAD.CLONE" not in released_rules("llama_cpp")
    assert table.grade(Outcome("LC-PC-LOAD.CLONE", "no")) is Grade.RECORDED


def test_a_rule_between_two_rule_sets_belongs_to_a_release():
    """Builds b7690 to b7746 have it, of which b7710 was run."""
    assert "LC-CHILDREN.SELECTED" in released_rules("llama_cpp")
    assert TABLES["llama_cpp"].grade(Outcome("LC-CHILDREN.SELECTED", "selected")) is Grade.RECORDED


CODE = '''
LIMIT = 3

def _inner(x):
    """Says something."""
    return x > LIMIT

@rule("X", 1, "source")
def outer(x):
    """Decides."""
    return _inner(x)

def other(x):
    return x
'''


@pytest.mark.parametrize("old, new, same", [
    ("LIMIT = 3", "LIMIT = 4", False), ("x > LIMIT", "x >= LIMIT", False), ("return _inner(x)", "return 1", False),
    ("Says something", "Says more", True), ('"source"', '"another"', True), ("return x\n", "return 2\n", True),
])
def test_a_digest_covers_the_code_that_a_rule_uses(old, new, same):
    assert old in CODE
    changed = digests.code_of(CODE.replace(old, new), "outer")
    assert (changed == digests.code_of(CODE, "outer")) == same


def test_the_stored_defaults_refute_the_pairs_that_name_them():
    made = {(one.outcome, one.other) for one in vllm_start.found()}
    assert {(outcome, other) for outcome, other, where in SEEN["vllm"] if where.startswith(COMPARED)} == made
