"""Tests of ``cachesim import``: several logs, the scenario file, the picture, and the case for ``advise``."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import present_name
from cachesim.tools.advise.case_facts import GIVEN, PRINTED
from cachesim.tools.run.arguments import CaseOptions
from cachesim.tools.server_logs import command
from cachesim.tools.server_logs.command import log_case
from cachesim.tools.server_logs.rebuild.assumed_history import EXCLUDED
from cachesim.tools.server_logs.rebuild.case_facts_of_log import SLOT_CHANGE
from tests.unit.tools.server_logs.simulated_log import simulated_log

SIMULATED = simulated_log("S40.|A60>a9/S.|A.a.|B20>b5", "A", 4)
NEWEST = present_name("llama_cpp")
WITHOUT_REQUEST = "srv    load_model: prompt cache is enabled, size limit: 8192 MiB\n"


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """A folder with a log of two requests and one without a request, which is the working directory."""
    (tmp_path / "a.log").write_text(SIMULATED)
    (tmp_path / "empty.log").write_text(WITHOUT_REQUEST)
    (tmp_path / "old.toml").write_text("mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("argv", "named"), [
    (["a.log", "empty.log", "-o", "new.toml"], "-o"), (["a.log", "-o", "old.toml"], "--force"),
    (["a.log", "empty.log", "--svg", "x.svg"], "picture"), (["a.log", "--set", "parallel=2"], "--set"),
])  # fmt: skip
def test_a_refused_command_reads_no_log(logs, capsys, argv, named):
    assert main(["import", *argv]) == exits.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and named in said.err and said.err.count("\n") == 1
    assert (logs / "old.toml").read_text() == "mine" and not (logs / "new.toml").exists()


@pytest.mark.parametrize(("files", "code"), [
    (["a.log"], exits.HOLDS), (["empty.log"], exits.UNDECIDED), (["a.log", "empty.log"], exits.UNDECIDED),
    (["empty.log", "a.log"], exits.UNDECIDED), (["a.log", "a.log"], exits.HOLDS),
])  # fmt: skip
def test_a_log_without_a_simulated_request_is_undecided(logs, capsys, files, code):
    assert main(["import", *files, "-q"]) == code
    out = capsys.readouterr().out
    assert [line.partition(":")[0] for line in out.splitlines() if ".log: a log of llama_cpp" in line] == files


def test_a_scenario_file_has_the_name_of_its_file_as_id(logs, capsys):
    assert main(["import", "a.log", "-o", "old.toml", "--force", "-q"]) == exits.HOLDS
    assert 'id = "old"\ntitle = "imported from a.log"\n' in (logs / "old.toml").read_text()
    assert "next: cachesim run old.toml" in capsys.readouterr().out


def test_a_log_without_a_request_has_no_scenario_file(logs, capsys):
    main(["import", "empty.log"])
    report = capsys.readouterr().out
    assert main(["import", "empty.log", "-o", "new.toml"]) == exits.BAD_INPUT
    found = capsys.readouterr()
    assert report and found.out == report
    assert "empty.log" in found.err and not (logs / "new.toml").exists()


def test_json_has_a_report_and_a_scenario_file_for_each_log(logs, capsys):
    assert main(["import", "a.log", "empty.log", "--json", "-q", "-p", NEWEST]) == exits.UNDECIDED
    found = json.loads(capsys.readouterr().out)
    first, second = found["logs"]
    assert (set(found), found["schema"]) == ({"schema", "logs"}, command.SCHEMA)
    assert (first["file"], first["line"], first["profile_given"]) == ("a.log", "A100>a9/A.a[:8].B21>b5", True)
    assert first["toml"].startswith("schema = ") and 'id = "import-a"' in first["toml"]
    assert (second["file"], second["line"], second["toml"]) == ("empty.log", "", "")
    assert (first["saved"], first["cures"], first["arguments"]) == (None, [], ["-p", NEWEST])
    assert f"cachesim import a.log -p {NEWEST} -o case.toml" in first["first_lines"][-1]["says"]


def test_changes_are_tried_unless_the_report_is_quiet(capsys):
    saved = []
    for more in ([], ["-q"]):
        main(["import", str(Path(__file__).with_name("default_verbosity.log")), "--json", *more])
        [log] = json.loads(capsys.readouterr().out)["logs"]
        saved.append(log["saved"])
    assert (saved[0]["saved"], saved[0]["text"], saved[1]) == (104, "-ub 64", None)


def test_given_options_are_those_of_the_server(logs, capsys):
    main(["import", "a.log", "--json", "-q", "-p", NEWEST, "--set", "ctx_size=4096", "--model", "GGGA"])
    [log] = json.loads(capsys.readouterr().out)["logs"]
    assert (log["server"]["ctx_size"], log["model"], log["model_given"]) == (4096, "GGGA", True)
    assert log["arguments"] == ["-p", NEWEST, "--model", "GGGA", "--set", "ctx_size=4096"]


def test_the_page_of_a_log_has_its_command_and_the_whole_report(logs, capsys):
    main(["import", "a.log", "-q", "-v", "-p", NEWEST])
    *_, row = (line for line in capsys.readouterr().out.splitlines() if line.strip().endswith("exact"))
    main(["import", "a.log", "-q", "-p", NEWEST, "--html", "x.html"])
    words = " ".join(html.unescape(re.sub("<[^>]*>", " ", (logs / "x.html").read_text())).split())
    assert f"cachesim import a.log -p {NEWEST}" in words and " ".join(row.split()) in words


def test_a_log_without_a_request_is_not_drawn(logs, capsys):
    main(["import", "empty.log", "-q", "--svg", "x.svg"])
    assert not (logs / "x.svg").exists()


def test_the_case_of_a_log_has_its_conversation_and_what_it_shows(logs, capsys):
    case = log_case(Path("a.log"), CaseOptions())
    assert case.excluded == EXCLUDED | {SLOT_CHANGE}
    assert (repr(case.scenario), case.scenario.model, case.assumes) == ("A100>a9/A.a[:8].B21>b5", "A", "")
    assert (case.facts.sources["parallel"], case.facts.is_refuted) == (PRINTED, False)
    assert capsys.readouterr().err == ""


def test_the_case_of_a_log_has_the_given_rule_set_model_and_options(logs, capsys):
    case = log_case(Path("a.log"), CaseOptions("GGGA", [NEWEST], ["ctx_size=4096"]))
    assert (case.scenario.model, case.scenario.server["ctx_size"], case.facts.sources["ctx_size"]) == (
        "GGGA", 4096, GIVEN)  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "named"), [
    ("empty.log", (), "empty.log"), ("a.log", ["parallel=2"], "-p")])
def test_a_log_without_a_case_is_refused(logs, capsys, name, settings, named):
    with pytest.raises(BadInput, match=named):
        log_case(Path(name), CaseOptions(settings=settings))
    assert capsys.readouterr().err == ""


def test_the_options_of_a_pasted_command_line_are_those_of_the_server(logs, capsys):
    main(["import", "a.log", "--json", "-q", "--server", "llama-server -ub 64"])
    [log] = json.loads(capsys.readouterr().out)["logs"]
    assert log["server"]["ubatch_size"] == 64
