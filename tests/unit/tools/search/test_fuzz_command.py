"""Tests of ``cachesim fuzz``: output, files and exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.files import locked
from cachesim.cli.main import main
from cachesim.scenarios.load import load
from cachesim.tools.search import (
    fuzz_command,
    merge_command,
    repair_command,
    shrink_command,
)
from tests.unit.tools.command_arguments import arguments

BAD = ("fuzz", "-p", "ik_llama@1889-base", "--property", "warm-equals-cold", "--model", "GA", "--examples", "2")


def call(capsys, *argv):
    code = main([*map(str, argv)])
    got = capsys.readouterr()
    return code, got.out, got.err


def test_a_failure_is_exit_1_with_its_line_and_its_file(capsys):
    code, out, _ = call(capsys, *BAD)
    assert code == exits.BROKEN
    assert "warm-equals-cold: logits at position" in out
    assert "[[request]]" not in out
    assert "distinct failure" in out.splitlines()[-1]


def test_nothing_found_is_exit_0(capsys):
    code, out, _ = call(capsys, "fuzz", "-p", "llama_cpp@b10587", "--model", "A", "--examples", "5",
                        "--property", "accounting")  # fmt: skip
    assert code == exits.HOLDS
    assert "llama_cpp@b10587  seed 0, 5 conversations" in out
    assert "nothing found for accounting" in out


@pytest.mark.long
def test_json_has_the_contracts_keys(capsys):
    code, out, _ = call(capsys, *BAD[:-1], "12", "--json")
    data = json.loads(out)
    assert (code, data["schema"], data["profile"], data["seed"]) == (exits.BROKEN, 1, "ik_llama@1889-base", 0)
    assert (data["examples"], data["properties"]) == (12, ["warm-equals-cold"])
    one = data["failures"][0]
    assert one.keys() == {
        "property", "kind", "numbers", "deciding", "role", "stored", "rule", "text", "step", "causes", "times",
        "conversation", "shrunk", "line", "model", "server", "requests", "longest", "id", "toml",
        "command",
    }  # fmt: skip
    assert one["requests"] <= 4
    assert sum(failure["times"] for failure in data["failures"]) >= 2


@pytest.mark.long
def test_without_shrinking_there_are_the_conversations_as_they_were(capsys):
    code, out, err = call(capsys, *BAD, "--no-shrink", "--json")
    one = json.loads(out)["failures"][0]
    assert (code, one["shrunk"], err) == (exits.BROKEN, False, "")
    assert 'profiles = ["ik_llama@1889-base"]' in one["toml"]
    _, out, _ = call(capsys, *BAD, "--no-shrink")
    assert "(not shrunk)" in out and "[[request]]" not in out


def test_the_same_campaign_is_not_begun_twice_in_a_folder(capsys, tmp_path):
    call(capsys, *BAD, "--no-shrink", "--out", tmp_path)
    code, out, err = call(capsys, *BAD, "--out", tmp_path)
    assert (code, out) == (exits.BAD_INPUT, "")
    assert "this campaign already exists (--resume continues it)" in err
    assert call(capsys, *BAD, "--seed", "1", "--no-shrink", "--out", tmp_path)[0] == exits.BROKEN


@pytest.mark.long
def test_two_processes_do_not_work_on_one_campaign(capsys, tmp_path):
    call(capsys, *BAD, "--no-shrink", "--out", tmp_path)
    [state] = tmp_path.glob("campaign-*.json")
    with locked(tmp_path / f".{state.name}.lock") as free:
        assert free
        code, out, err = call(capsys, *BAD, "--out", tmp_path, "--resume")
        assert (code, out) == (exits.BAD_INPUT, "")
        assert err == f"cachesim: {state}: another process is running this campaign\n"
        assert call(capsys, *BAD, "--seed", "1", "--no-shrink", "--out", tmp_path)[0] == exits.BROKEN
    assert call(capsys, *BAD, "--no-shrink", "--out", tmp_path, "--resume")[0] == exits.BROKEN
    assert not list(tmp_path.glob(".*"))


def test_a_folder_that_is_missing_is_made(capsys, tmp_path):
    code, _, err = call(capsys, *BAD, "--no-shrink", "--out", tmp_path / "a" / "b")
    assert (code, len(list((tmp_path / "a" / "b").glob("fuzz-*.toml")))) == (exits.BROKEN, err.count("fuzz-"))


@pytest.mark.parametrize(("argv", "words"), [
    (("-p", "llama_cpp@b10587x"), ("unknown profile", "llama_cpp@b10587")),
    (("-p", "llama_cpp@b10587", "--property", "survive"), ("unknown property", "survives")),
    (("-p", "mlx_lm@d78bf58e", "--model", "Q"), ("unknown model for this engine: 'Q'", "GGGA")),
    (("-p", "mlx_lm@d78bf58e", "--minutes", "1", "--examples", "5"), ("exclude each other",)),
    (("-p", "mlx_lm@d78bf58e", "--jobs", "0"), ("at least 1",)),
    (("-p", "mlx_lm@d78bf58e", "--jobs", "many"), ("found 'many'",)),
    (("-p", "mlx_lm@d78bf58e", "--minutes", "1e9"), ("found '1e9'",)),
    (("-p", "mlx_lm@d78bf58e", "--out", "/dev/null"), ("/dev/null: cannot be written",)),
    (("-p", "mlx_lm@d78bf58e", "--out", "/dev/null/below"), ("cannot be written: not a directory",)),
    (("-p", "mlx_lm@d78bf58e", "--resume"), ("add --out FOLDER",)),
])  # fmt: skip
def test_what_cannot_be_done_is_exit_2_with_a_hint(capsys, argv, words):
    code, out, err = call(capsys, "fuzz", *argv)
    assert (code, out) == (exits.BAD_INPUT, "")
    assert all(word in err for word in words), err


@pytest.mark.long
def test_what_is_written_exists_or_is_replaced(capsys, tmp_path):
    _, _, err = call(capsys, *BAD, "--out", tmp_path)
    written = re.findall(r"^cachesim: (\S+) written(?: in place of (\S+))?$", err, re.M)
    replaced = {old for _, old in written if old}
    names = {Path(path).name for path, _ in written}
    assert replaced and names - replaced == {file.name for file in tmp_path.glob("*.toml")}


@pytest.mark.parametrize("words", [
    ("-p", "llama_cpp@b10587"), ("--against", "llama_cpp@b10587"), ("--property", "survives"), ("--out", "x"),
    ("--corpus", "x"), ("--gguf", "x"),
])  # fmt: skip
def test_options_of_a_simulated_search_do_not_go_with_real(capsys, words):
    code, _, err = call(capsys, "fuzz", "--real", "b1", *words)
    assert code == exits.BAD_INPUT and f"{words[0]} does not go with --real" in err


def test_every_argument_is_explained_and_has_its_default():
    searched = {"properties": [], "models": [], "settings": [], "examples": None, "seed": 0, "jobs": 1,
                "no_shrink": False, "json": False}  # fmt: skip
    assert arguments(fuzz_command.add_arguments) == {
        **searched, "profile": "", "against": "", "pasted": "", "mode": "provenance", "minutes": None, "on": None,
        "shard": None, "out": None, "toml": False, "resume": False, "corpus": None, "real": "", "gguf": None,
        "install": False, "html": "", "svg": "", "trace": "", "plot": ""}  # fmt: skip
    assert arguments(repair_command.add_arguments, ["p@1"]) == {
        **searched, "profile": "p@1", "files": [], "profiles": []}  # fmt: skip
    assert arguments(shrink_command.add_arguments, ["x"]) == {
        "what": "x", "profile": "", "model": None, "settings": [], "properties": [], "mode": "provenance",
        "tries": None, "limits": [], "json": False}  # fmt: skip
    assert arguments(merge_command.add_arguments, ["x"]) == {"folders": ["x"], "out": None, "json": False}


@pytest.mark.parametrize(("words", "named"), [
    (("-p", "nosuch@1"), "nosuch"), (("--against", "nosuch@1"), "nosuch"), (("--examples", "0"), "--examples"),
    (("--against", "ik_llama@1889-base"), "--against"), (("--model", "ZZ"), "ZZ"), (("--install",), "--install"),
])  # fmt: skip
def test_a_search_that_would_find_nothing_is_refused(capsys, words, named):
    code, out, err = call(capsys, *BAD, *words)
    assert (code, out, err.count("\n")) == (exits.BAD_INPUT, "", 1) and named in err


def test_a_part_of_a_search_runs_its_own_conversations(capsys):
    code, out, _ = call(capsys, *BAD, "--examples", "6", "--shard", "2/3", "--no-shrink", "--json")
    assert json.loads(out)["examples"] == 2 and code in (exits.HOLDS, exits.BROKEN)


def test_a_failure_is_drawn_and_searched_for_its_causes_and_its_file_runs(capsys, tmp_path):
    svg = tmp_path / "x.svg"
    code, _, err = call(capsys, *BAD, "--no-shrink", "--svg", svg, "--out", tmp_path)
    assert code == exits.BROKEN and "not shrunk:" not in err and svg.read_text().startswith("<svg ")
    files = list(tmp_path.glob("*.toml"))
    assert files and all(load(file).id == file.stem and file.name in err for file in files)
    assert call(capsys, "run", *files, "--provenance")[0] == exits.BROKEN


def test_a_picture_is_drawn_of_failures_only(capsys, tmp_path):
    svg = tmp_path / "x.svg"
    code, *_ = call(capsys, "fuzz", "-p", "llama_cpp@b10587", "--model", "A", "--examples", "1", "--property",
                    "accounting", "--svg", svg)  # fmt: skip
    assert code == exits.HOLDS and not svg.exists()
