"""Exit codes of replays, and the options of the command."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.base.errors import BadInput, NothingFound
from cachesim.base.pool import CompletedItem, KilledItem
from cachesim.engines.base import Answer
from cachesim.tools.picture.picture_options import PictureOptions
from cachesim.tools.replay import command
from cachesim.tools.replay.command import BAD, FAULT, _code, add_arguments
from cachesim.tools.replay.report import grouped_report
from tests.unit.tools.command_arguments import arguments

GOOD = {"file": "a.json", "profile": "p", "scope": "in", "why": "", "steps": 4, "steps_agree": 4, "steps_undecided": 0,
        "events": 9, "events_agree": 9, "first_difference": None, "verdicts_agree": None, "broken": [],
        "not_compared": []}  # fmt: skip


@pytest.mark.parametrize("fields, code", [
    ({}, exits.HOLDS), ({"steps_agree": 3}, exits.BROKEN), ({"steps_agree": 3, "steps_undecided": 1}, exits.UNDECIDED),
    ({"verdicts_agree": 4}, exits.HOLDS), ({"verdicts_agree": 3}, exits.BROKEN),
    ({"verdicts_agree": 3, "steps_agree": 3, "steps_undecided": 1}, exits.UNDECIDED),
    ({"steps": 0, "steps_agree": 0}, exits.UNDECIDED),
    ({"scope": BAD}, exits.BAD_INPUT),
    ({"scope": FAULT}, exits.CRASH),
])  # fmt: skip
def test_a_trace_has_an_exit_code(fields, code):
    assert _code({**GOOD, **fields}) == code


def text(*traces):
    return as_text(grouped_report([{**GOOD, **one} for one in traces], "profile", lambda trace: trace["profile"]))


def test_reasons_of_traces_out_of_scope_are_printed_only_if_all_are():
    out = {"scope": "out", "why": "another engine", "steps_agree": 0, "steps_undecided": 4}
    assert text(out, out).count("another engine") == 1 and "another engine" not in text(out, {})


def test_ten_differences_are_named_and_the_others_counted():
    found = text(*({"file": f"{n}.json", "first_difference": "step 1", "steps_agree": 3} for n in range(12)))
    assert found.count("step 1") == 10 and "and 2 more files" in found
    assert "more files" not in text(*({"first_difference": "step 1"} for _ in range(10)))
    assert "recorded, not compared: a, b" in text({"not_compared": ["b"]}, {"not_compared": ["a", "b"]})


def test_the_command_takes_pictures():
    parser = ArgumentParser()
    add_arguments(parser)
    assert parser.parse_args(["a.json", "--svg", "a.svg"]).svg == "a.svg"


def test_the_usage_names_the_value_of_each_option(capsys):
    parser = ArgumentParser(prog="replay")
    add_arguments(parser)
    usage = " ".join(parser.format_usage().split())
    assert "[--mode {none,provenance,exact}]" in usage and "[--in-scope]" in usage
    assert usage.endswith(" FILE [FILE ...]")
    args = parser.parse_args(["a", "b"])
    assert (args.files, args.mode, args.in_scope, args.json) == (["a", "b"], "none", False, False)
    with pytest.raises(SystemExit):
        parser.parse_args(["a", "--mode", "other"])
    assert "invalid choice: 'other'" in capsys.readouterr().err


def test_a_file_is_read_replayed_and_judged(monkeypatch):
    monkeypatch.setattr("cachesim.replay.recorded_trace.read_trace", lambda file, known: f"trace of {file}")
    monkeypatch.setattr("cachesim.replay.replay.replay", lambda *given: (*given[:2], callable(given[2])))
    monkeypatch.setattr("cachesim.tools.replay.report.replay_data", lambda found: {"found": found})
    assert command.replay_file(Path("a.json"), "exact") == {"found": ("trace of a.json", "exact", True)}


def replayed(file, mode):
    """Return the data of a replay: files are named after what becomes of them."""
    if file.stem == "bad":
        raise BadInput("no trace")
    if file.stem == "crash":
        raise ValueError("it")
    return {**GOOD, "file": file.name, "why": mode}


def test_a_file_that_cannot_be_replayed_has_the_reason_in_its_result(monkeypatch):
    monkeypatch.setattr(command, "replay_file", replayed)
    assert command.replay_one((Path("a.json"), "exact"))["why"] == "exact"
    bad, crash = (command.replay_one((Path(name), "exact")) for name in ("bad.json", "crash.json"))
    assert (bad["scope"], bad["why"], bad["file"], bad["steps"]) == (BAD, "bad.json: no trace", "bad.json", 0)
    assert (crash["scope"], crash["why"]) == (FAULT, "crash.json: ValueError: it (a fault of cachesim)")


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_results_have_the_order_of_their_files_and_failures_are_printed(monkeypatch, capsys, is_interrupted):
    files = [Path(f"{name}.json") for name in ("a", "bad", "killed", "b")]

    def finished(work, jobs, processes):
        assert [file for file, _ in jobs] == files and processes == 3
        for number in (3, 1, 2, 0):
            if is_interrupted and number == 0:
                raise KeyboardInterrupt
            yield CompletedItem(number, jobs[number], KilledItem("killed by signal 9") if number == 2 else
                                work(jobs[number]))  # fmt: skip

    monkeypatch.setattr(command, "replay_file", replayed)
    monkeypatch.setattr(command, "finished", finished)
    monkeypatch.setattr(command, "progress", lambda found, *_: found)
    found, ended = command.replay_all(files, "exact", 3)
    assert [one["file"] for one in found] == [*["a.json"] * (not is_interrupted), "bad.json", "killed.json", "b.json"]
    assert isinstance(ended, KeyboardInterrupt) is is_interrupted and found[-2]["scope"] == FAULT
    assert capsys.readouterr().err.splitlines() == [
        "cachesim: bad.json: no trace", "cachesim: killed.json: killed by signal 9, twice (a fault of cachesim)"]


@pytest.fixture
def called(monkeypatch, capsys):
    """Run the command on files with these results; return its exit code, stdout, stderr, and the pictures."""
    def ran(*results, ended=None, files=None, **given):
        args = Namespace(**{"files": ["x"], "mode": "exact", "in_scope": False, "jobs": 3, "json": False, "svg": "",
                            "html": "", "trace": "", **given})  # fmt: skip
        found = [Path(f"{number}.json") for number in range(len(results) if files is None else files)]
        drawn = []
        monkeypatch.setattr(command, "find_traces", lambda names: found)
        monkeypatch.setattr(command, "replay_file", lambda file, mode: (*results, mode)[0] if (file, mode) == (
            found[0], "exact") else None)  # fmt: skip
        monkeypatch.setattr(command, "replay_all", lambda files, mode, jobs: (
            ([*results], ended) if (files, mode, jobs) == (found, "exact", 3) and len(found) > 1 else 1 / 0))
        monkeypatch.setattr(command, "_draw", lambda given, file, data: drawn.append((file, data)))
        code = command.run(args)
        return code, *capsys.readouterr(), drawn

    return ran


OUT = {**GOOD, "scope": "out", "why": "another engine", "steps_agree": 0, "steps_undecided": 4}


def test_one_file_is_replayed_and_drawn(called):
    code, out, err, drawn = called(GOOD)
    assert (code, err, drawn) == (exits.HOLDS, "", []) and out.strip() and not out.startswith("{")
    assert called(GOOD, svg="a.svg")[3] == [(Path("0.json"), GOOD)]
    with pytest.raises(BadInput) as refused:
        called(GOOD, GOOD, svg="a.svg")
    assert str(refused.value) == "a picture shows a single recording, found 2 (name one file)"


def test_several_files_have_the_worst_code(called):
    worse = {**GOOD, "steps_agree": 3}
    assert [called(GOOD, other)[0] for other in (GOOD, worse, {**GOOD, "scope": BAD})] == [
        exits.HOLDS, exits.BROKEN, exits.BAD_INPUT]  # fmt: skip


def test_results_as_data(called):
    code, out, _, _ = called(GOOD, OUT, json=True)
    data = json.loads(out)
    assert code == exits.UNDECIDED and data["traces"] == [GOOD, OUT] and data["steps"] == 8
    code, out, _, _ = called(GOOD, OUT, json=True, in_scope=True)
    assert code == exits.HOLDS and json.loads(out)["traces"] == [GOOD]


def test_nothing_left_is_an_error_unless_the_replay_was_interrupted(called):
    with pytest.raises(NothingFound, match="no trace left to replay"):
        called(OUT, in_scope=True)
    code, _, err, _ = called(GOOD, ended=KeyboardInterrupt(), files=5)
    assert (code, err) == (exits.INTERRUPTED, "cachesim: interrupted: 1 of 5 files replayed\n")
    assert called(ended=KeyboardInterrupt(), files=2)[0] == exits.INTERRUPTED


@pytest.mark.parametrize(("first", "note"), [
    (None, ""), ({"step": 3, "field": "cache_n", "ours": 5}, "Step 3: the simulator differs: field cache_n, ours 5"),
])  # fmt: skip
def test_a_picture_notes_the_first_difference(monkeypatch, first, note):
    written = []
    picture = "cachesim.tools.replay.recorded_picture"
    monkeypatch.setattr("cachesim.replay.recorded_trace.read_trace", lambda file, known: f"trace of {file}")
    monkeypatch.setattr(f"{picture}.recorded_events", lambda trace: f"events of {trace}")
    monkeypatch.setattr(f"{picture}.recorded_scene", lambda trace, differs: (trace, differs))
    monkeypatch.setattr(command, "write_scenes", lambda *given: written.append(given))
    args = Namespace(mode="exact")
    command._draw(args, Path("my file.json"), {**GOOD, "first_difference": first})
    differs = (3, "the simulator differs: field cache_n, ours 5") if first else None
    assert written == [(args, [("trace of my file.json", differs)], ["events of trace of my file.json"],
                        PictureOptions("cachesim replay 'my file.json' --mode exact", note))]  # fmt: skip


def test_folders_are_their_recordings_and_files_stay_files(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.json", "a.json", "c.txt", "sub/d.json"):
        (tmp_path / name).write_text("{}")
    found = command.find_traces([tmp_path / "missing.json", tmp_path, tmp_path / "c.txt"])
    names = [path.relative_to(tmp_path).as_posix() for path in found]
    assert names[0] == "missing.json" and names[-1] == "c.txt" and names[1:3] == ["a.json", "b.json"]
    with pytest.raises(BadInput):
        command.find_traces([""])


@pytest.mark.parametrize(("answer", "live"), [
    ({"id_slot": 2}, True), ({"id_slot": 0}, True), ({"id_slot": -1}, False), ({"id_slot": 2, "status": 500}, False),
    ({"id_slot": 2, "died": True}, False),
])  # fmt: skip
def test_one_judge_judges_every_answer_with_its_slot(monkeypatch, answer, live):
    made, judged = [], []

    class Judge:
        def __init__(self, model):
            made.append(model)

        def judge(self, *given):
            judged.append(given)
            return SimpleNamespace(equal_cold="equal")

    monkeypatch.setattr("cachesim.judging.compare_answer.Judge", Judge)
    server = SimpleNamespace(model="model", inspection=SimpleNamespace(live=lambda slot: f"slot {slot}"))
    check, told = command.checker(), Answer(0, **answer)
    assert [check(server, "request", told) for _ in range(2)] == ["equal", "equal"] and made == ["model"]
    assert judged == [("request", told, f"slot {answer['id_slot']}" if live else None)] * 2


def test_the_command_explains_every_argument():
    parser = ArgumentParser()
    add_arguments(parser)
    assert [action.dest for action in parser._actions if not action.help] == []
    assert vars(parser.parse_args(["x", "y"])) == {
        "files": ["x", "y"], "mode": "none", "in_scope": False, "jobs": 1, "limits": [], "json": False, "html": "",
        "svg": "", "trace": ""}  # fmt: skip


def test_every_argument_has_a_help():
    parser = ArgumentParser()
    command.add_arguments(parser)
    assert [one.dest for one in parser._actions if not one.help] == []


def test_every_argument_is_explained_and_has_its_default():
    assert arguments(add_arguments, ["x"]) == {
        "files": ["x"], "mode": "none", "in_scope": False, "jobs": 1, "limits": [], "json": False, "html": "",
        "svg": "", "trace": ""}  # fmt: skip
