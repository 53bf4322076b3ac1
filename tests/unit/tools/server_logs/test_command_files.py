"""Tests of ``cachesim import``: several logs, the scenario file, the picture, and the case for ``advise``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import present_name
from cachesim.tools.advise.case_facts import GIVEN, PRINTED
from cachesim.tools.picture.shown import PictureOptions
from cachesim.tools.server_logs import command
from cachesim.tools.server_logs.assumed_history import EXCLUDED
from cachesim.tools.server_logs.command import log_case
from cachesim.tools.server_logs.log_facts import SLOT_CHANGE
from tests.unit.tools.server_logs.simulated_log import simulated_log

SIMULATED = simulated_log("S40.|A60>a9/S.|A.a.|B20>b5", "A", 4)
NEWEST = present_name("llama_cpp")
WITHOUT_REQUEST = "srv    load_model: prompt cache is enabled, size limit: 8192 MiB\n"
NOTHING = "the log contains no complete request to simulate"


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """A folder with a log of two requests and one without a request, which is the working directory."""
    (tmp_path / "a.log").write_text(SIMULATED)
    (tmp_path / "empty.log").write_text(WITHOUT_REQUEST)
    (tmp_path / "old.toml").write_text("mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("argv", "cause"), [
    (["a.log", "empty.log", "-o", "new.toml"],
     "-o writes one scenario file, found several logs (import each log by itself)"),
    (["a.log", "-o", "old.toml"], "old.toml: the file exists (--force overwrites it)"),
    (["a.log", "empty.log", "--svg", "x.svg"], "a picture can show one log only, found several"),
    (["a.log", "--set", "parallel=2"], "--set needs -p (options depend on the engine)"),
])  # fmt: skip
def test_a_refused_command_reads_no_log(logs, capsys, argv, cause):
    assert main(["import", *argv]) == exits.BAD_INPUT
    assert capsys.readouterr() == ("", f"cachesim: {cause}\n")
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
    assert "next: cachesim why old.toml 0" in capsys.readouterr().out


def test_a_log_without_a_request_has_no_scenario_file(logs, capsys):
    assert main(["import", "empty.log", "-o", "new.toml"]) == exits.BAD_INPUT
    assert capsys.readouterr().err == f"cachesim: empty.log: {NOTHING}\n"
    assert not (logs / "new.toml").exists()


def test_json_has_a_report_and_a_scenario_file_for_each_log(logs, capsys):
    assert main(["import", "a.log", "empty.log", "--json", "-q", "-p", NEWEST]) == exits.UNDECIDED
    found = json.loads(capsys.readouterr().out)
    first, second = found["logs"]
    assert (set(found), found["schema"]) == ({"schema", "logs"}, command.SCHEMA)
    assert (first["file"], first["line"], first["profile_given"]) == ("a.log", "A100>a9/A.a[:8].B21>b5", True)
    assert first["toml"].startswith("schema = ") and 'id = "import-a"' in first["toml"]
    assert (second["file"], second["line"], second["toml"]) == ("empty.log", "", "")
    assert (first["saved"], first["cures"], first["arguments"]) == (None, [], ["-p", NEWEST])
    assert first["first_lines"][-1]["says"] == f"next: cachesim import a.log -p {NEWEST} -o case.toml"


def test_changes_are_tried_unless_the_report_is_quiet(capsys):
    saved = []
    for more in ([], ["-q"]):
        main(["import", str(Path(__file__).with_name("default_verbosity.log")), "--json", *more])
        [log] = json.loads(capsys.readouterr().out)["logs"]
        saved.append(log["saved"])
    assert (saved[0]["saved"], saved[0]["text"], saved[1]) == (104, "-ub 64", None)


def test_changes_and_cures_know_what_the_log_shows(logs, capsys, monkeypatch):
    tried = []

    def saved_tokens(case):
        tried.append((case.excluded, case.facts.sources["parallel"]))

    def cures(found, statements, facts):
        return [{"line": found.line, "statements": len(statements), "parallel": facts.sources["parallel"]}]

    monkeypatch.setattr("cachesim.tools.advise.saved_tokens.saved_tokens", saved_tokens)
    monkeypatch.setattr("cachesim.tools.server_logs.cures.cures", cures)
    monkeypatch.setattr("cachesim.tools.server_logs.first_lines.first_lines", lambda data, out: [])
    main(["import", "a.log", "--json"])
    [log] = json.loads(capsys.readouterr().out)["logs"]
    assert tried == [(EXCLUDED | {SLOT_CHANGE}, PRINTED)]
    assert log["cures"] == [{"line": log["line"], "statements": len(log["statements"]), "parallel": PRINTED}]


def test_given_options_are_those_of_the_server(logs, capsys):
    main(["import", "a.log", "--json", "-q", "-p", NEWEST, "--set", "ctx_size=4096", "--model", "GGGA"])
    [log] = json.loads(capsys.readouterr().out)["logs"]
    assert (log["server"]["ctx_size"], log["model"], log["model_given"]) == (4096, "GGGA", True)
    assert log["arguments"] == ["-p", NEWEST, "--model", "GGGA", "--set", "ctx_size=4096"]


def test_the_picture_of_a_log_has_its_command_its_result_and_both_reports(logs, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(command, "draw_text", lambda args, text, shown: drawn.append((text, shown)))
    main(["import", "a.log", "-q", "-p", NEWEST, "--html", "x.html"])
    [(text, shown)] = drawn
    assert text.startswith("schema = ") and shown.report != shown.verbose
    assert shown._replace(report=None, verbose=None) == PictureOptions(
        f"cachesim import a.log -p {NEWEST}", "No tokens of a common prefix were evaluated again (53 % of 229 prompt "
        "tokens evaluated in 2 requests with known lengths).", names=["simulated with assumed texts"])  # fmt: skip


def test_a_log_without_a_request_is_not_drawn(logs, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr(command, "draw_text", lambda *given: drawn.append(given))
    main(["import", "empty.log", "-q", "--svg", "x.svg"])
    main(["import", "a.log", "-q"])
    assert drawn == []


HEADLINE = "cachesim: a.log: No tokens of a common prefix were evaluated again (53 % of 229 prompt tokens evaluated " \
           "in 2 requests with known lengths).\n"  # fmt: skip


def test_the_case_of_a_log_is_announced_by_its_headline(logs, capsys):
    case = log_case(Path("a.log"), (), "", ())
    assert " ".join(capsys.readouterr().err.split()) == HEADLINE.strip()
    assert case.excluded == EXCLUDED | {SLOT_CHANGE}
    assert (repr(case.scenario), case.scenario.model, case.assumes) == ("A100>a9/A.a[:8].B21>b5", "A", "")
    assert (case.facts.sources["parallel"], case.facts.is_refuted) == (PRINTED, False)
    assert log_case(Path("a.log"), (), "", (), is_silent=True) == case
    assert capsys.readouterr().err == ""


def test_the_case_of_a_log_has_the_given_rule_set_model_and_options(logs, capsys):
    case = log_case(Path("a.log"), [NEWEST], "GGGA", ["ctx_size=4096"])
    assert (case.scenario.model, case.scenario.server["ctx_size"], case.facts.sources["ctx_size"]) == (
        "GGGA", 4096, GIVEN)  # fmt: skip


@pytest.mark.parametrize(("name", "given", "cause"), [
    ("empty.log", ((), ()), f"empty.log: {NOTHING}"),
    ("a.log", ((), ["parallel=2"]), r"--set needs -p \(options depend on the engine\)"),
])  # fmt: skip
def test_a_log_without_a_case_is_refused(logs, capsys, name, given, cause):
    profiles, settings = given
    with pytest.raises(BadInput, match=cause):
        log_case(Path(name), profiles, "", settings)
    assert capsys.readouterr().err == ""


def test_an_interrupted_case_names_its_log(logs, capsys, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cachesim.tools.server_logs.import_log.solve", interrupt)
    with pytest.raises(KeyboardInterrupt) as found:
        log_case(Path("a.log"), (), "", ())
    assert "the simulation of a.log was not finished" in str(found.value)


def test_a_page_has_the_short_and_the_whole_report(logs, monkeypatch):
    drawn = []
    monkeypatch.setattr("cachesim.tools.server_logs.report.import_report", lambda data, out, everything: everything)
    monkeypatch.setattr(command, "draw_text", lambda args, text, shown: drawn.append((shown.report, shown.verbose)))
    main(["import", "a.log", "-q", "--html", "x.html"])
    assert drawn == [(False, True)]


def test_every_option_is_explained(capsys):
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in ("--force overwrite FILE", "--out FILE scenario file to write (for a single log)",
                  "server log of any build (- = standard input), or request bodies: JSON, JSON lines, HAR, folder",
                  "layers or name of the model (default: inferred from the log)",
                  "rule set, build or date of the server (default: inferred from the log)"):  # fmt: skip
        assert words in text


def test_the_steps_of_the_work_are_shown(logs, capsys, monkeypatch):
    shown = []

    class Bar:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def show(self, text):
            shown.append(text)

    monkeypatch.setattr("cachesim.base.console.ProgressBar", Bar)
    monkeypatch.setattr("cachesim.tools.advise.saved_tokens.saved_tokens", lambda case: None)
    monkeypatch.setattr("cachesim.tools.server_logs.cures.cures", lambda *_: [])
    main(["import", "a.log", "--json"])
    assert shown == ["simulating the log", "trying other clients and flags", "trying cures of the costliest request"]
    shown.clear()
    log_case(logs / "a.log", (), "", (), is_silent=True)
    assert shown == ["simulating the log"]


def test_the_options_of_a_pasted_command_line_are_those_of_the_server(logs, capsys):
    main(["import", "a.log", "--json", "-q", "--server", "llama-server -ub 64"])
    [log] = json.loads(capsys.readouterr().out)["logs"]
    assert log["server"]["ubatch_size"] == 64


@pytest.mark.parametrize("code", [exits.HOLDS, exits.UNDECIDED])
def test_a_file_of_request_bodies_is_imported_as_bodies(tmp_path, monkeypatch, code):
    (tmp_path / "bodies.jsonl").write_text('{"prompt": "a question"}\n')
    asked = []
    monkeypatch.setattr(command, "run_bodies", lambda args: asked.append(args.files) or code)
    assert main(["import", str(tmp_path / "bodies.jsonl")]) == code
    assert asked == [[str(tmp_path / "bodies.jsonl")]]


def test_every_argument_has_a_help():
    parser = ArgumentParser()
    command.add_arguments(parser)
    assert [one.dest for one in parser._actions if not one.help] == []
