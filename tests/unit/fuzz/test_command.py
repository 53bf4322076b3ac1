"""Does ``cachesim fuzz`` print, write and return what it promises?"""

from __future__ import annotations

import json
from dataclasses import replace
from unittest.mock import patch

import pytest

from cachesim.cli import main
from cachesim.commands import exits
from cachesim.fuzz import campaign
from cachesim.scenarios.load import load

BAD = ("fuzz", "-p", "ik_llama@1889-base", "--property", "warm-equals-cold", "--model", "GA", "--examples", "20")


def call(capsys, *argv):
    code = main([*map(str, argv)])
    got = capsys.readouterr()
    return code, got.out, got.err


def test_a_failure_is_exit_1_with_its_line_and_its_file(capsys):
    code, out, _ = call(capsys, *BAD)
    assert code == exits.BROKEN
    assert "warm-equals-cold: the answer at position" in out
    assert 'profiles = ["ik_llama@1889-base"]' in out
    assert "distinct failure" in out


def test_nothing_found_is_exit_0(capsys):
    """Attention only and one completion for each request: several would bring up a known fault of the engine, whatever
    the seed (copy-behind-a-load)."""
    drawn = campaign.draw_case

    def one_completion(*args):
        case = drawn(*args)
        return replace(case, asked=tuple(asked._replace(n_cmpl=1) for asked in case.asked))

    with patch.object(campaign, "draw_case", one_completion):
        code, out, _ = call(capsys, "fuzz", "-p", "llama_cpp@head", "--model", "A", "--examples", "30")
    assert code == exits.HOLDS
    assert "llama_cpp@head  seed 0, 30 conversations" in out
    assert "nothing found for warm-equals-cold" in out


def test_json_has_the_contracts_keys(capsys):
    code, out, _ = call(capsys, *BAD[:-1], "40", "--json")
    data = json.loads(out)
    assert (code, data["schema"], data["profile"], data["seed"]) == (exits.BROKEN, 1, "ik_llama@1889-base", 0)
    assert (data["examples"], data["properties"]) == (40, ["warm-equals-cold"])
    one = data["failures"][0]
    assert one.keys() == {
        "property", "rule", "text", "times", "conversation", "step", "causes", "line", "model", "server", "requests",
        "longest", "id", "toml",
    }  # fmt: skip
    assert one["requests"] <= 4
    assert sum(failure["times"] for failure in data["failures"]) >= 2


def test_files_are_written_and_run(capsys, tmp_path):
    code, _, err = call(capsys, *BAD, "--out", tmp_path)
    files = list(tmp_path.glob("*.toml"))
    assert code == exits.BROKEN
    for file in files:
        assert file.name in err
        assert load(file).id == file.stem
    code, _, _ = call(capsys, "run", *files, "--provenance")
    assert code == exits.BROKEN


def test_without_shrinking_there_are_counts_only(capsys):
    code, out, _ = call(capsys, *BAD, "--no-shrink", "--json")
    assert "toml" not in json.loads(out)["failures"][0]
    assert code == exits.BROKEN


def test_findings_survive_an_interruption(capsys):
    plain, quick = campaign.run, (*BAD[:-1], "60", "--no-shrink")

    def interrupted(todo, jobs):
        for i, block in enumerate(plain(todo, jobs)):
            if i == 1:
                raise KeyboardInterrupt
            yield block

    with patch.object(campaign, "run", interrupted):
        code, out, err = call(capsys, *quick, "--json")
    data = json.loads(out)
    assert (code, data["examples"]) == (exits.INTERRUPTED, 50)
    assert data["failures"]
    assert "interrupted" in err


@pytest.mark.parametrize(("argv", "words"), [
    (("-p", "llama_cpp@haed"), ("unknown profile", "llama_cpp@head")),
    (("-p", "llama_cpp@head", "--property", "survive"), ("unknown property", "survives")),
    (("-p", "mlx_lm@head", "--model", "Q"), ("no model 'Q'", "GGGA")),
    (("-p", "mlx_lm@head", "--minutes", "1", "--examples", "5"), ("two things",)),
    (("-p", "mlx_lm@head", "--jobs", "0"), ("at least 1",)),
    (("-p", "mlx_lm@head", "--out", "/no/such/folder"), ("no such folder",)),
])  # fmt: skip
def test_what_cannot_be_done_is_exit_2_with_a_hint(capsys, argv, words):
    code, out, err = call(capsys, "fuzz", *argv)
    assert (code, out) == (exits.BAD_INPUT, "")
    assert all(word in err for word in words), err
