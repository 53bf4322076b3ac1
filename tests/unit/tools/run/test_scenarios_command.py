"""Tests of ``cachesim scenarios``: the list, and scenario ids as arguments of other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.cli.main import main
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.scenario_heads import ScenarioHead
from cachesim.scenarios.symptoms import SYMPTOMS
from cachesim.tools.run.scenarios_command import (
    likeliest_list,
    question_data,
    scenario_data,
    scenario_list,
)

SEED = "llama-24143-entry-removed-dense"


def test_all_are_listed(capsys):
    assert main(["scenarios", "--json"]) == exits.HOLDS
    found = [one["id"] for one in json.loads(capsys.readouterr().out)["scenarios"]]
    assert sorted(found) == sorted(corpus_files())


def test_the_folder_is_told(capsys):
    assert main(["scenarios", "--folder"]) == exits.HOLDS
    assert Path(capsys.readouterr().out.strip()) == corpus_root()


def test_a_symptom_is_found_in_other_words(capsys):
    found = "llama-28302-spacing-erases-checkpoints-hybrid"
    for more, is_whole in (([], False), (["--all"], True)):
        assert main(["scenarios", "llama_cpp@b10587", "--symptom", "re-processes everything", *more]) == exits.HOLDS
        out = capsys.readouterr().out
        assert ("?" not in out) is is_whole and (f" {found} " in out) is is_whole and f" {SEED} " not in out


def test_an_unknown_symptom_lists_the_known_symptoms(capsys):
    assert main(["scenarios", "--symptom", "qqq"]) == exits.NOTHING
    assert "'qqq'" in capsys.readouterr().err


@pytest.mark.parametrize("parts", [("llama_cpp", "lc", "lc-00-no.toml"), ("llama_cpp", "l"), ("x",)], ids="/".join)
def test_paths_that_never_were_are_refused(capsys, parts):
    assert main(["run", str(corpus_root().joinpath(*parts))]) == exits.BAD_INPUT
    assert parts[-1] in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("argv", [
    ["run", SEED], ["diff", SEED, "-p", "llama_cpp@b10587", "-p", "llama_cpp@pr24143-on-b10587"],
], ids=lambda argv: argv[0])  # fmt: skip
def test_a_command_takes_an_id_for_the_path(capsys, tmp_path, monkeypatch, argv):
    monkeypatch.chdir(tmp_path)
    by_id = main(argv), capsys.readouterr()
    by_path = main([str(corpus_files().get(word, word)) for word in argv]), capsys.readouterr()
    assert (by_id[0], by_id[1].out) == (by_path[0], by_path[1].out) and by_id[0] in (exits.HOLDS, exits.BROKEN)
    assert all(line.startswith("next: ") for line in by_id[1].err.splitlines())


def test_record_takes_an_id(capsys, tmp_path):
    (tmp_path / "x").touch()
    argv = ["record", "llama-24143-entry-removed-dens", "--server", str(tmp_path / "x"), "--model",
        str(tmp_path / "x")]
    assert main(argv) == exits.BAD_INPUT
    assert "did you mean 'llama-24143-entry-removed-dense'?" in capsys.readouterr().err


def test_nothing_is_written_into_a_file_that_only_its_id_names(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["run", SEED, "--complete"]) == exits.BAD_INPUT
    assert f"{SEED}: " in capsys.readouterr().err


def drawn(name, model="A", symptom="", **more):
    """Return the head of a scenario of two requests with this id, title "T" and its id, and symptom."""
    head = ScenarioHead(id=name, title=f"T {name}", why="", source=(), engine="llama_cpp", model=model, profiles=(),
                        symptom=symptom, file="", requests=2)  # fmt: skip
    return head._replace(**more)


def lines(report):
    return [line.strip() for line in as_text(report).splitlines()]


def test_the_answers_of_a_question_name_scenarios_by_their_numbers():
    first, other = list(SYMPTOMS)[:2]
    some = [drawn(name, symptom=other if name == "c" else first) for name in "abcde"] + [drawn("f"), drawn("g")]
    texts = SYMPTOMS[first].text, SYMPTOMS[other].text
    shown = lines(likeliest_list(some))
    assert shown[:7] == [f"{first}  {texts[0]}", f"{other}  {texts[1]}", "1  a  T a", "2  b  T b", "3  c  T c",
                         "4  d  T d", "5  e  T e"]  # fmt: skip
    assert f"{texts[0]} (1, 2, 4, 5); {texts[1]} (3)" in " ".join(shown[7:])
    question = question_data(some)
    assert question["text"] in " ".join(shown[7:]) and question == {"text": question["text"], "answers": [
        {"answer": texts[0], "scenarios": ["a", "b", "d", "e"]}, {"answer": texts[1], "scenarios": ["c"]}]}
    assert lines(likeliest_list(some[:2])) == [f"{first}  {texts[0]}", "1  a  T a", "2  b  T b"]
    assert question_data(some[:2]) is None


def test_a_list_has_the_symptoms_with_their_numbers_and_scenarios():
    first = next(iter(SYMPTOMS))
    found = lines(scenario_list([drawn("a", symptom=first), drawn("long"), drawn("b", symptom=first)]))
    assert found[0].startswith(f"3 scenarios: {first} 2, ") and found[0].endswith(" 1")
    assert [line.split() for line in found[1:] if line] == [
        [first, *SYMPTOMS[first].text.split()], ["a", "T", "a"], ["b", "T", "b"], ["long", "T", "long"]]


def test_a_scenario_as_data():
    one = drawn("a", "GA", "memory", file="x.toml", profiles=("llama_cpp@b1", "llama_cpp@b2"), source=("s", "t"))
    assert scenario_data(one) == {
        "id": "a", "title": "T a", "engine": "llama_cpp", "model": "GA", "profiles": ["llama_cpp@b1", "llama_cpp@b2"],
        "source": ["s", "t"], "requests": 2, "file": "x.toml", "symptom": "memory"}  # fmt: skip


def test_a_list_that_is_empty_names_the_nearest_beginning_of_an_id(capsys):
    assert main(["scenarios", "llama-24143q"]) == exits.NOTHING
    out, err = capsys.readouterr()
    assert out == "" and "(did you mean 'llama-24143'?)" in err
