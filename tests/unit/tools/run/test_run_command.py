"""Command ``run``: order of runs, exit codes, pictures, JSON, and the end after an interrupt."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.base.errors import Terminated
from cachesim.cli.main import main
from cachesim.judging.run_data import run_data
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run import run_command
from cachesim.tools.run.run_command import report, report_interrupted, run_all
from cachesim.tools.run.run_jobs import JobFailure, RunJob
from tests.unit.tools.command_arguments import arguments
from tests.unit.tools.run.made import BROKEN, HEAD, judgement, run

OLD = "llama_cpp@b9518"
FILE = """id = "one"
title = "t"
why = "w"
source = ["cachesim"]
engine = "llama_cpp"
model = "A"
profiles = ["llama_cpp@b10587"]
[words]
A = 9
[[request]]
prompt = "A"
[[request]]
prompt = "A"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "one.toml"
    path.write_text(FILE)
    return path


def job(line="A5", profile=HEAD):
    return RunJob(from_line(line, model="A"), profile, "provenance")


def test_runs_stand_in_the_order_of_the_jobs_and_failures_are_printed(monkeypatch, capsys):
    jobs = [job(line) for line in ("A1", "A2", "A3", "A4")]
    results = [(2, {"n": 2}), (1, JobFailure(exits.CRASH, "it fell")), (0, {"n": 0}), (3, JobFailure(2, "bad"))]
    monkeypatch.setattr(run_command, "run_jobs", lambda jobs, processes: iter(results))
    assert run_all(jobs, 2) == ([(jobs[0], {"n": 0}), (jobs[2], {"n": 2})], [exits.CRASH, 2], None)
    assert capsys.readouterr().err == "cachesim: it fell\ncachesim: bad\n"


def test_an_interrupt_keeps_the_results_before_it(monkeypatch):
    stop = KeyboardInterrupt()

    def interrupted(jobs, processes):
        yield 1, {"n": 1}
        raise stop

    monkeypatch.setattr(run_command, "run_jobs", interrupted)
    jobs = [job(), job()]
    assert run_all(jobs, 1) == ([(jobs[1], {"n": 1})], [], stop)


@pytest.mark.parametrize(("as_json", "failed", "said"), [
    (False, 1, "interrupted: 2 of 5 runs finished"), (True, 0, "interrupted: 1 of 5 runs finished")])  # fmt: skip
def test_the_report_of_an_interrupt_counts_what_is_finished(capsys, as_json, failed, said):
    runs = [run_data(run(judgement()))]
    assert report_interrupted(KeyboardInterrupt(), runs, 5, as_json, failed, 0) == exits.INTERRUPTED
    assert report_interrupted(Terminated(15), runs, 5, as_json, failed, 0) == 128 + 15
    out, err = capsys.readouterr()
    assert err == f"cachesim: {said}\n" * 2
    assert ('"failed": ' in out) is as_json and ("not run" in out) is (failed > 0 and not as_json)


def test_the_legend_stands_below_the_first_table_only_and_scenarios_are_not_mixed(capsys):
    legend = "kept in slot, restored from checkpoint"
    one, two = run_data(run(judgement(cache_n=4))), run_data(run(judgement(cache_n=4), line="B10"))
    two["scenario"] = "other"
    report([one, two, one], False, legend=True)
    text = capsys.readouterr().out
    assert text.count(legend) == 1 and text.index(legend) < text.index("other") and "3 runs: 3 OK" in text
    report([one], False)
    assert legend not in capsys.readouterr().out


def test_details_are_printed_on_request_only(capsys):
    armed = [(SimpleNamespace(kind="entry", owner=i, resume=7, length=7, tokens=()), BROKEN) for i in range(5)]
    one = run_data(run(judgement(armed=armed)))
    for words, shown in (((), 3), ((0, 0), 3), ((0, 1), 5)):
        report([one], False, *words)
        assert capsys.readouterr().out.count("is corrupt") == shown


def test_json_has_the_failures_and_comparisons(capsys):
    report([], True, 2)
    assert json.loads(capsys.readouterr().out) == {"schema": 2, "runs": [], "failed": 2}
    report([], True, real=[{"same": True}])
    assert json.loads(capsys.readouterr().out) == {"schema": 2, "runs": [], "failed": 0, "real": [{"same": True}]}


def test_a_bad_file_is_counted_and_the_others_run(capsys, file, tmp_path):
    (tmp_path / "bad.toml").write_text("id = 3")
    assert main(["run", str(tmp_path), "--json"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert (data["failed"], [one["scenario"] for one in data["runs"]]) == (1, ["one"])
    assert "bad.toml" in err and err.count("\n") == 1
    assert main(["run", str(tmp_path), "-q"]) == exits.BAD_INPUT
    assert "1 run: 1 OK, 0 wrong, 0 undecided; 1 not run" in capsys.readouterr().out


def test_a_file_whose_rule_set_is_in_a_file_of_rules_is_not_run_and_the_others_are(capsys, file):
    other = file.with_name("two.toml")
    other.write_text(FILE.replace('"one"', '"two"').replace(HEAD, "llama_cpp@mine").replace(
        'model = "A"', 'model = "A"\nrules = ["mine.py"]'))  # fmt: skip
    assert main(["run", str(file.parent), "--json"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert (json.loads(out)["failed"], [one["scenario"] for one in json.loads(out)["runs"]]) == (1, ["one"])
    assert err.startswith(f"cachesim: {other}: profile 'llama_cpp@mine' is of ")        # a long path is shortened
    assert err.endswith("mine.py, which does not exist\n")


def test_an_unknown_rule_set_is_named_with_its_file(capsys, file):
    assert main(["run", str(file), "A5", "-p", "llama_cpp@b10587", "-p", "llama_cpp@none"]) == exits.BAD_INPUT
    err = capsys.readouterr().err
    assert err.count("cachesim: ") == 2 and f"{file}: " in err and "llama_cpp@none" in err
    assert main(["run", str(file.parent / "empty")]) == exits.BAD_INPUT


def test_an_empty_folder_is_named(capsys, tmp_path):
    assert main(["run", str(tmp_path)]) == exits.NOTHING
    assert capsys.readouterr().err == f"cachesim: no scenario found in {tmp_path}\n"


@pytest.mark.parametrize("words", [["--model", "GA"], ["--set", "ctx_size=64"]])
def test_numbers_are_completed_only_for_unchanged_files(capsys, file, words):
    assert main(["run", str(file), "--complete", *words]) == exits.BAD_INPUT
    assert "--complete does not go with server flags and --model (edit the file)" in capsys.readouterr().err
    assert main(["run", str(file), "llama-lesson-attention", "--complete"]) == exits.BAD_INPUT
    assert capsys.readouterr().err == (
        "cachesim: llama-lesson-attention: --complete writes into files (give the path of the file)\n")  # fmt: skip
    assert file.read_text() == FILE


def test_missing_numbers_are_completed(capsys, file):
    assert main(["run", str(file), "--complete", "-q"]) == exits.HOLDS
    assert f"{file}: wrote numbers of {HEAD}" in capsys.readouterr().err
    assert "cache_n = " in file.read_text()


def test_the_next_command_names_a_case_as_typed_only_if_nothing_is_changed(capsys, monkeypatch, file):
    typed = []
    monkeypatch.setattr(run_command, "after_run", lambda runs, arguments: typed.append(arguments) or [["why", "x"]])
    for words in ([], ["--model", "GA"], ["--set", "ctx_size=64"], ["-p", OLD]):
        main(["run", str(file), *words])
    assert typed == [[str(file)], [], [], [str(file)]]
    assert capsys.readouterr().err.count("next: cachesim why x\n") == 4


def test_a_table_compares_engines_only_in_text_and_only_for_several(capsys):
    both = ["run", "S20.A9/S.B9", "--model", "A", "-p", HEAD, "-p", "mlx_lm@0.32.2"]
    main(both)
    assert capsys.readouterr().out.startswith("reused of 58 prompt tokens, by request\n")
    main([*both, "--json"])
    assert [one["profile"] for one in json.loads(capsys.readouterr().out)["runs"]] == [HEAD, "mlx_lm@0.32.2"]
    main([*both[:-1], OLD])
    assert "by request" not in capsys.readouterr().out


def test_several_scenarios_run_without_a_picture(capsys, file):
    file.with_name("two.toml").write_text(FILE.replace('"one"', '"two"'))
    assert main(["run", str(file.parent), "--json"]) == exits.HOLDS
    assert [one["scenario"] for one in json.loads(capsys.readouterr().out)["runs"]] == ["one", "two"]
    assert main(["run", str(file.parent), "--svg", str(file.with_name("x.svg"))]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert (out, err) == (
        "", "cachesim: a picture can show one scenario only (name one scenario; -p may be repeated)\n")


def test_each_conversation_has_a_table_of_its_own(capsys):
    main(["run", "A20/A", "B30/B", "--model", "A", "-p", HEAD, "-p", "mlx_lm@0.32.2"])
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("reused of ")] == [
        "reused of 40 prompt tokens, by request", "reused of 60 prompt tokens, by request"]  # fmt: skip


def test_a_picture_has_every_run_and_equal_runs_share_one(capsys, tmp_path):
    svg = tmp_path / "x.svg"
    assert main(["run", "A20/A", "--model", "A", "-p", HEAD, "-p", "mlx_lm@0.32.2", "-q", "--svg", str(svg)]) == 0
    assert f"wrote {svg}" in capsys.readouterr().err
    assert svg.read_text().count('id="r0"') == 1 and 'id="p1-r0"' in svg.read_text()


def test_a_page_reports_the_failures_of_its_runs(monkeypatch, tmp_path):
    monkeypatch.setattr("cachesim.tools.run.run_table.failures_report", lambda found: f"{len(found)} runs failed")
    page = tmp_path / "x.html"
    main(["run", "A20/A", "--model", "A", "-p", HEAD, "-p", OLD, "-q", "--html", str(page)])
    assert "2 runs failed" in page.read_text()


def test_the_exit_code_is_that_of_the_worst_run(capsys, monkeypatch):
    codes = []
    results = [run_data(run(judgement())), run_data(run(judgement(BROKEN)))]
    for one in results:
        one["as_expected"] = True
    monkeypatch.setattr(run_command, "run_jobs", lambda jobs, processes: enumerate(results[: len(jobs)]))
    for words in (["A5"], ["A5", "B5"], ["A5", "B5", "--as-expected"]):
        codes.append(main(["run", *words, "-p", HEAD]))
    assert codes == [exits.HOLDS, exits.BROKEN, exits.HOLDS]


def test_scenarios_are_compared_with_the_servers_that_are_given(capsys, monkeypatch):
    shown = []
    servers = SimpleNamespace(compare=lambda scenarios: [{"same": False}] * len(scenarios), show=shown.append)
    monkeypatch.setattr(run_command, "real_runs", lambda args: servers)
    line = ["run", "A5/A", "--model", "A", "-p", HEAD, "-p", OLD]
    assert main(line) == exits.BROKEN and shown == [[{"same": False}]]
    capsys.readouterr()
    assert main([*line, "--json"]) == exits.BROKEN and len(shown) == 1
    assert json.loads(capsys.readouterr().out)["real"] == [{"same": False}]


def test_an_interrupt_counts_bad_files_and_failed_runs_too(monkeypatch, capsys, file, tmp_path):
    (tmp_path / "bad.toml").write_text("id = 3")

    def interrupted(jobs, processes):
        yield 0, JobFailure(exits.CRASH, "it fell")
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command, "run_jobs", interrupted)
    words = ["-p", "llama_cpp@b10587", "-p", "llama_cpp@b9518"]
    for more, failed in (([], 1), ([str(tmp_path / "bad.toml")], 2)):
        assert main(["run", str(file), *more, *words[:2], "--json"]) == exits.INTERRUPTED
        out, err = capsys.readouterr()
        assert json.loads(out)["failed"] == failed
        assert err.splitlines()[-1] == f"cachesim: interrupted: {failed} of 1 runs finished"


def test_a_file_that_cannot_be_completed_is_named_and_the_exit_code(capsys, file):
    """The profile's table is written in an unusual form."""
    file.write_text(FILE + f'[expect]\n"{HEAD}" = {{ prompt_n = [9, 1] }}\n')
    text = file.read_text()
    assert main(["run", str(file), "--complete", "-q"]) == exits.BAD_INPUT
    assert f"cannot add expectations for '{HEAD}'" in capsys.readouterr().err and file.read_text() == text


def test_every_argument_is_explained_and_has_its_default():
    assert arguments(run_command.add_arguments, ["x", "y"]) == {
        "files": ["x", "y"], "profiles": [], "model": None, "settings": [], "pasted": "", "complete": False,
        "provenance": False, "exact": False, "as_expected": False, "real": "", "gguf": None, "install": False,
        "jobs": 1, "limits": [], "json": False, "html": "", "svg": "", "trace": ""}  # fmt: skip
