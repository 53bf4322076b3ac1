"""Command ``bisect``: rule sets that are named, the whole history, JSON, real builds and exit codes."""

from __future__ import annotations

import json
from argparse import Namespace
from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run import bisect_command
from tests.unit.tools.command_arguments import arguments

LINE = ["bisect", "S9.A4/S.B2", "-p", "mlx_lm@0.32.2", "--model", "A"]


def test_an_unchanged_request_is_a_line_and_its_history_a_paragraph(capsys):
    assert main(["bisect", "A9", "-p", "mlx_lm@0.32.2", "--model", "A"]) == exits.HOLDS
    out = capsys.readouterr().out
    assert out.startswith("try  A\n") and "request 0: reuses 0, output correct under every build that runs it" in out
    assert main(["bisect", "A9", "-p", "mlx_lm@0.32.2", "--model", "A", "-v"]) == exits.HOLDS
    assert "0  A\n   reuses 0, output correct under every rule set\n" in capsys.readouterr().out


def test_a_named_proposal_with_the_same_outcomes_is_reported(capsys):
    line = ["bisect", "A9", "-p", "llama_cpp@pr24143-on-b9518", "--model", "A"]
    assert main(line) == exits.HOLDS
    assert "llama_cpp@pr24143-on-b9518: same outcomes as llama_cpp@b9518\n" in capsys.readouterr().out
    assert main([*line[:-2], "--model", "A", "-p", "llama_cpp@b9518"]) == exits.HOLDS
    assert capsys.readouterr().out.count("same outcomes as") == 1


def test_a_rule_set_is_only_named_for_a_line_but_a_file_of_rules_for_both(capsys, tmp_path):
    assert main(["bisect", "llama-lesson-attention", "-p", "llama_cpp@b9518"]) == exits.BAD_INPUT
    assert capsys.readouterr().err == (
        "cachesim: --profile goes with requests in notation (a file names its engine)\n")  # fmt: skip
    rules = tmp_path / "mine.py"
    rules.write_text("from dataclasses import replace\nfrom cachesim.engines.mlx_lm.profiles import PROFILES\n"
                     "MINE = replace(PROFILES['mlx_lm@0.32.2'], name='mlx_lm@mine')\n")  # fmt: skip
    assert main(["bisect", "A9", "--model", "A", "-p", str(rules)]) == exits.HOLDS


@pytest.mark.parametrize(("same", "code"), [(True, exits.HOLDS), (False, exits.BROKEN)])
def test_the_course_over_real_builds_comes_first(capsys, monkeypatch, same, code):
    shown = []
    course = {"runs": [{"same": same}]}
    servers = SimpleNamespace(show_history=shown.append)
    monkeypatch.setattr(bisect_command, "real_history", lambda args, scenario: (servers, course))
    assert main(LINE) == code and shown == [course]
    capsys.readouterr()
    assert main([*LINE, "--json"]) == code and len(shown) == 1
    assert json.loads(capsys.readouterr().out)["real"] == course


def test_json_has_the_outcomes_of_every_version(capsys):
    assert main([*LINE, "--json"]) == exits.HOLDS
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert "real" not in data and [one["text"] for one in data["requests"]] == ["S.A", "S.B"] and err == ""


def test_the_lines_of_the_log_and_numbers_are_compared_on_request(capsys, monkeypatch):
    from cachesim.judging import find_change

    seen, plain = [], find_change.bisect
    monkeypatch.setattr(find_change, "bisect", lambda *args: (seen.append(args[3:]), plain(*args))[1])
    for words in ([], ["--log"], ["--exact"]):
        main([*LINE, *words])
    assert seen == [("provenance", False), ("provenance", True), ("exact", False)]


def test_an_engine_whose_versions_are_not_here_is_refused(capsys, monkeypatch):
    scenario = from_line("A9", model="A")
    monkeypatch.setattr("cachesim.engines.registry.ENGINES", {})
    monkeypatch.setattr(bisect_command, "case_of", lambda args: scenario)
    monkeypatch.setattr(bisect_command, "_check_profiles", lambda args: None)
    with pytest.raises(BadInput, match="this build does not contain the versions of llama_cpp"):
        bisect_command.run(Namespace())


def test_rule_sets_without_a_place_are_named_at_the_end(capsys, monkeypatch):
    monkeypatch.setattr("cachesim.engines.build_names.without_place", lambda engine: [f"{engine.name}@x"])
    main(LINE)
    assert capsys.readouterr().out.endswith("not ordered (without a date and a base): mlx_lm@x\n\n")


def test_every_argument_is_explained_and_has_its_default():
    assert arguments(bisect_command.add_arguments, ["x"]) == {
        "case": "x", "profiles": [], "model": None, "settings": [], "pasted": "", "provenance": False, "exact": False,
        "log": False, "real": "", "gguf": None, "install": False, "limits": [], "json": False}  # fmt: skip
