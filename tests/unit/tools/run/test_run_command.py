"""Command ``run``: order of runs, exit codes, pictures, JSON, and the end after an interrupt."""

from __future__ import annotations

import json
from argparse import ArgumentParser

import pytest

from cachesim.base import exits
from cachesim.base.errors import Terminated
from cachesim.cli.main import main
from cachesim.judging.run_data import run_data
from cachesim.tools.run import run_command
from cachesim.tools.run.run_command import report, report_interrupted
from tests.unit.tools.run.made import HEAD, judgement, run

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


@pytest.mark.parametrize(("as_json", "failed", "said"), [
    (False, 1, "2 of 5"), (True, 0, "1 of 5")])  # fmt: skip
def test_the_report_of_an_interrupt_counts_what_is_finished(capsys, as_json, failed, said):
    runs = [run_data(run(judgement()))]
    assert report_interrupted(KeyboardInterrupt(), runs, 5, as_json, failed, 0) == exits.INTERRUPTED
    assert report_interrupted(Terminated(15), runs, 5, as_json, failed, 0) == 128 + 15
    out, err = capsys.readouterr()
    assert err.count(said) == 2 and ('"failed": ' in out) is as_json


def test_the_legend_stands_below_the_first_table_only_and_scenarios_are_not_mixed(capsys):
    legend = "kept in slot"
    one, two = run_data(run(judgement(cache_n=4))), run_data(run(judgement(cache_n=4), line="B10"))
    two["scenario"] = "other"
    report([one, two, one], False, legend=True)
    text = capsys.readouterr().out
    assert text.count(legend) == 1 and text.index(legend) < text.index("other") and "3 runs: 3 OK" in text
    report([one], False)
    assert legend not in capsys.readouterr().out


def test_json_has_the_failures_and_comparisons(capsys):
    report([], True, 2)
    assert json.loads(capsys.readouterr().out) == {"schema": 3, "runs": [], "failed": 2}
    report([], True, real=[{"same": True}])
    assert json.loads(capsys.readouterr().out) == {"schema": 3, "runs": [], "failed": 0, "real": [{"same": True}]}


def test_a_bad_file_is_counted_and_the_others_run(capsys, file, tmp_path):
    (tmp_path / "bad.toml").write_text("id = 3")
    assert main(["run", str(tmp_path), "--json"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert (data["failed"], [one["scenario"] for one in data["runs"]]) == (1, ["one"])
    assert "bad.toml" in err and err.count("\n") == 1
    assert main(["run", str(tmp_path), "-q"]) == exits.BAD_INPUT
    assert "1 OK" in capsys.readouterr().out


def test_a_file_whose_rule_set_is_in_a_file_of_rules_is_not_run_and_the_others_are(capsys, file):
    other = file.with_name("two.toml")
    other.write_text(FILE.replace('"one"', '"two"').replace(HEAD, "llama_cpp@mine").replace(
        'model = "A"', 'model = "A"\nrules = ["mine.py"]'))  # fmt: skip
    assert main(["run", str(file.parent), "--json"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert (json.loads(out)["failed"], [one["scenario"] for one in json.loads(out)["runs"]]) == (1, ["one"])
    assert err.startswith(f"cachesim: {other}: ") and "mine.py" in err and err.count("\n") == 1


def test_an_unknown_rule_set_is_named_with_its_file(capsys, file):
    assert main(["run", str(file), "A5", "-p", "llama_cpp@b10587", "-p", "llama_cpp@none"]) == exits.BAD_INPUT
    err = capsys.readouterr().err
    assert err.count("cachesim: ") == 2 and f"{file}: " in err and "llama_cpp@none" in err
    assert main(["run", str(file.parent / "empty")]) == exits.BAD_INPUT


def test_an_empty_folder_is_named(capsys, tmp_path):
    assert main(["run", str(tmp_path)]) == exits.NOTHING
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--model", "GA"], ["--set", "ctx_size=64"]])
def test_numbers_are_completed_only_for_unchanged_files(capsys, file, words):
    assert main(["run", str(file), "--complete", *words]) == exits.BAD_INPUT
    assert "--complete" in capsys.readouterr().err
    assert main(["run", str(file), "llama-lesson-attention", "--complete"]) == exits.BAD_INPUT
    assert "llama-lesson-attention: " in capsys.readouterr().err
    assert file.read_text() == FILE


def test_missing_numbers_are_completed(capsys, file):
    assert main(["run", str(file), "--complete", "-q"]) == exits.HOLDS
    assert f"{file}: " in capsys.readouterr().err
    assert "cache_n = " in file.read_text()


def test_a_table_compares_engines_only_in_text_and_only_for_several(capsys):
    both = ["run", "S20.A9/S.B9", "--model", "A", "-p", HEAD, "-p", "mlx_lm@0.32.2"]
    main(both)
    assert capsys.readouterr().out.startswith("reused of 58 ")
    main([*both, "--json"])
    assert [one["profile"] for one in json.loads(capsys.readouterr().out)["runs"]] == [HEAD, "mlx_lm@0.32.2"]
    main([*both[:-1], OLD])
    assert not capsys.readouterr().out.startswith("reused of ")


def test_several_scenarios_run_without_a_picture(capsys, file):
    file.with_name("two.toml").write_text(FILE.replace('"one"', '"two"'))
    assert main(["run", str(file.parent), "--json"]) == exits.HOLDS
    assert [one["scenario"] for one in json.loads(capsys.readouterr().out)["runs"]] == ["one", "two"]
    assert main(["run", str(file.parent), "--svg", str(file.with_name("x.svg"))]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1


def test_each_conversation_has_a_table_of_its_own(capsys):
    main(["run", "A20/A", "B30/B", "--model", "A", "-p", HEAD, "-p", "mlx_lm@0.32.2"])
    out = capsys.readouterr().out
    assert [line.split()[2] for line in out.splitlines() if line.startswith("reused of ")] == ["40", "60"]


def test_a_picture_has_every_run_and_equal_runs_share_one(capsys, tmp_path):
    svg = tmp_path / "x.svg"
    assert main(["run", "A20/A", "--model", "A", "-p", HEAD, "-p", "mlx_lm@0.32.2", "-q", "--svg", str(svg)]) == 0
    assert f"wrote {svg}" in capsys.readouterr().err
    assert svg.read_text().count('id="r0"') == 1 and 'id="p1-r0"' in svg.read_text()


def test_a_file_that_cannot_be_completed_is_named_and_the_exit_code(capsys, file):
    """The profile's table is written in an unusual form."""
    file.write_text(FILE + f'[expect]\n"{HEAD}" = {{ prompt_n = [9, 1] }}\n')
    text = file.read_text()
    assert main(["run", str(file), "--complete", "-q"]) == exits.BAD_INPUT
    assert f"'{HEAD}'" in capsys.readouterr().err and file.read_text() == text


WRONG = ["S12.A8/S.A>3/B9@0/S.A.C5", "--model", "GA", "-p", "ik_llama@1889-base"]


def test_the_exit_code_is_that_of_the_worst_run(capsys):
    assert main(["run", *WRONG, "-q"]) == exits.BROKEN
    assert main(["run", "A5", *WRONG, "-q"]) == exits.BROKEN
    assert main(["run", "A5", "--model", "A", "-q"]) == exits.HOLDS


def test_as_expected_accepts_a_wrong_answer_that_the_file_expects(capsys):
    known = ["run", "ik-2105-last-token-evaluated-twice-hybrid", "-q", "--provenance"]
    assert (main(known), main([*known, "--as-expected"])) == (exits.BROKEN, exits.HOLDS)


def test_runs_stand_in_the_order_of_their_cases_and_processes_change_nothing(capsys):
    words = ["run", "A9/A", "B9/B.C5", "S9.A4/S.B2", "--model", "A", "-p", HEAD, "-p", OLD, "--json"]
    outputs = []
    for jobs in ("1", "2"):
        assert main([*words, "-j", jobs]) == exits.HOLDS
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    runs = json.loads(outputs[0])["runs"]
    assert [one["profile"] for one in runs] == [HEAD, OLD] * 3
    assert [one["requests"][0]["text"] for one in runs] == ["A", "A", "B", "B", "S.A", "S.A"]


@pytest.mark.parametrize("words", [[], ["--model", "GA"], ["--set", "ctx_size=64"]])
def test_the_next_command_names_the_file_only_if_nothing_is_changed(capsys, file, words):
    file.write_text(FILE.replace("A = 9", "A = 30\nB = 30").replace('"A"\n[[request]]', '"A"\n[[request]]\n'
                    'prompt = "B"\n[[request]]').replace("[words]", "[server]\ncache_ram = 0\nparallel = 1\n[words]"))
    main(["run", str(file), *words])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("next: ")]
    assert (f"cachesim why {file} 2 " in line) is (not words)


class GivenServers:
    """Real servers that answer otherwise than the simulator."""

    def __init__(self, args):
        pass

    def require(self):
        pass

    def compare(self, scenarios):
        return [{"same": False}] * len(scenarios)

    def show(self, compared, shown):
        print(f"{len(compared)} compared")


def test_scenarios_are_compared_with_the_servers_that_are_given(capsys):
    parser = ArgumentParser()
    run_command.add_arguments(parser)
    args = parser.parse_args(["A5/A", "--model", "A", "-p", HEAD, "-p", OLD, "--real", "b1"])
    args.real_runs, args.verbose, args.quiet = GivenServers, 0, False
    assert run_command.run(args) == exits.BROKEN
    assert "1 compared" in capsys.readouterr().out
    args.json = True
    assert run_command.run(args) == exits.BROKEN
    assert json.loads(capsys.readouterr().out)["real"] == [{"same": False}]


def test_a_picture_of_several_runs_explains_their_failures(capsys, tmp_path):
    page = tmp_path / "x.html"
    assert main(["run", *WRONG, "-q", "--html", str(page)]) == exits.BROKEN
    assert "Hence" in page.read_text()
