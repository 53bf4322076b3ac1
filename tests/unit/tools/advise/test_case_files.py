"""Scenario files of suggestions whose commands would spell the requests."""

from __future__ import annotations

import json
from shlex import split

import pytest

from cachesim.base import exits
from cachesim.cli.main import main


def test_a_file_repeats_what_the_search_ran(tmp_path, capsys):
    """The case of request bodies has no short command line: it can be saved, and run, edited or exported from there."""
    folder = tmp_path / "cases"
    bodies = tmp_path / "bodies.jsonl"
    prompts = (f"Today is 2026-01-0{day}. Be brief, and answer in a single sentence." for day in (1, 2))
    bodies.write_text("".join(f"{json.dumps({'prompt': prompt, 'n_predict': 2})}\n" for prompt in prompts), "utf-8")
    assert main(["advise", str(bodies), "--out", str(folder), "--json", "--model", "A"]) == exits.HOLDS
    [found] = json.loads(capsys.readouterr().out)["advise"]
    assert found["advice"] and len([*folder.iterdir()]) >= len(found["advice"])
    for item in found["advice"]:
        program, *words = split(item["command"])
        assert program == "cachesim" and words[1].startswith(str(folder))
        assert main([*words, "--json"]) == exits.HOLDS
        [run] = json.loads(capsys.readouterr().out)["runs"]
        assert sum(request["prompt_n"] for request in run["requests"]) == item["evaluated"]
    assert main(["advise", str(bodies), "--out", str(folder), "-q"]) == exits.BAD_INPUT
    assert "the file exists" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "files"), [(["A5/B5"], 0), (["--for", "agents", "--memory", "1GiB"], None)])
def test_files_are_written_for_suggestions_only(tmp_path, capsys, words, files):
    code = main(["advise", *words, "--out", str(tmp_path / "cases")])
    assert code == (exits.BAD_INPUT if files is None else exits.HOLDS)
    assert not (tmp_path / "cases").exists()
