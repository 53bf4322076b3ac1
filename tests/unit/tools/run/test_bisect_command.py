"""Command ``bisect``: rule sets that are named, the whole history, JSON, real builds and exit codes."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.rule import RULES
from cachesim.tools.run import bisect_command
from tests.shared import forget_engines, restore_rules
from tests.unit.tools.run.stopping_rules import stopping_rules

LINE = ["bisect", "S9.A4/S.B2", "-p", "mlx_lm@0.32.2", "--model", "A"]
SHORT = ["bisect", "A9", "-p", "mlx_lm@0.32.2", "--model", "A"]


def test_an_unchanged_request_is_a_line_and_its_history_a_paragraph(capsys):
    assert main(SHORT) == exits.HOLDS
    assert capsys.readouterr().out.count("reuses 0") == 1
    assert main([*SHORT, "-v"]) == exits.HOLDS
    assert "0  A\n   reuses 0" in capsys.readouterr().out


def test_a_named_proposal_with_the_same_outcomes_is_reported(capsys):
    line = ["bisect", "A9", "-p", "llama_cpp@pr24143-on-b9518", "--model", "A"]
    assert main(line) == exits.HOLDS
    assert capsys.readouterr().out.count("llama_cpp@pr24143-on-b9518: ") == 1


def test_a_rule_set_is_only_named_for_a_line_but_a_file_of_rules_for_both(capsys, tmp_path):
    assert main(["bisect", "llama-lesson-attention", "-p", "llama_cpp@b9518"]) == exits.BAD_INPUT
    assert "--profile" in capsys.readouterr().err
    rules = tmp_path / "mine.py"
    rules.write_text("from dataclasses import replace\nfrom cachesim.engines.mlx_lm.profiles import PROFILES\n"
                     "MINE = replace(PROFILES['mlx_lm@0.32.2'], name='mlx_lm@mine')\n")  # fmt: skip
    assert main(["bisect", "A9", "--model", "A", "-p", str(rules)]) == exits.HOLDS


def test_json_has_the_outcomes_of_every_version(capsys):
    assert main([*LINE, "--json"]) == exits.HOLDS
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert "real" not in data and [one["text"] for one in data["requests"]] == ["S.A", "S.B"] and err == ""


def test_numbers_are_computed_only_on_request(capsys):
    """A limit of exact arithmetic ends a run only if there is some."""
    few = ["--limit", "exact=1"]
    assert main([*SHORT, *few]) == exits.HOLDS
    assert main([*SHORT, *few, "--exact"]) != exits.HOLDS


@pytest.mark.parametrize(("more", "code"), [
    (["--json"], exits.HOLDS), (["--exact", "--limit", "exact=1"], exits.BAD_INPUT),
])  # fmt: skip
def test_one_process_and_two_print_the_same(capsys, more, code):
    one, two = ((main([*LINE, *more, "-j", jobs]), capsys.readouterr()) for jobs in ("1", "2"))
    assert one == two and one[0] == code


def test_two_processes_report_the_error_of_a_rule_as_one_does(capsys, tmp_path, monkeypatch):
    forget_engines(monkeypatch)
    before = dict(RULES)
    rules = Path(stopping_rules(tmp_path, 0, "KeyError('x')"))
    rules.write_text(rules.read_text().replace("if len(requests) == 0 + 1", "if requests"))
    line = ["bisect", "A9", "--model", "A", "-p", str(rules)]
    one, two = ((main([*line, "-j", jobs]), capsys.readouterr()) for jobs in ("1", "2"))
    restore_rules(before)
    assert one == two and one[0] == exits.BAD_INPUT and "stop.py" in one[1].err


class GivenServers:
    """Real servers whose course over the builds is given."""

    def __init__(self, options):
        self.same = options.servers == "same"

    def bisect(self, scenario):
        return {"runs": [{"same": self.same}], "of": repr(scenario)}

    def show_history(self, data):
        print(f"the course of {data['of']}")


@pytest.mark.parametrize(("real", "code"), [("same", exits.HOLDS), ("other", exits.BROKEN)])
def test_the_course_over_real_builds_comes_first_and_decides(capsys, real, code):
    parser = ArgumentParser()
    bisect_command.add_arguments(parser)
    args = parser.parse_args([*SHORT[1:], "--real", real])
    args.real_runs, args.verbose, args.json = GivenServers, 0, real == "other"
    assert bisect_command.run(args) == code
    out = capsys.readouterr().out
    if args.json:
        assert json.loads(out)["real"] == {"runs": [{"same": False}], "of": "A9"}
    else:
        assert out.startswith("the course of A9\n")
