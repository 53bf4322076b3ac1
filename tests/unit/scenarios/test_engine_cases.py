"""Tests of one conversation under rule sets of several engines."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.engine_cases import profiles_by_engine, settings_of, under_engines
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import STRICT, BugReport, Lives

FIVE = ["llama_cpp@b11549", "vllm@0.33.0", "sglang@0.5.23", "mlx_lm@0.32.2", "ik_llama@2491"]
CHAT = "S60.|U60>a30/S.|U.a.|V20>b30/S.|X20"
FILE = "llama-24143-entry-removed-dense"
BODIES = "tests/unit/tools/request_bodies/agent.jsonl"
LOG = "tests/unit/tools/server_logs/verbosity_4.log"


def called(capsys, *words):
    """Return exit code, stdout and stderr of a command."""
    code = main([*words])
    return code, *capsys.readouterr()


def each(profiles):
    return [word for name in profiles for word in ("-p", name)]


def test_a_chat_runs_under_five_engines_and_each_says_which_marks_it_ignores(capsys):
    code, out, err = called(capsys, "run", CHAT, *each(FIVE), "--model", "A", "--json")
    assert code == exits.HOLDS
    runs = json.loads(out)["runs"]
    assert [run["profile"] for run in runs] == FIVE
    assert {tuple(request["prompt"] for request in run["requests"]) for run in runs} == {(120, 170, 80)}
    assert all(run["broken"] == [] and sum(one["prompt"] - one["computed"] for one in run["requests"]) for run in runs)
    assert err == "cachesim: ignored: user marks (|), which vllm, sglang, mlx_lm and ik_llama do not read\n"
    _, _, err = called(capsys, "run", CHAT, "-p", "vllm", "--model", "A", "--json")
    assert err == "cachesim: ignored: user marks (|), which vllm does not read\n"


def test_a_run_under_several_engines_has_a_table_then_a_line_for_each(capsys):
    line = "S40.A60/B70/S.C25/S.A.D12"
    code, out, err = called(capsys, "run", line, *each(FIVE), "--model", "llama-3")
    assert code == exits.HOLDS and err.count("llama-3 is AAAA") == 1
    first, *lines = out.splitlines()
    assert first == "reused of 347 prompt tokens, by request"
    verdicts = [line.partition(": ")[0] for line in lines if ": correct answers, " in line]
    assert verdicts == FIVE and "flags:" not in out and "decided by" not in out
    _, whole, _ = called(capsys, "run", line, *each(FIVE), "--model", "llama-3", "-v")
    assert "flags:" in whole and len(whole.splitlines()) > len(out.splitlines()) + 20


@pytest.mark.parametrize("engine", ["vllm", "sglang", "mlx_lm", "ik_llama"])
def test_marks_change_nothing_where_they_are_not_read(capsys, engine):
    found = []
    for line in (CHAT, CHAT.replace("|", "")):
        _, out, _ = called(capsys, "run", line, "-p", engine, "--model", "A", "--json")
        [run] = json.loads(out)["runs"]
        found.append([(one["computed"], one["kept"], one["loaded"], one["verdict"]) for one in run["requests"]])
    assert found[0] == found[1]


def test_a_table_has_a_row_per_request_and_the_best_engine_first(capsys):
    _, out, _ = called(capsys, "run", "A60/A.B4", "-p", "vllm", "-p", "llama_cpp", "--model", "A")
    assert [line.split() for line in out.splitlines()[:5]] == [
        ["reused", "of", "124", "prompt", "tokens,", "by", "request"],
        ["#", "request", "prompt", "llama_cpp", "vllm"],
        ["0", "A", "60", "0", "0"], ["1", "A.B", "64", "60", "48"], ["all", "124", "60", "48"],
    ]  # fmt: skip


def test_a_wrong_answer_stands_in_its_cell(capsys):
    wrong = "llama-one-token-checkpoint-hybrid"
    code, out, _ = called(capsys, "run", wrong, "-p", "llama_cpp@b11549", "-p", "mlx_lm")
    assert code == exits.BROKEN
    head, *rows = out.splitlines()[1:6]
    assert head.split() == ["#", "request", "prompt", "mlx_lm", "llama_cpp"]
    assert rows[2].split() == ["2", "B[:18].C", "30", "0", "1", "WRONG"]


def table_of(out):
    """Return the words of each line of the first table."""
    return [line.split() for line in out.split("\n\n")[0].splitlines()[1:]]


def test_a_refused_request_reused_nothing(capsys):
    words = ["run", "A900/A", "-p", "vllm", "-p", "llama_cpp", "--model", "A", "--set", "ctx_size=256"]
    _, out, _ = called(capsys, *words)
    assert table_of(out) == [
        ["#", "request", "prompt", "vllm", "llama_cpp"], ["0", "A", "900", "0", "0", "REFUSED"],
        ["1", "A", "900", "896", "0", "REFUSED"], ["all", "1800", "896", "0"],
    ]  # fmt: skip


def test_each_line_has_a_table_of_its_own(capsys):
    _, out, _ = called(capsys, "run", "A60/A", "B30/B/B", "-p", "vllm", "-p", "llama_cpp", "--model", "A")
    assert [line for line in out.splitlines() if line.startswith("reused of")] == [
        "reused of 120 prompt tokens, by request", "reused of 90 prompt tokens, by request"]  # fmt: skip


def test_requests_after_a_limit_are_not_run_and_their_engine_comes_last(capsys):
    limit = ("--limit", "tokens=130")
    code, out, _ = called(capsys, "run", "A60/A/B50/A", "-p", "vllm", "-p", "llama_cpp", "--model", "A", *limit)
    assert code != exits.HOLDS
    head, *_, last, total = table_of(out)
    assert head == ["#", "request", "prompt", "llama_cpp", "vllm"]
    assert last == ["3", "A", "60", "59", "not", "run"] and total == ["all", "230", "118", "48"]


def test_the_table_is_absent_for_one_engine(capsys):
    _, out, _ = called(capsys, "run", "A20/A", "-p", "llama_cpp@b11549", "-p", "llama_cpp@b10587", "--model", "A")
    assert "reused of" not in out


def test_a_file_runs_under_another_engine_with_its_defaults(capsys):
    code, out, err = called(capsys, "run", FILE, "-p", "vllm", "-p", "llama_cpp", "--json")
    runs = json.loads(out)["runs"]
    assert code == exits.HOLDS and [run["scenario"] for run in runs] == [FILE, FILE]
    assert [one["prompt"] for one in runs[0]["requests"]] == [one["prompt"] for one in runs[1]["requests"]]
    assert err == f"cachesim: {FILE}: its options are those of llama_cpp; vllm runs with its own defaults\n"


def test_what_could_change_the_cache_is_refused_and_the_other_engine_runs(capsys):
    code, out, err = called(capsys, "run", "A60/A!", "-p", "mlx_lm", "-p", "llama_cpp", "--model", "A")
    assert code == exits.BAD_INPUT
    assert "request 1: request field not supported by this engine: cache_prompt" in err
    assert "1 run: 1 OK, 0 wrong, 0 undecided; 1 not run" in out


def test_an_option_goes_to_the_engines_that_have_it():
    engines = ["vllm", "llama_cpp"]
    given = ["block_size=32", "-np=2", "nonsense=1"]
    assert settings_of("vllm", given, engines) == ["block_size=32", "nonsense=1"]
    assert settings_of("llama_cpp", given, engines) == ["-np=2", "nonsense=1"]


@pytest.mark.parametrize("words", [
    ["bisect", "A60/A", "-p", "vllm", "-p", "sglang"],
    ["export", "A60/A", "--to", "curl", "-p", "vllm", "-p", "sglang"],
    ["export", "A60/A", "--to", "issue", "-p", "vllm", "-p", "llama_cpp"],
])  # fmt: skip
def test_commands_for_one_engine_name_the_command_for_several(capsys, words):
    code, out, err = called(capsys, *words)
    assert (code, out) == (exits.BAD_INPUT, "")
    assert err.count("\n") == 1 and "rule sets of several engines: " in err and "cachesim run compares engines" in err


def test_rule_sets_are_grouped_once_each():
    names = ["b@1", "a@1", "b@2", "b@1"]
    assert profiles_by_engine(names) == {"b": ["b@1", "b@2"], "a": ["a@1"]}


def test_what_a_file_states_about_its_engine_is_left_out_under_another():
    known = load(corpus_files()[FILE])
    stated = replace(known, lives=(Lives(0, "", ""),), expect={known.profiles[0]: []},
                     reports=(BugReport("LC-1", "LC-SELECT", "a", "b", 0, STRICT, ""),))  # fmt: skip
    [made] = under_engines(stated, [ENGINES["vllm"].newest], {ENGINES["vllm"].newest})
    assert (made.engine, made.profiles, made.server) == ("vllm", (ENGINES["vllm"].newest,), {})
    assert (made.rules, made.expect, made.lives, made.reports) == ((), {}, (), ())


def test_every_file_of_the_corpus_is_translated_or_refused_in_a_line():
    files = sorted(corpus_files().items())[::25]
    for name, file in files:
        scenario = load(file)
        others = [ENGINES[engine].newest for engine in ("vllm", "llama_cpp") if engine != scenario.engine]
        try:
            cases = under_engines(scenario, others, set(others))
        except BadInput as bad:
            assert "cannot run it" in str(bad) and "\n" not in str(bad), name
            continue
        sent = [step.request.prompt for step in scenario.steps]
        assert all([step.request.prompt for step in case.steps] == sent for case in cases), name


def test_why_explains_a_request_under_several_engines(capsys):
    line = "why", "A60/A.B4", "1", "--model", "A"
    code, out, _ = called(capsys, *line, "-p", "llama_cpp", "-p", "vllm", "--json")
    assert code == exits.HOLDS
    found = json.loads(out)["why"]
    assert [one["profile"] for one in found] == ["llama_cpp@b11549", "vllm@0.33.0"]
    assert [(one["kept"], one["loaded"]) for one in found] == [(60, 0), (0, 48)]


def test_why_of_a_file_runs_under_another_engine_with_its_defaults(capsys):
    code, out, err = called(capsys, "why", FILE, "2", "-p", "vllm")
    assert code == exits.HOLDS and "vllm@0.33.0" in out
    assert "its options are those of llama_cpp; vllm runs with its own defaults" in err


def test_diff_of_two_engines_compares_what_a_client_observes(capsys):
    words = "diff", "S40.A60/S.B20/S.A", "-p", "llama_cpp", "-p", "vllm"
    code, out, _ = called(capsys, *words, "--json")
    data = json.loads(out)
    assert (code, data["rules"], data["first"]) == (exits.HOLDS, None, None)
    [differs] = data["observed"]
    assert differs["request"] == 2
    assert [one["observable"] for one in differs["differs"]] == ["cache_n", "prompt_n"]
    _, text, _ = called(capsys, *words)
    assert "rules and decisions of two engines are not compared" in text and "1 of 3 requests differs: 2" in text


def test_diff_compares_log_lines_of_one_engine_only(capsys):
    code, out, err = called(capsys, "diff", "A60/A", "-p", "llama_cpp", "-p", "vllm", "--log")
    assert (code, out) == (exits.BAD_INPUT, "")
    assert err == "cachesim: --log compares the log lines of one engine, found llama_cpp and vllm\n"


def test_advice_is_given_under_each_engine(capsys):
    line = "advise", "S40.A60/S.B20/S.A", "--model", "A"
    code, out, _ = called(capsys, *line, "-p", "llama_cpp", "-p", "vllm", "--json")
    assert code == exits.HOLDS
    found = json.loads(out)["advise"]
    assert [(one["profile"], one["base"]["evaluated"]) for one in found] == [
        ("llama_cpp@b11549", 180), ("vllm@0.33.0", 132)]  # fmt: skip
    assert all("-p " + one["profile"] in advice["command"] for one in found for advice in one["advice"])


@pytest.mark.long
def test_advice_about_bodies_is_given_under_each_engine(capsys):
    code, out, _ = called(capsys, "advise", BODIES, "-p", "llama_cpp", "-p", "vllm", "--set", "block_size=32", "--json")
    assert code == exits.HOLDS
    assert [one["profile"] for one in json.loads(out)["advise"]] == ["llama_cpp@b11549", "vllm@0.33.0"]


@pytest.mark.parametrize("command", ["import", "advise"])
@pytest.mark.parametrize(("names", "says"), [
    (["vllm"], "a log of llama_cpp: vllm prints none of its first lines"),
    (["llama_cpp", "vllm"], "a log belongs to one engine, found rule sets of llama_cpp, vllm"),
])  # fmt: skip
def test_a_log_belongs_to_its_engine(capsys, command, names, says):
    code, out, err = called(capsys, command, LOG, *each(names))
    assert (code, out) == (exits.BAD_INPUT, "")
    assert err == f"cachesim: {LOG}: {says} (without -p the rule set follows from the log)\n"
