"""Arguments of `cachesim repair`."""

from __future__ import annotations

from argparse import ArgumentParser
from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.judging import rule_exchange
from cachesim.judging.rule_exchange import RuleVariant
from cachesim.tools.search import repair, repair_command, report
from cachesim.tools.search.campaign import SPREAD
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.repair import CuredGroup, RepairResults
from cachesim.tools.search.rule_mutations import ChangePrice, CureTrial, MutationRun, MutationSearch


def parsed(*words):
    parser = ArgumentParser()
    repair_command.add_arguments(parser)
    return parser.parse_args(words)


def test_every_option_has_its_place():
    args = parsed("llama_cpp@b11549", "a.toml", "--property", "p", "--model", "A", "--set", "parallel=1",
                  "--examples", "3", "--seed", "4", "-p", "ik_llama@main", "--no-shrink", "--json")  # fmt: skip
    assert (args.profile, args.files, args.properties, args.models, args.settings) == (
        "llama_cpp@b11549", ["a.toml"], ["p"], ["A"], ["parallel=1"])  # fmt: skip
    assert (args.examples, args.seed, args.profiles, args.no_shrink, args.json) == (3, 4, ["ik_llama@main"], True, True)
    plain = parsed("llama_cpp@b11549")
    assert (plain.files, plain.examples, plain.seed, plain.no_shrink, plain.json) == ([], None, 0, False, False)


@pytest.mark.parametrize(("has_crashed", "failing", "code"), [
    (True, [1], exits.CRASH), (False, [1], exits.BROKEN), (False, [], exits.HOLDS), (True, [], exits.CRASH),
])  # fmt: skip
def test_a_crash_comes_before_a_failure(monkeypatch, has_crashed, failing, code):
    found = SimpleNamespace(has_crashed=has_crashed, failing=failing)
    monkeypatch.setattr(repair_command, "_repaired", lambda args: found)
    monkeypatch.setattr(repair, "repair_data", lambda found: {"kept": True})
    monkeypatch.setattr(repair, "with_failures", lambda data: data)
    monkeypatch.setattr(report, "repair_report", lambda data: str(data))
    assert repair_command.run(SimpleNamespace(json=False)) == code


def failing(number, *cures):
    run = MutationRun(number, "A", 10, (PropertyFailure("survives", 0, "", {"error": "it"}),))
    return CureTrial(run, frozenset(cures))


@pytest.fixture
def repaired(monkeypatch):
    """Return results with a chosen change that affects a correct conversation, and the jobs that are run."""
    tried = [failing(0, 1), failing(1, 1)]
    runs = [*(one.run for one in tried), MutationRun(2, "A", 10, (), {1: 1}), MutationRun(3, "A", 10, (), {0: 1})]
    known = tuple(RuleVariant(f"field{i}", "R.1", f"R.{i}", "x@1") for i in range(2))
    found = RepairResults(MutationSearch("x@1", ()), 0, 0, known, runs, tried)
    asked = []

    def spread(do, todo, jobs, what):
        asked.extend((what, job.source, job.changes) for job in todo)
        return [[MutationRun(one, "A", 15 if one == 2 else 10, () if one in (0, 2) else runs[1].found)
                 for one in job.source] for job in todo]  # fmt: skip

    monkeypatch.setattr(repair_command, "_spread", spread)
    return found, asked


def test_only_conversations_that_a_change_affects_are_run_for_its_price(repaired):
    found, asked = repaired
    assert repair_command._prices(found, 1) == {1: ChangePrice({"A": 20}, {"A": 25}, 0)}
    assert asked == [("prices", (2,), (found.known[1],))]


def test_the_chosen_changes_are_proved_together_on_affected_and_failing_conversations(repaired):
    found, asked = repaired
    repair_command._prove(found, 1)
    assert asked == [] and (found.together, found.held) == (None, 0)
    found.groups = [CuredGroup(1, tuple(found.tried), ())]
    repair_command._prove(found, 1)
    assert asked == [("all changes", (2, 0, 1), (found.known[1],))]
    assert (found.together, found.held) == (ChangePrice({"A": 20}, {"A": 25}, 0), 1)


def test_jobs_are_blocks_of_conversations():
    search = MutationSearch("x@1", ())
    sizes = [len(job.source) for job in repair_command._jobs(search, [*range(2 * repair_command.BLOCK + 1)])]
    assert sizes == [repair_command.BLOCK, repair_command.BLOCK, 1] and repair_command._jobs(search, []) == []


@pytest.mark.parametrize("as_json", [True, False])
def test_results_are_printed_as_json_or_explained(monkeypatch, capsys, as_json):
    found = SimpleNamespace(has_crashed=False, failing=[])
    monkeypatch.setattr(repair_command, "_repaired", lambda args: found)
    monkeypatch.setattr(repair, "repair_data", lambda found: {"kept": True})
    monkeypatch.setattr(repair, "with_failures", lambda data: {**data, "explained": True})
    monkeypatch.setattr(report, "repair_report", lambda data: f"report of {sorted(data)}")
    assert repair_command.run(SimpleNamespace(json=as_json)) == exits.HOLDS
    out = capsys.readouterr().out
    assert out.startswith('{"schema": ' if as_json else "report of ['explained', 'kept']")
    assert ("explained" in out) is not as_json


def asked(*words):
    search, files, numbers = repair_command._asked(parsed("llama_cpp@b11549", *words))
    return search, [one.id for one in files], numbers


def test_without_files_conversations_are_drawn_and_with_files_fewer_for_prices():
    search, files, numbers = asked("--model", "GA", "--property", "survives", "--seed", "2")
    assert (search.profile, search.properties, search.models, files) == ("llama_cpp@b11549", ("survives",), ("GA",), [])
    assert (numbers.start, len(numbers)) == (2 * SPREAD, repair_command.EXAMPLES)
    search, files, numbers = asked("llama-lesson-attention", "mlx-929-no-snapshot-below-8192-hybrid")
    assert (search.properties, files) == (repair_command.OWED, ["llama-lesson-attention"])
    assert len(numbers) == repair_command.PRICED and len(asked("llama-lesson-attention", "--examples", "0")[2]) == 0


@pytest.mark.parametrize(("words", "said"), [
    (("--examples", "0"), "--examples must be at least 1"), (("--property", "surives"), "unknown property 'surives'"),
    (("mlx-929-no-snapshot-below-8192-hybrid",), "the files contain no scenario for llama_cpp"),
    (("no-such-scenario",), "no-such-scenario"), (("-p", "llama_cpp@none"), "llama_cpp@none"),
])  # fmt: skip
def test_arguments_that_name_nothing_are_refused(words, said):
    with pytest.raises(BadInput, match=said):
        asked(*words)


def test_failures_are_shrunk_with_their_change_unless_it_is_not_wanted(monkeypatch):
    search, done = MutationSearch("llama_cpp@b11549", ("survives",), ()), []
    known = tuple(RuleVariant(f"f{n}", "a", "b", "x") for n in range(3))
    tried = [failing(5, 1), failing(6)]

    def spread(do, todo, jobs, what):
        done.append((what, jobs, todo))
        results = {"conversations": [[tried[0].run], [tried[1].run]], "changes": tried, "shrinking": ["small"] * 2}
        return results[what]

    monkeypatch.setattr(repair_command, "_asked", lambda args: (search, [], range(5, 7)))
    monkeypatch.setattr(repair_command, "_spread", spread)
    monkeypatch.setattr(repair_command, "_prices", lambda found, jobs: {1: ChangePrice({"A": 1}, {"A": 1}, 0)})
    monkeypatch.setattr(repair_command, "_prove", lambda found, jobs: None)
    monkeypatch.setattr(rule_exchange, "variants", lambda profile: known)
    found = repair_command._repaired(SimpleNamespace(jobs=2, seed=3, no_shrink=False))
    assert (found.seed, found.files, found.known, found.tried, found.small) == (3, 0, known, tried, ["small"] * 2)
    assert [(what, jobs) for what, jobs, _ in done] == [("conversations", 2), ("changes", 2), ("shrinking", 2)]
    assert [(job.source, job.change) for job in done[2][2]] == [(5, known[1]), (6, None)]
    assert [job.run for job in done[1][2]] == [one.run for one in tried] and done[0][2][0].known == known
    assert not repair_command._repaired(SimpleNamespace(jobs=2, seed=3, no_shrink=True)).small


@pytest.mark.parametrize(("words", "steps"), [((), ["shrinking"]), (("--no-shrink",), [])])
def test_a_repair_is_proved_before_its_conversations_are_shrunk(monkeypatch, words, steps):
    done = []
    monkeypatch.setattr(repair_command, "_spread", lambda do, todo, jobs, what: done.append(what) or [])
    monkeypatch.setattr(repair_command, "_asked", lambda args: (MutationSearch("x@1", ()), ["file"], [1, 2]))
    monkeypatch.setattr(repair_command, "_prices", lambda found, jobs: done.append("prices") or {})
    monkeypatch.setattr(repair_command, "_prove", lambda found, jobs: done.append("proof"))
    monkeypatch.setattr(rule_exchange, "variants", lambda profile: [])
    found = repair_command._repaired(parsed("llama_cpp@b11549", "--seed", "4", *words))
    assert done == ["conversations", "changes", "prices", "proof", *steps]
    assert (found.seed, found.tried, found.groups, found.runs) == (4, [], [], [])
