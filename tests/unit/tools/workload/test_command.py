"""``cachesim workload``: its table, its JSON, and what it refuses."""

import io
import json
import os
import sys

import pytest

from cachesim.base import exits, progress_bar
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.workload import command
from cachesim.tools.workload.cell_jobs import CellJob
from tests.shared import forget_engines

DATA = "tests/workloads/data"
RULES = """
from dataclasses import replace
from cachesim.engines.llama_cpp.profiles import NEWEST, PROFILES

PROFILE = replace(PROFILES[NEWEST], name="llama_cpp@mine")
"""


def test_the_table_has_a_row_for_each_rule_set(capsys):
    assert main(["workload", DATA, "-p", "llama_cpp@latest", "-p", "ik_llama@main", "--scale", "16", "-np", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 sessions, 12 requests, 2 sub-agents" in out
    assert all(f"\n{name} " in out for name in ("llama_cpp@b11549", "ik_llama@main"))
    assert max(map(len, out.splitlines())) <= 80


def test_a_long_name_takes_no_room_from_the_numbers(capsys):
    assert main(["workload", DATA, "-p", "llama_cpp@b11549-repaired", "--scale", "16", "--detail", "counts"]) == 0
    out = capsys.readouterr().out
    assert "llama_cpp@" in out and "b11549-repaired" in out and "restored loaded wrong MiB ckpt MiB pc" in out
    assert "\u2026" not in out and max(map(len, out.splitlines())) <= 80


def test_sessions_share_a_server(capsys):
    shared = ["workload", DATA, "--sessions", "2", "--scale", "16", "--detail", "counts"]
    assert main([*shared, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (line,), (total,) = found["lines"], found["totals"]
    assert (line["session"], line["requests"], line["wrong"]) == ("agents+chat", 12, None)
    assert [(one["sessions"], one["servers"]) for one in (line, total)] == [(2, 1), (2, 1)]
    assert main(shared) == 0
    assert capsys.readouterr().out.startswith("2 sessions on 1 server, 12 requests, 2 sub-agents, ")


@pytest.mark.parametrize(("argv", "told"), [
    ([DATA, "--scale", "7"], "a scale of 7 does not divide blocks of 64 tokens"),
    ([DATA, "--scale", "0"], "must be at least 1"),
    ([DATA, "--model", "nobodys-model"], "unknown sizes of K/V rows and states: model 'nobodys-model'"),
    (["tests/workloads/data/none.json"], "none.json"),
    ([DATA, "--limit", "workload=100"], "at most 100 tokens are allowed"),
    ([DATA, "--model", "mamba-2", "-p", "llama_cpp@b10587", "-p", "ik_llama@main"], "ik_llama has no model 'mamba-2'"),
    ([DATA, "--set", "nonsense=1"], "unknown server option 'nonsense'"),
])  # fmt: skip
def test_what_cannot_be_played_is_one_line(capsys, argv, told):
    assert main(["workload", *argv]) == 2
    err = capsys.readouterr().err
    assert told in err and "Traceback" not in err


def test_without_a_result_the_last_error_is_the_json(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("{}")
    assert main(["workload", str(tmp_path), "--json"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (error["kind"], error["code"], len(err.splitlines())) == ("input", 2, 2)
    assert all(f"{name}.jsonl" in err for name in "ab") and error["message"] in err


def test_with_one_result_errors_are_lines_on_stderr(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.jsonl").write_text('{"blocks": [1, 2, 3]}\n')
    assert main(["workload", str(tmp_path), "--json", "--detail", "counts"]) == 2
    out, err = capsys.readouterr()
    assert [line["session"] for line in json.loads(out)["lines"]] == ["b"] and err.count("a.jsonl") == 1


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_keeps_the_results_before_it(tmp_path, capsys, monkeypatch, as_json):
    synced, fsync = tmp_path / "out", os.fsync

    def interrupt(file):
        fsync(file)
        if any('"line"' in one.read_text() for one in synced.glob("workload-*.jsonl")):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    words = ["workload", DATA, "--detail", "counts", "--scale", "64", "--out", str(synced), *["--json"] * as_json]
    assert main(words) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    assert "interrupted" in err and ("1 session, " in out or [one["session"] for one in json.loads(out)["lines"]])
    monkeypatch.undo()
    assert main([*words, "--resume"]) == exits.HOLDS
    (file,) = synced.glob("workload-*.jsonl")
    assert file.read_text().count('"line"') == 2 and "2 sessions" in capsys.readouterr().out


def test_a_local_file_of_rules_is_not_sent_to_a_cluster(tmp_path, capsys, monkeypatch):
    forget_engines(monkeypatch)
    file = tmp_path / "mine.py"
    file.write_text(RULES)
    words = ["workload", DATA, "-p", str(file), "--detail", "counts", "--scale", "64"]
    assert main([*words, "--on", "dask://127.0.0.1:1"]) == exits.BAD_INPUT
    assert "local file" in capsys.readouterr().err


@pytest.mark.parametrize(("total", "code"), [
    ({}, exits.HOLDS), ({"undecided": 1}, exits.UNDECIDED), ({"wrong": 1}, exits.BROKEN), ({"died": 1}, exits.BROKEN),
    ({"wrong": 1, "undecided": 1}, exits.BROKEN), ({"wrong": None, "undecided": None}, exits.HOLDS),
])  # fmt: skip
def test_the_code_of_a_sum(total, code):
    assert command.code_of({"wrong": 0, "died": 0, "undecided": 0, **total}) == code


def test_a_folder_without_a_workload_and_an_unknown_rule_set_are_refused(tmp_path, capsys):
    assert main(["workload", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "cachesim: the folders contain no workload (files end in .json or .jsonl)\n")  # fmt: skip
    assert main(["workload", DATA, "-p", "llama_cpp@none"]) == 2
    assert "unknown profile 'llama_cpp@none'" in capsys.readouterr().err
    assert main(["workload", DATA, "--resume"]) == 2
    assert capsys.readouterr().err == "cachesim: --resume needs a folder (add --out FOLDER)\n"


def test_there_is_a_job_for_each_server_under_each_rule_set():
    profiles = ["llama_cpp@b9518", "mlx_lm@0.32.2"]
    options = command.JobOptions("qwen3-next", profiles * 2, scale=16, detail="answers")
    files = [f"{DATA}/agents.json", f"{DATA}/chat.jsonl"]
    assert [(job.files, job.profile) for job in command.jobs([DATA], options)] == [
        ((file,), profile) for profile in profiles for file in files]  # fmt: skip
    (job,) = command.jobs([DATA], options._replace(sessions=2, profiles=()))
    assert job == CellJob(tuple(files), DEFAULT_PROFILE, "qwen3-next", {}, 16, "judged", True)


def test_there_is_a_job_for_each_rule_set_and_server_and_its_model_is_known(tmp_path):
    for name in ("a.json", "b.json", "c.jsonl"):
        (tmp_path / name).touch()
    profiles = ["llama_cpp@b9518", "vllm@0.33.0"]
    options = command.JobOptions("GA", profiles, sessions=2, scale=4, detail="counts")
    files = [(str(tmp_path / "a.json"), str(tmp_path / "b.json")), (str(tmp_path / "c.jsonl"),)]
    assert command.jobs([str(tmp_path)], options) == [
        CellJob(some, profile, "GA", {}, 4, "counted", True) for profile in profiles for some in files]  # fmt: skip
    with pytest.raises(BadInput, match="unknown sizes of K/V rows and states"):
        command.jobs([str(tmp_path)], options._replace(model="nobodys-model"))

@pytest.mark.parametrize("words", [
    ("workload", "FILE", "--curve", "parallel=1,2"),
    ("memory", "qwen3-next", "--memory", "80GiB", "--workload", "FILE"),
    ("advise", "--for", "agents", "--model", "qwen3", "--memory", "8", "--clients", "1", "FILE"),
])  # fmt: skip
def test_sessions_have_a_bar_while_they_are_read(words, monkeypatch, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_bar, "DELAY", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    file = tmp_path / "session.jsonl"
    file.write_text('{"blocks": [0, 1]}\n{"blocks": [0, 1, 2]}\n')
    main([str(file) if word == "FILE" else word for word in words])
    assert "reading sessions" in sys.stderr.getvalue()
