"""Tests of ``cachesim fuzz``: output, files and exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput, Terminated, Unwritable
from cachesim.base.files import locked
from cachesim.cli.main import main
from cachesim.judging.fault_kinds import FaultKind
from cachesim.scenarios.load import load
from cachesim.tools.search import (
    campaign,
    campaign_folder,
    campaign_jobs,
    failure_causes,
    fuzz_command,
    merge_command,
    repair_command,
    shrink_command,
)
from cachesim.tools.search.fuzz_command import drawn_models, requested_properties
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import ALL
from tests.shared import alike
from tests.unit.tools.command_arguments import arguments

BAD = ("fuzz", "-p", "ik_llama@1889-base", "--property", "warm-equals-cold", "--model", "GA", "--examples", "20")


def call(capsys, *argv):
    code = main([*map(str, argv)])
    got = capsys.readouterr()
    return code, got.out, got.err


def test_a_failure_is_exit_1_with_its_line_and_its_file(capsys):
    code, out, _ = call(capsys, *BAD)
    assert code == exits.BROKEN
    assert "warm-equals-cold: logits at position" in out
    assert "[[request]]" not in out
    assert "distinct failure" in out.splitlines()[-1]


@pytest.mark.long
def test_scenario_files_are_printed_before_the_summary_if_wanted(capsys, hasty):
    _, out, _ = call(capsys, *BAD, "--toml")
    assert 'profiles = ["ik_llama@1889-base"]' in out and "[[request]]" in out
    assert "distinct failure" in out.splitlines()[-1]


def test_nothing_found_is_exit_0(capsys):
    """Only attention, and a single completion per request: several completions trigger a known fault of the engine with
    any seed (llama-delayed-copy-overwrites-load)."""
    drawn = campaign.draw_conversation

    def one_completion(*args):
        case = drawn(*args)
        return replace(case, asked=alike(case.asked, n_cmpl=1))

    with patch.object(campaign, "draw_conversation", one_completion):
        code, out, _ = call(capsys, "fuzz", "-p", "llama_cpp@b10587", "--model", "A", "--examples", "30")
    assert code == exits.HOLDS
    assert "llama_cpp@b10587  seed 0, 30 conversations" in out
    assert "nothing found for warm-equals-cold" in out


@pytest.mark.long
def test_json_has_the_contracts_keys(capsys):
    code, out, _ = call(capsys, *BAD[:-1], "40", "--json")
    data = json.loads(out)
    assert (code, data["schema"], data["profile"], data["seed"]) == (exits.BROKEN, 1, "ik_llama@1889-base", 0)
    assert (data["examples"], data["properties"]) == (40, ["warm-equals-cold"])
    one = data["failures"][0]
    assert one.keys() == {
        "property", "kind", "numbers", "deciding", "role", "stored", "rule", "text", "step", "causes", "times",
        "conversation", "shrunk", "line", "model", "server", "requests", "longest", "id", "toml",
        "command",
    }  # fmt: skip
    assert one["requests"] <= 4
    assert sum(failure["times"] for failure in data["failures"]) >= 2


@pytest.mark.long
def test_files_are_written_and_run(capsys, tmp_path, hasty):
    code, _, err = call(capsys, *BAD, "--out", tmp_path)
    files = list(tmp_path.glob("*.toml"))
    assert code == exits.BROKEN
    for file in files:
        assert file.name in err
        assert load(file).id == file.stem
    code, _, _ = call(capsys, "run", *files, "--provenance")
    assert code == exits.BROKEN


@pytest.mark.long
def test_without_shrinking_there_are_the_conversations_as_they_were(capsys):
    code, out, err = call(capsys, *BAD, "--no-shrink", "--json")
    one = json.loads(out)["failures"][0]
    assert (code, one["shrunk"], err) == (exits.BROKEN, False, "")
    assert 'profiles = ["ik_llama@1889-base"]' in one["toml"]
    _, out, _ = call(capsys, *BAD, "--no-shrink")
    assert "(not shrunk)" in out and "[[request]]" not in out


@pytest.fixture
def hasty(monkeypatch):
    """Shorten shrinking to a few tries."""
    plain = campaign.shrink
    monkeypatch.setattr(campaign, "shrink", lambda case, fails, _, seed: plain(case, fails, 30, seed))


def interrupt_at(monkeypatch, name, number, error=KeyboardInterrupt):
    """Make the named function raise ``error`` after its call number ``number``."""
    plain, calls = getattr(campaign_jobs, name), []

    def interrupted(job, **how):
        calls.append(job)
        if len(calls) > number:
            raise error
        return plain(job, **how)

    monkeypatch.setattr(campaign_jobs, name, interrupted)


@pytest.mark.part(3)
@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (Terminated(signal.SIGTERM), 143)])
def test_findings_survive_an_interruption(capsys, monkeypatch, tmp_path, error, code):
    interrupt_at(monkeypatch, "work", 1, error)
    got, out, err = call(capsys, *BAD[:-1], "160", "--json", "--out", tmp_path)
    data = json.loads(out)
    assert (got, data["examples"]) == (code, 50)
    assert {one["shrunk"] for one in data["failures"]} == {False}
    assert "interrupted" in err and f"not shrunk: {len(data['failures'])} of {len(data['failures'])} failures" in err
    assert sorted(file.stem for file in tmp_path.glob("*.toml")) == sorted(one["id"] for one in data["failures"])


@pytest.mark.long
@pytest.mark.parametrize("name", ["work", "shrunk"])
def test_an_interrupted_campaign_is_resumed_and_nothing_is_counted_twice(capsys, monkeypatch, tmp_path, hasty, name):
    argv = (*BAD[:-1], "70", "--json")
    _, whole, _ = call(capsys, *argv)
    with monkeypatch.context() as patched:
        interrupt_at(patched, name, 1)
        assert call(capsys, *argv, "--out", tmp_path)[0] == exits.INTERRUPTED
    code, out, _ = call(capsys, *argv, "--out", tmp_path, "--resume")
    assert (code, json.loads(out)) == (exits.BROKEN, json.loads(whole))
    files = {file.stem: file.read_text() for file in tmp_path.glob("*.toml")}
    assert files == {one["id"]: one["toml"] for one in json.loads(out)["failures"]}
    code, again, err = call(capsys, *argv, "--out", tmp_path, "--resume")
    assert (code, json.loads(again), err) == (exits.BROKEN, json.loads(whole), "")


def test_the_same_campaign_is_not_begun_twice_in_a_folder(capsys, tmp_path):
    call(capsys, *BAD, "--no-shrink", "--out", tmp_path)
    code, out, err = call(capsys, *BAD, "--out", tmp_path)
    assert (code, out) == (exits.BAD_INPUT, "")
    assert "this campaign already exists (--resume continues it)" in err
    assert call(capsys, *BAD, "--seed", "1", "--no-shrink", "--out", tmp_path)[0] == exits.BROKEN


@pytest.mark.long
def test_two_processes_do_not_work_on_one_campaign(capsys, tmp_path):
    call(capsys, *BAD, "--no-shrink", "--out", tmp_path)
    [state] = tmp_path.glob("campaign-*.json")
    with locked(tmp_path / f".{state.name}.lock") as free:
        assert free
        code, out, err = call(capsys, *BAD, "--out", tmp_path, "--resume")
        assert (code, out) == (exits.BAD_INPUT, "")
        assert err == f"cachesim: {state}: another process is running this campaign\n"
        assert call(capsys, *BAD, "--seed", "1", "--no-shrink", "--out", tmp_path)[0] == exits.BROKEN
    assert call(capsys, *BAD, "--no-shrink", "--out", tmp_path, "--resume")[0] == exits.BROKEN
    assert not list(tmp_path.glob(".*"))


def test_a_file_that_a_killed_campaign_left_is_removed_when_it_goes_on(capsys, monkeypatch, tmp_path):
    """The state file names a scenario file before it exists, here that of a conversation not first in its group."""
    written = []

    def killed(file, data, plain=campaign_folder.write_new):
        if file.suffix == ".toml":
            written.append((file, json.loads(state().read_bytes())["owned"]))
        return plain(file, data)

    def state():
        return next(tmp_path.glob("campaign-*.json"))

    monkeypatch.setattr(campaign_folder, "write_new", killed)
    call(capsys, *BAD, "--no-shrink", "--out", tmp_path)
    assert written and all(file.stem in owned for file, owned in written)
    data = json.loads(state().read_bytes())
    state().write_text(json.dumps({**data, "owned": [*data["owned"], "fuzz-99-00000000"]}))
    (tmp_path / "fuzz-99-00000000.toml").write_text("left")
    (tmp_path / "fuzz-98-00000000.toml").write_text("another campaign's")
    call(capsys, *BAD, "--no-shrink", "--out", tmp_path, "--resume")
    assert sorted(file.name for file in tmp_path.glob("fuzz-9*.toml")) == ["fuzz-98-00000000.toml"]


def test_a_folder_that_is_missing_is_made(capsys, tmp_path):
    code, _, err = call(capsys, *BAD, "--no-shrink", "--out", tmp_path / "a" / "b")
    assert (code, len(list((tmp_path / "a" / "b").glob("fuzz-*.toml")))) == (exits.BROKEN, err.count("fuzz-"))


@pytest.mark.long
def test_what_cannot_be_written_is_printed(capsys, monkeypatch, tmp_path, hasty):
    def full(*_):
        raise BadInput("cannot be written: no space left on device", file="x.toml")

    monkeypatch.setattr(campaign_folder, "write_new", lambda file, data: "campaign" in file.name or full())
    code, out, err = call(capsys, *BAD, "--out", tmp_path)
    assert (code, [*tmp_path.glob("*.toml")]) == (exits.BROKEN, [])
    assert "[[request]]" in out and err.count("no space left") == 1


@pytest.mark.long
def test_a_conversation_at_which_processes_die_is_named_and_the_campaign_goes_on(capsys, monkeypatch):
    monkeypatch.setattr(campaign_jobs, "work", deadly)
    code, out, _ = call(capsys, *BAD[:-1], "150", "-j", "2", "--json", "--no-shrink")
    data = json.loads(out)
    assert (code, data["examples"]) == (exits.CRASH, 100)
    [died] = [one for one in data["failures"] if one["property"] == "simulator"]
    assert died["text"] == "conversations 50 .. 99 of seed 0 were not judged: killed by SIGKILL, twice"
    assert "toml" not in died and len(data["failures"]) > 1


def deadly(job):
    if job.first == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    return campaign.work(job)


def endless(job):
    """Return a failure in the first block; never finish the others."""
    if job.first:
        signal.pause()
    found = PropertyFailure("warm-equals-cold", 0, FaultKind.ROW, {"layer": 0, "position": 3}, "R")
    return campaign.CampaignBlock([(1, found)], 50, 0, 0, 50)


def pause(job, **how):
    signal.pause()


@pytest.mark.long
@pytest.mark.parametrize("more", [(), ("--no-shrink",)])
def test_the_time_ends_what_is_being_done_and_what_was_not_shrunk_is_said(capsys, monkeypatch, more):
    monkeypatch.setattr(campaign_jobs, "work", endless)
    monkeypatch.setattr(campaign_jobs, "shrunk", pause)
    argv = [word for word in BAD if word not in ("--examples", "20")]
    code, out, err = call(capsys, *argv, "--minutes", "0.05", "--json", *more)
    data = json.loads(out)
    assert (code, data["examples"], data["failures"][0]["shrunk"]) == (exits.BROKEN, 50, False)
    assert ("not shrunk: " in err) is not bool(more)


@pytest.mark.parametrize(("argv", "words"), [
    (("-p", "llama_cpp@b10587x"), ("unknown profile", "llama_cpp@b10587")),
    (("-p", "llama_cpp@b10587", "--property", "survive"), ("unknown property", "survives")),
    (("-p", "mlx_lm@d78bf58e", "--model", "Q"), ("unknown model for this engine: 'Q'", "GGGA")),
    (("-p", "mlx_lm@d78bf58e", "--minutes", "1", "--examples", "5"), ("exclude each other",)),
    (("-p", "mlx_lm@d78bf58e", "--jobs", "0"), ("at least 1",)),
    (("-p", "mlx_lm@d78bf58e", "--jobs", "many"), ("found 'many'",)),
    (("-p", "mlx_lm@d78bf58e", "--minutes", "1e9"), ("found '1e9'",)),
    (("-p", "mlx_lm@d78bf58e", "--out", "/dev/null"), ("/dev/null: cannot be written",)),
    (("-p", "mlx_lm@d78bf58e", "--out", "/dev/null/below"), ("cannot be written: not a directory",)),
    (("-p", "mlx_lm@d78bf58e", "--resume"), ("add --out FOLDER",)),
])  # fmt: skip
def test_what_cannot_be_done_is_exit_2_with_a_hint(capsys, argv, words):
    code, out, err = call(capsys, "fuzz", *argv)
    assert (code, out) == (exits.BAD_INPUT, "")
    assert all(word in err for word in words), err


@pytest.mark.long
def test_what_is_written_exists_or_is_replaced(capsys, tmp_path):
    _, _, err = call(capsys, *BAD, "--out", tmp_path)
    written = re.findall(r"^cachesim: (\S+) written(?: in place of (\S+))?$", err, re.M)
    replaced = {old for _, old in written if old}
    names = {Path(path).name for path, _ in written}
    assert replaced and names - replaced == {file.name for file in tmp_path.glob("*.toml")}


ONE = PropertyFailure("warm-equals-cold", 0, FaultKind.ROW, {"layer": 0, "position": 3}, "LC-NPAST-LCP")
SEARCH = ("fuzz", "-p", "ik_llama@main", "--model", "GA")


@pytest.fixture
def given(monkeypatch):
    """Give the findings of a campaign without running anything; the causes of failures are not searched."""
    asked = []

    def work(job):
        asked.append(job)
        return campaign.CampaignBlock([(job.first + 1, one) for one in given.found], job.stop - job.first, 0,
                                      job.first, job.stop)  # fmt: skip

    given = SimpleNamespace(found=[ONE], asked=asked, shrunk=[])
    monkeypatch.setattr(campaign_jobs, "work", work)
    monkeypatch.setattr(campaign_jobs, "shrunk", lambda one, plan: given.shrunk.append(one.first) or one)
    monkeypatch.setattr(failure_causes, "with_causes", lambda data, plan, left: {**data, "searched": True})
    return given


def test_the_plan_of_a_search_is_that_of_its_arguments(capsys, given):
    call(capsys, *SEARCH, "--examples", "60", "--seed", "4", "--property", "survives", "--property", "survives",
         "--against", "ik_llama@1889-base", "--set", "parallel=3", "--mode", "exact", "--json")  # fmt: skip
    assert [(job.first, job.stop) for job in given.asked] == [(0, 50), (50, 60)]
    assert given.asked[0].plan == campaign.CampaignPlan(
        "ik_llama@main", ("survives",), ("GA", "parallel=3"), "exact", 4, "ik_llama@1889-base")  # fmt: skip
    call(capsys, "fuzz", "--examples", "1", "--json")
    assert given.asked[-1].plan[2:] == ((), "provenance", 0, "")
    call(capsys, *SEARCH, "--examples", "30", "--shard", "2/3", "--json")
    assert [(job.first, job.stop) for job in given.asked[3:]] == [(10, 20)]


@pytest.mark.parametrize("words", [("-p", "nosuch@1"), ("--against", "nosuch@1")])
def test_an_engine_that_is_unknown_is_refused_before_anything_runs(capsys, given, words):
    code, out, err = call(capsys, *SEARCH, *words, "--examples", "1")
    assert (code, out, given.asked) == (exits.BAD_INPUT, "", []) and "nosuch" in err and err.count("\n") == 1


@pytest.mark.parametrize("own", ["ik_llama@main", "ik_llama@1889-base"])
def test_rules_of_a_file_are_not_searched_on_a_cluster(capsys, given, monkeypatch, own):
    monkeypatch.setattr("cachesim.engines.rule_files.rule_file_digest", lambda name: "x" * (name == own))
    code, _, err = call(capsys, *SEARCH, "--against", "ik_llama@1889-base", "--on", "dask://x:1", "--examples", "1")
    assert (code, given.asked) == (exits.BAD_INPUT, [])
    assert err.startswith("cachesim: --on 'dask://x:1': workers cannot use rules from a local file (")


def test_what_is_found_is_shrunk_searched_and_printed(capsys, given):
    code, out, err = call(capsys, *SEARCH, "--examples", "5", "--json")
    data = json.loads(out)
    assert (code, data["searched"], data["examples"], given.shrunk) == (exits.BROKEN, True, 5, [1])
    assert "not shrunk: 1 of 1 failures" in err
    code, out, err = call(capsys, *SEARCH, "--examples", "5", "--no-shrink")
    assert (code, given.shrunk) == (exits.BROKEN, [1]) and "not shrunk: " not in err
    assert "ik_llama@main  seed 0, 5 conversations" in out and out.endswith("1 distinct failure\n")
    given.found = []
    code, out, _ = call(capsys, *SEARCH, "--examples", "5", "--json")
    assert code == exits.HOLDS and "searched" not in json.loads(out)


def test_an_interrupt_prints_the_results_so_far(capsys, given, monkeypatch):
    def stop(failure, plan):
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign_jobs, "shrunk", stop)
    code, out, err = call(capsys, *SEARCH, "--examples", "5", "--json")
    assert code == exits.INTERRUPTED and "interrupted: results so far" in err and "searched" not in json.loads(out)


def test_a_failure_is_drawn_and_without_one_nothing_is(capsys, given, tmp_path):
    file = tmp_path / "x.svg"
    assert call(capsys, *SEARCH, "--examples", "5", "-q", "--svg", file)[0] == exits.BROKEN
    assert file.read_text().startswith("<svg ")
    page = tmp_path / "x.html"
    assert call(capsys, *SEARCH, "--examples", "5", "-q", "--html", page)[0] == exits.BROKEN
    assert "Hence" in page.read_text() and "cachesim run " in page.read_text()
    file.unlink()
    given.found = []
    assert "no failure to draw" in call(capsys, *SEARCH, "--examples", "5", "--svg", file)[2] and not file.exists()


def test_properties_and_models_are_named_once():
    assert requested_properties([]) == tuple(PROPERTIES) and requested_properties(["survives", "all"]) == ALL
    assert requested_properties(["survives", "answered", "survives"]) == ("survives", "answered")
    args = SimpleNamespace(models=["GA", "H", "GA"], settings=["parallel=2"])
    found = drawn_models(args, "ik_llama@main")
    assert found[0] == "GA" and found.count("GA") == 1 and found[-1] == "parallel=2" and len(found) == len({*found})
    assert drawn_models(SimpleNamespace(models=[], settings=[]), "ik_llama@main") == ()


class GivenSearches:
    """Searches on real servers that note the numbers they run."""

    def __init__(self, differences=()):
        self.ran, self.shown, self.differences = [], [], list(differences)
        self.run = lambda number, stop: self.ran.append(number)
        self.data = lambda: {"differences": self.differences}

    def search(self, seed, narrowed, shrinks):
        self.asked = seed, narrowed, shrinks
        return [self]

    def show_search(self, found):
        self.shown.append(found)


@pytest.mark.parametrize(("differences", "code"), [((), exits.HOLDS), ((1,), exits.BROKEN)])
def test_drawn_conversations_run_on_real_servers(capsys, monkeypatch, differences, code):
    real = GivenSearches(differences)
    monkeypatch.setattr(fuzz_command, "real_runs", lambda args: real)
    assert call(capsys, "fuzz", "--real", "b1", "--examples", "3", "--model", "GA", "--seed", "4")[0] == code
    assert (real.ran, real.asked, real.shown) == ([0, 1, 2], (4, ("GA",), True), [[{"differences": [*differences]}]])
    _, out, _ = call(capsys, "fuzz", "--real", "b1", "--no-shrink", "--json")
    assert (len(real.ran), real.asked[2], len(real.shown)) == (3 + fuzz_command.REAL_EXAMPLES, False, 1)
    assert json.loads(out)["real"] == [{"differences": [*differences]}]


def test_a_difference_on_one_of_several_real_servers_is_a_failure(capsys, monkeypatch):
    alike, other = GivenSearches(), GivenSearches([1])
    alike.search = lambda *_: [alike, other]
    monkeypatch.setattr(fuzz_command, "real_runs", lambda args: alike)
    assert call(capsys, "fuzz", "--real", "b1", "--examples", "2")[0] == exits.BROKEN
    assert alike.ran == other.ran == [0, 1]


def test_options_of_real_servers_need_some(capsys, given):
    code, _, err = call(capsys, *SEARCH, "--examples", "1", "--install")
    assert (code, given.asked) == (exits.BAD_INPUT, []) and "--install goes with --real" in err


def test_a_search_without_a_failure_prints_no_note(capsys, given):
    given.found = []
    code, _, err = call(capsys, *SEARCH, "--examples", "5")
    assert (code, err) == (exits.HOLDS, "")


def test_a_search_on_a_cluster_sends_its_jobs_there(capsys, given, monkeypatch):
    sent = []
    monkeypatch.setattr(campaign_jobs, "run_on_cluster",
                        lambda address, *_: sent.append(address) or iter(()))  # fmt: skip
    call(capsys, *SEARCH, "--on", "dask://x:1", "--examples", "5")
    assert (sent, given.asked) == (["dask://x:1"], [])


def test_a_search_ends_with_the_next_command(capsys, given, monkeypatch):
    monkeypatch.setattr(fuzz_command, "after_fuzz", lambda data: [["why", data["failures"][0]["property"]]])
    assert call(capsys, *SEARCH, "--examples", "5")[2].splitlines()[-1] == f"next: cachesim why {ONE.name}"


def test_an_interrupted_search_on_real_servers_prints_its_part(capsys, monkeypatch):
    real = GivenSearches()

    def stop(number, left):
        raise KeyboardInterrupt

    real.run = stop
    monkeypatch.setattr(fuzz_command, "real_runs", lambda args: real)
    code, _, err = call(capsys, "fuzz", "--real", "b1", "--examples", "3")
    assert code == exits.INTERRUPTED and "interrupted: results so far" in err and len(real.shown) == 1


@pytest.mark.parametrize("words", [
    ("-p", "llama_cpp@b10587"), ("--against", "llama_cpp@b10587"), ("--property", "survives"), ("--out", "x"),
    ("--corpus", "x"), ("--gguf", "x"),
])  # fmt: skip
def test_options_of_a_simulated_search_do_not_go_with_real(capsys, words):
    code, _, err = call(capsys, "fuzz", "--real", "b1", *words)
    assert code == exits.BAD_INPUT and f"{words[0]} does not go with --real" in err


@pytest.mark.parametrize(("words", "cause"), [
    (("--examples", "0"), "--examples must be at least 1"),
    (("--against", "ik_llama@main"), "--against 'ik_llama@main' is the rule set of -p itself (name another one)"),
    (("--model", "ZZ"), "unknown model for this engine: 'ZZ'"),
])  # fmt: skip
def test_a_search_that_would_find_nothing_is_refused(capsys, given, words, cause):
    code, out, err = call(capsys, *SEARCH, *words)
    assert (code, out, given.asked) == (exits.BAD_INPUT, "", []) and cause in err


def test_a_search_ends_at_a_file_that_cannot_be_written(capsys, given, monkeypatch):
    work = campaign_jobs.work

    def full(job):
        if job.first:
            raise Unwritable("no space left", file="x")
        return work(job)

    monkeypatch.setattr(campaign_jobs, "work", full)
    code, out, err = call(capsys, *SEARCH, "--examples", "60", "--json")
    assert code == exits.BROKEN and json.loads(out)["examples"] == 50 and given.shrunk == []
    assert "x: no space left; results so far" in err
    given.found = []
    assert call(capsys, *SEARCH, "--examples", "60", "--json")[0] == exits.BAD_INPUT


def test_a_stored_case_that_cannot_run_is_bad_input(capsys, given, tmp_path, monkeypatch):
    given.found = []
    results = [campaign_jobs.StoredCaseResult("a.toml", ()), campaign_jobs.StoredCaseResult("b.toml", (), "cannot run")]
    monkeypatch.setattr(campaign_jobs, "stored_cases", lambda folder, plan, known: ["a.toml", "b.toml"])
    for own, code in ((results[:1], exits.HOLDS), (results, exits.BAD_INPUT),
                      ([results[0]._replace(found=(ONE,))], exits.BROKEN)):  # fmt: skip
        monkeypatch.setattr(campaign_jobs.CampaignSearch, "check", lambda self, files, own=own: self.corpus.extend(own))
        assert call(capsys, *SEARCH, "--examples", "5", "--corpus", tmp_path, "--json")[0] == code


@pytest.mark.parametrize(("words", "missing", "is_said"), [
    (["--toml"], False, True), ([], False, False), ([], True, True)])
def test_scenario_files_are_printed_if_asked_for_or_not_written(capsys, monkeypatch, words, missing, is_said):
    one = {"property": "survives", "shrunk": True, "toml": "a file"}
    args = SimpleNamespace(json=False, toml=bool(words))
    folder = SimpleNamespace(missing={"group"} if missing else set())
    monkeypatch.setattr(campaign_folder, "group_of", lambda failure: "group")
    monkeypatch.setattr(campaign_folder, "with_failures", lambda data: data)
    monkeypatch.setattr("cachesim.tools.search.report.fuzz_report", lambda data: "the report")
    others = [{**one, "shrunk": False}, {name: value for name, value in one.items() if name != "toml"}]
    fuzz_command._tell({"failures": [*others, one]}, args, folder)
    assert capsys.readouterr().out == ("a file\n\n" if is_said else "") + "the report\n"
    fuzz_command._tell({"failures": [one]}, args, None)
    assert capsys.readouterr().out == ("a file\n\n" if words else "") + "the report\n"


class Clock:
    """Clock whose time to run conversations is over after some looks."""

    def __init__(self, looks, shrinks=0):
        self.looks, self.to_shrink = looks, lambda: shrinks

    def to_play(self):
        self.looks -= 1
        return max(0, self.looks)


def test_a_search_on_real_servers_ends_with_its_time(monkeypatch, capsys):
    real, stops = GivenSearches(), []
    real.run = lambda number, stop: stops.append((number, stop()))
    monkeypatch.setattr(fuzz_command, "real_runs", lambda args: real)
    args = SimpleNamespace(**dict.fromkeys(("profile", "against", "properties", "out", "corpus", "on", "gguf")),
                           minutes=5, examples=2, no_shrink=False, json=True)  # fmt: skip
    plan = SimpleNamespace(seed=4, models=())
    assert fuzz_command._search_real(args, plan, Clock(4)) == exits.HOLDS
    assert stops == [(0, True), (1, True), (2, True)] and real.asked == (4, (), True)
    args.minutes = None
    fuzz_command._search_real(args, plan, Clock(9, shrinks=1))
    assert stops[3:] == [(0, False), (1, False)]


@pytest.mark.parametrize(("left", "is_time"), [(None, True), (0.5, True), (1, True), (0, False), (0.0, False)])
def test_causes_are_sought_while_there_is_time(capsys, given, monkeypatch, left, is_time):
    asked = []
    monkeypatch.setattr(campaign_jobs.CampaignClock, "to_shrink", lambda self: left)
    monkeypatch.setattr(failure_causes, "with_causes", lambda data, plan, more: asked.append((plan, more())) or data)
    call(capsys, *SEARCH, "--examples", "5", "--no-shrink", "--json")
    assert asked == [(given.asked[0].plan, is_time)]


def test_every_argument_is_explained_and_has_its_default():
    searched = {"properties": [], "models": [], "settings": [], "examples": None, "seed": 0, "jobs": 1,
                "no_shrink": False, "json": False}  # fmt: skip
    assert arguments(fuzz_command.add_arguments) == {
        **searched, "profile": "", "against": "", "pasted": "", "mode": "provenance", "minutes": None, "on": None,
        "shard": None, "out": None, "toml": False, "resume": False, "corpus": None, "real": "", "gguf": None,
        "install": False, "html": "", "svg": "", "trace": ""}  # fmt: skip
    assert arguments(repair_command.add_arguments, ["p@1"]) == {
        **searched, "profile": "p@1", "files": [], "profiles": []}  # fmt: skip
    assert arguments(shrink_command.add_arguments, ["x"]) == {
        "what": "x", "profile": "", "model": None, "settings": [], "properties": [], "mode": "provenance",
        "tries": None, "limits": [], "json": False}  # fmt: skip
    assert arguments(merge_command.add_arguments, ["x"]) == {"folders": ["x"], "out": None, "json": False}
