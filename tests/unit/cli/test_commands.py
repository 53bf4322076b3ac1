"""Tests of the output and exit codes of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.judging.run_data import SCHEMA as RUNS

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "scenarios" / "llama_cpp"
SEED = str(CORPUS / "threads" / "llama-24143-entry-removed-dense.toml")
BUG = str(CORPUS / "wrong-answer" / "llama-one-token-checkpoint-recurrent.toml")
TRACES = ROOT / "tests" / "data" / "llama_cpp"
STALE = str(TRACES / "mamba2-bug-stale-ckpt-pos0.json")


def call(capsys, *argv):
    """(exit code, stdout) of a command line."""
    code = main([*map(str, argv)])
    out = capsys.readouterr().out
    return code, out


def call_json(capsys, *argv):
    code, out = call(capsys, *argv, "--json")
    data = json.loads(out)
    assert data["schema"] == (RUNS if argv[0] in ("run", "why", "diff") and "error" not in data else 1)
    return code, data


def test_run_in_json_has_the_contracts_keys(capsys):
    code, data = call_json(capsys, "run", SEED, "-p", "llama_cpp@b10587", "-p", "llama_cpp@pr24143-on-b10587")
    assert code == exits.HOLDS
    one, two = data["runs"]
    assert [one["profile"], two["profile"]] == ["llama_cpp@b10587", "llama_cpp@pr24143-on-b10587"]
    assert {"scenario", "profile", "holds", "broken", "requests", "lost"} <= one.keys()
    request = one["requests"][3]
    assert {"i", "prompt", "kept", "restored", "computed", "cache_n", "prompt_n", "equal_cold"} <= request.keys()
    assert request["kept"] + request["restored"] + request["computed"] == request["prompt"]
    assert {"request", "tokens", "event", "rule"} <= one["lost"][-1].keys()
    assert (one["lost"][-1]["event"], one["lost"][-1]["tokens"]) == ("consumed", 60)


def test_a_broken_run_is_exit_1_unless_its_file_says_so(capsys):
    code, data = call_json(capsys, "run", BUG, "-p", "llama_cpp@b10587")
    assert (code, data["runs"][0]["holds"], data["runs"][0]["broken"]) == (exits.BROKEN, False, [2, 3])
    assert call(capsys, "run", BUG, "-p", "llama_cpp@b10587", "--as-expected")[0] == exits.HOLDS


def test_a_run_that_is_not_as_its_file_says_is_exit_1(capsys, tmp_path):
    text = Path(SEED).read_text().replace("cache_n = [0, 0, 40, 40]", "cache_n = [0, 0, 40, 41]")
    (tmp_path / "llama-24143-entry-removed-dense.toml").write_text(text)
    code, out = call(capsys, "run", tmp_path, "-p", "llama_cpp@b10587", "--as-expected")
    assert code == exits.BROKEN
    assert " 40," in out and " 41" in out


@pytest.mark.long
def test_tables_fit_80_columns_and_colour_is_not_the_only_signal(capsys):
    _, out = call(capsys, "run", BUG, SEED)
    wrapped = [line for line in out.splitlines() if not line.startswith(("cachesim run ", "source "))]
    assert max(map(len, wrapped)) <= 80
    assert "\x1b" not in out
    assert "requests 2 and 3, 21 tokens" in " ".join(out.split()) and " WRONG " in out


def test_a_folder_without_scenarios_selects_nothing(capsys, tmp_path):
    assert call(capsys, "run", tmp_path)[0] == exits.NOTHING


@pytest.mark.long
def test_several_processes_give_the_same(capsys):
    assert call_json(capsys, "run", SEED, BUG) == call_json(capsys, "run", SEED, BUG, "-j", "2")


def test_complete_writes_what_is_missing_and_marks_it(capsys, tmp_path):
    file = tmp_path / "llama-24143-entry-removed-dense.toml"
    file.write_text(Path(SEED).read_text().split("[expect")[0])
    assert call(capsys, "run", file, "-p", "llama_cpp@b10587", "--complete")[0] == exits.HOLDS
    text = file.read_text()
    assert 'cache_n = [0, 0, 40, 40]' in text and "completed = true" in text
    assert call(capsys, "run", file, "-p", "llama_cpp@b10587")[0] == exits.HOLDS


def test_why_names_the_reason_and_a_profile_that_keeps_the_tokens(capsys):
    code, data = call_json(capsys, "why", SEED, 3, "-p", "llama_cpp@b10587", "--provenance")
    assert code == exits.HOLDS
    reason = data["why"][0]["computed"][0]
    assert (reason["start"], reason["stop"]) == (40, 100)
    assert "llama_cpp@pr24143-on-b10587" in reason["survives"]
    assert data["why"][0]["decisions"][0]["rule"].startswith("LC-SLOT-SELECT")


@pytest.mark.long
def test_why_shows_words_not_tuples(capsys):
    _, out = call(capsys, "why", SEED, 3, "-p", "llama_cpp@b10587")
    assert "112 tokens = 40 kept" in out
    assert "Choice(" not in out and "Need(" not in out


def test_diff_shows_the_first_decision_that_parts(capsys):
    code, data = call_json(capsys, "diff", SEED, "--provenance", "-p", "llama_cpp@b10587", "-p",
                           "llama_cpp@pr24143-on-b10587")
    assert code == exits.HOLDS
    assert data["first"]["request"] == 2
    assert [data["first"][key]["rule"] for key in "ab"] == ["LC-PC-LOAD.TAKE", "LC-PC-LOAD.CLONE"]


def test_explain_a_rule_and_a_family(capsys):
    code, data = call_json(capsys, "explain", "LC-CKPT-ERASE.ER2")
    assert code == exits.HOLDS and "3f545be" in data["rules"][0]["source"]
    family = call_json(capsys, "explain", "LC-CKPT-ERASE")[1]["rules"]
    assert {"LC-CKPT-ERASE.ER2", "LC-CKPT-ERASE.V1", "LC-CKPT-ERASE.V3"} <= {rule["rule"] for rule in family}
    assert "llama_cpp@b10587" in data["rules"][0]["profiles"]


def test_explain_takes_the_beginning_of_several_families(capsys):
    rules = {rule["rule"] for rule in call_json(capsys, "explain", "LC-CKPT")[1]["rules"]}
    assert {"LC-CKPT-ERASE.ER2", "LC-CKPT-NEED.TH4"} <= rules
    assert all(rule.startswith("LC-CKPT-") for rule in rules)
    assert call_json(capsys, "explain", "LC-CKP")[1]["found"] == "text"


def test_a_proposal_is_shown_and_a_rule_set_compared_with_it(capsys):
    shown = call_json(capsys, "profiles", "show", "llama_cpp@24035-v1")[1]
    assert shown["ckpt_pick"] == "LC-CKPT-PICK.V1"
    assert "inferred" in call(capsys, "profiles", "show", "sglang@before-29860")[1]
    fields = call_json(capsys, "profiles", "diff", "llama_cpp@b10587", "llama_cpp@pr24143-on-b10587")[1]["fields"]
    assert fields == [{"field": "pc_after_hit", "a": "LC-PC-LOAD.TAKE", "b": "LC-PC-LOAD.CLONE"}]


def test_replay_in_json_has_the_contracts_keys(capsys):
    code, data = call_json(capsys, "replay", STALE, "--mode", "provenance")
    assert code == exits.HOLDS
    one = data["traces"][0]
    assert {"file", "profile", "scope", "why", "steps", "steps_agree", "steps_undecided", "events", "events_agree",
            "first_difference", "verdicts_agree"} <= one.keys()  # fmt: skip
    assert (one["scope"], one["steps_agree"], one["verdicts_agree"], one["broken"]) == ("in", 4, 4, [2, 3])
    assert data["steps"] == data["steps_agree"] == 4


def test_a_trace_that_does_not_agree_is_exit_1(capsys, tmp_path):
    text = Path(STALE).read_text().replace('"cache_n":0', '"cache_n":1', 1)
    (tmp_path / "x.json").write_text(text)
    code, data = call_json(capsys, "replay", tmp_path / "x.json")
    assert code == exits.BROKEN
    assert data["traces"][0]["first_difference"] == {"step": 0, "field": "cache_n", "recorded": 1, "ours": 0}


def test_a_verdict_that_does_not_agree_is_exit_1(capsys, tmp_path):
    data = json.loads(Path(STALE).read_text())
    data["inexact"] = []
    (tmp_path / "x.json").write_text(json.dumps(data))
    assert call(capsys, "replay", tmp_path / "x.json", "--mode", "provenance")[0] == exits.BROKEN
    assert call(capsys, "replay", tmp_path / "x.json")[0] == exits.HOLDS


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda text: text[:-40], "broken or truncated JSON"),
        (lambda text: "", "the file is empty"),
        (lambda text: text.replace('"llama.cpp"', '"lama.cpp"', 1), "did you mean 'llama.cpp'?"),
        (lambda text: text.replace("3f545becc", "3f545bedd", 1), "unknown commit"),
        (lambda text: text.replace('"op":"completion"', '"op":"completio"', 1), "did you mean 'completion'?"),
        (lambda text: text.replace('"-ub"', '"-ubb"', 1), "unknown flag '-ubb'"),
        (lambda text: "[" * 40 + "]" * 40, "nested deeper"),
        (lambda text: '{"engine": "llama.cpp"}', "missing key 'commit'"),
        (lambda text: "[]", "expected an object"),
    ],
)
def test_a_spoilt_trace_is_one_line_with_its_file(capsys, tmp_path, spoil, told):
    file = tmp_path / "spoilt.json"
    file.write_text(spoil(Path(STALE).read_text()))
    assert main(["replay", str(file)]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert str(file) in err and told in err


def test_try_takes_the_options_of_the_profiles_engine(capsys):
    line = ("run", "S40.A60/S.A", "-p", "ik_llama@main", "--set")
    code, data = call_json(capsys, *line, "ctx_checkpoints_tolerance=9")
    assert code == exits.HOLDS
    assert [one["cache_n"] for one in data["runs"][0]["requests"]] == [0, 91]
    assert main([*line, "checkpoint_min_step=9"]) == exits.BAD_INPUT
    assert "unknown server option 'checkpoint_min_step'" in capsys.readouterr().err
    assert main([*line, "spec_type=draft-mtp"]) == exits.BAD_INPUT
    assert "(none, ngram-simple, mtp)" in capsys.readouterr().err


def test_bisect_asks_the_versions_of_the_profiles_engine(capsys):
    line = ("bisect", "P100/P", "-p", "ik_llama@main", "--set", "ctx_checkpoints_tolerance=9")
    code, data = call_json(capsys, *line)
    turn = data["requests"][1]["turns"][-1]
    assert (code, turn["new"], turn["was"]["cache_n"], turn["now"]["cache_n"]) == (0, "ik_llama@2105", 99, 91)
    assert turn["causes"][0]["changes"][0]["new"] == "IK-ONE.BEFORE"
    assert main(["bisect", SEED, "-p", "llama_cpp@b10587"]) == exits.BAD_INPUT
    assert "goes with requests in notation" in capsys.readouterr().err


def test_a_broken_file_among_several_is_told_and_the_others_are_replayed(capsys, tmp_path):
    (tmp_path / "a.json").write_text(Path(STALE).read_text())
    (tmp_path / "b.json").write_text("{\n\n,}")
    for more in ((), ("-j", "2")):
        assert main(["replay", str(tmp_path), *more]) == exits.BAD_INPUT
        out, err = capsys.readouterr()
        assert "4 of 4 steps agree" in out and "1 file could not be replayed" in out
        assert err.startswith(f"cachesim: {tmp_path / 'b.json'}:3: broken or truncated JSON") and err.count("\n") == 1
    code, data = call_json(capsys, "replay", tmp_path)
    assert (code, [one["scope"] for one in data["traces"]]) == (exits.BAD_INPUT, ["in", "bad"])
    assert data["traces"][1]["why"].startswith(f"{tmp_path / 'b.json'}:3: broken")


def test_a_difference_outweighs_a_broken_file(capsys, tmp_path):
    (tmp_path / "a.json").write_text(Path(STALE).read_text().replace('"cache_n":0', '"cache_n":1', 1))
    (tmp_path / "b.json").write_text("")
    assert main(["replay", str(tmp_path)]) == exits.BROKEN


TOO_NEW = """
id = "too-new"
title = "a draft before there were any"
source = ["cachesim"]
why = "an option that the build does not have is reported when the run is reached"
engine = "llama_cpp"
model = "A"
profiles = ["llama_cpp@b6685"]
[server]
spec_type = "ngram-simple"
[words]
A = 3
[[request]]
prompt = "A"
"""


def several(folder):
    """Files: a good scenario, a scenario with a typo, another with the id of the first, another whose option its build
    does not have."""
    (folder / "again").mkdir()
    good = Path(SEED).read_text()
    (folder / "llama-24143-entry-removed-dense.toml").write_text(good)
    (folder / "again" / "llama-24143-entry-removed-dense.toml").write_text(good)
    (folder / "typo.toml").write_text(good.replace('id = "llama-24143-entry-removed-dense"',
     'id = "typo"\nmodle = "A"'))
    (folder / "too-new.toml").write_text(TOO_NEW)


@pytest.mark.parametrize("more", [(), ("-j", "2")])
def test_bad_files_among_several_are_told_and_the_others_are_run(capsys, tmp_path, more):
    several(tmp_path)
    assert main(["run", str(tmp_path), str(tmp_path / "no.toml"), "--provenance", "--json", *more]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    told, data = err.splitlines(), json.loads(out)
    assert (len(data["runs"]), data["failed"], len(told)) == (5, 4, 4)
    assert any(f"{tmp_path / 'typo.toml'}:2: unknown key" in line for line in told)
    assert any(f"{tmp_path / 'no.toml'}: no such file" in line for line in told)
    assert any("duplicate id" in line for line in told)
    assert any("too-new.toml under llama_cpp@b6685: spec_type" in line for line in told)


@pytest.mark.part(3)
@pytest.mark.parametrize("command", [("run",), ("why", "0"), ("diff", "-p", "llama_cpp@b11549")])
def test_a_server_that_ends_itself_is_broken_in_every_command(capsys, command):
    name, *more = command
    line = [name, "llama-draft-removal-refused-mamba2", *more, "-p", "llama_cpp@b10587"]
    assert main(line) == exits.BROKEN


def test_a_profile_without_an_option_is_not_the_end_of_the_others(capsys):
    line = ["run", "S40.A60", "--model", "qwen35mtp", "--set", "spec_type=ngram-simple"]
    assert main([*line, "-p", "llama_cpp@b10587", "-p", "llama_cpp@b6160"]) == exits.BAD_INPUT
    out, err = capsys.readouterr()
    assert "1 run: 1 OK" in out and "; 1 not run" in out
    assert err.count("\n") == 1 and "under llama_cpp@b6160: spec_type" in err
