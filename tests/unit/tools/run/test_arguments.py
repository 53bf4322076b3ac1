"""Arguments that commands share: scenarios, models, rule sets, options, and the choice of the arithmetic."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput, NothingFound
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.arguments import (
    LONG,
    LONG_FILE,
    MODEL,
    CaseOptions,
    add_arithmetic,
    add_case,
    add_json,
    add_log,
    add_model,
    add_profiles,
    case_arguments,
    case_options,
    cases_of_line,
    chosen_profiles,
    complain_of,
    load_files,
    modes,
    profile_name,
    profiles_of,
    read_case,
    read_cases,
    read_under_engines,
    requested_mode,
    scenario_of_line,
    with_model,
    with_settings,
)


def scenario(tokens, file=""):
    """Return a scenario of so many tokens of prompts and answers, from a file or from a line."""
    return replace(from_line(f"A{tokens - 1}>a1", model="A"), file=file)


@pytest.mark.parametrize(("file", "most"), [("", LONG), ("case.toml", LONG_FILE)])
def test_a_scenario_above_the_limit_runs_without_arithmetic(file, most, capsys):
    assert modes([scenario(most, file)], "", LONG_FILE) == ["exact"]
    assert capsys.readouterr().err == ""
    assert modes([scenario(most + 1, file)], "", LONG_FILE) == ["provenance"]
    err = capsys.readouterr().err
    assert f"{most + 1:,} tokens, more than {most:,}" in err and "--exact" in err


def test_a_requested_mode_is_used():
    assert modes([scenario(LONG + 1)], "exact") == ["exact"]
    assert modes([scenario(2)], "provenance") == ["provenance"]


@pytest.mark.parametrize(("words", "mode"), [([], ""), (["--exact"], "exact"), (["--provenance"], "provenance")])
def test_the_options_of_the_arithmetic_request_a_mode(words, mode):
    parser = ArgumentParser()
    add_arithmetic(parser)
    args = parser.parse_args(words)
    assert requested_mode(exact=args.exact, provenance=args.provenance) == mode


@pytest.mark.parametrize(("words", "model"), [
    ([], None), (["--model", "GA"], "GA"), (["-m", "qwen3-next"], "qwen3-next"),
])  # fmt: skip
def test_a_model_is_named_as_for_a_server(words, model):
    parser = ArgumentParser()
    add_model(parser)
    assert parser.parse_args(words).model == model


def test_several_long_scenarios_are_counted_and_the_least_limit_is_named(capsys):
    found = modes([scenario(LONG + 1), scenario(2), scenario(LONG_FILE + 9, "case.toml")], "", LONG_FILE)
    assert found == ["provenance", "exact", "provenance"]
    assert "more than 2,000" in capsys.readouterr().err
    modes([scenario(2), scenario(LONG_FILE + 9, "case.toml")], "", LONG_FILE)
    assert "more than 7,000" in capsys.readouterr().err


def test_the_length_of_a_scenario_is_that_of_prompts_and_answers():
    several = from_line(f"A{LONG - 6}>a2/B2>b2", model="A")
    assert modes([several], "") == ["exact"]
    assert modes([from_line(f"A{LONG - 6}>a2/B2>b3", model="A")], "") == ["provenance"]


def parsed(*words):
    parser = ArgumentParser()
    for add in (add_case, add_profiles, add_arithmetic, add_log, add_json):
        add(parser)
    return parser.parse_args(words)


def test_the_last_error_is_raised_if_nothing_is_left(capsys):
    bad = [BadInput("one"), BadInput("two")]
    complain_of(bad, nothing_left=False, what="none")
    assert capsys.readouterr().err == "cachesim: one\ncachesim: two\n"
    with pytest.raises(BadInput, match="two"):
        complain_of(bad, nothing_left=True, what="none")
    assert capsys.readouterr().err == "cachesim: one\n"
    with pytest.raises(NothingFound, match="none"):
        complain_of([], nothing_left=True, what="none")
    complain_of([], nothing_left=False, what="none")
    assert capsys.readouterr().err == ""


FILE = """id = "{0}"
title = "t"
why = "w"
source = ["cachesim"]
engine = "{1}"
model = "A"
profiles = ["{2}"]
[words]
A = 5
[[request]]
prompt = "A"
"""


def write(folder, name, engine="llama_cpp", profile="llama_cpp@b10587"):
    path = folder / f"{name}.toml"
    path.write_text(FILE.format(name, engine, profile))
    return str(path)


def test_files_folders_and_ids_are_loaded_once_each(tmp_path):
    one, other = write(tmp_path, "one"), write(tmp_path, "other")
    bad = tmp_path / "wrong.toml"
    bad.write_text("id = 3")
    name = "llama-lesson-attention"
    found, errors = load_files([other, str(tmp_path), name, str(corpus_files()[name]), str(tmp_path / "no.toml")])
    assert [scenario.id for scenario in found] == ["other", "one", name]
    assert ["wrong.toml" in str(error) or "no.toml" in str(error) for error in errors] == [True, True]
    assert load_files([one])[1] == []
    (tmp_path / "empty").mkdir()
    assert load_files([str(tmp_path / "empty")]) == ([], [])


def test_the_scenarios_of_lines_come_last_and_errors_are_collected(tmp_path):
    one = write(tmp_path, "one")
    found, bad = read_cases(["A5/A", one, "A5//"], CaseOptions())
    assert [(scenario.id, scenario.model) for scenario in found] == [("one", "A"), ("try", MODEL)]
    assert len(bad) == 1
    found, bad = read_cases([one], CaseOptions(profiles=["llama_cpp@none"]))
    assert found == [] and str(bad[0]).startswith(one)


def test_a_case_has_the_model_and_options_of_the_command(tmp_path):
    one = write(tmp_path, "one")
    plain, hybrid, three = CaseOptions(), CaseOptions(model="GA"), CaseOptions(settings=["parallel=3"])
    assert (read_case(one, plain).model, read_case(one, hybrid).model) == ("A", "GA")
    assert (read_case("A5", plain).model, read_case("A5", hybrid).model) == (MODEL, "GA")
    assert read_case(one, three).server == read_case("A5", three).server
    assert read_case("A5", CaseOptions(model="GA", profiles=["vllm@0.33.0"])).engine == "vllm"


def test_a_case_is_read_once_for_each_engine(tmp_path, capsys):
    both = ["-p", "llama_cpp@b10587", "-p", "mlx_lm@0.32.2"]
    for case in (write(tmp_path, "one"), "A5"):
        found = read_under_engines(case, case_options(parsed(case, "--set", "parallel=3", *both)))
        assert [scenario.engine for scenario in found] == ["llama_cpp", "mlx_lm"]
        assert [len(scenario.server) for scenario in found] == [1, 0]


def test_settings_and_models_drop_the_expectations():
    expecting = replace(from_line("A5", model="A"), expect={"x": 1}, lives=(1,), server={"parallel": 2, "ctx_size": 64})
    assert with_settings(expecting, []) is expecting
    changed = with_settings(expecting, ["ctx_size=128"])
    assert (changed.server["ctx_size"], changed.server["parallel"], changed.expect, changed.lives) == (128, 2, {}, ())
    other = with_model(expecting, "GA")
    assert (other.model, other.server, other.expect, other.lives) == ("GA", expecting.server, {}, ())


def test_the_sizes_of_a_real_model_leave_with_it():
    plain = from_line("A5", model="A", profiles=("sglang@0.5.23",), server={"page_size": 4})
    sized = with_model(plain, "qwen3-next")
    assert sized.server["real_model"] and sized.server["page_size"] == 4
    assert with_model(sized, "GA").server == {"page_size": 4}


def test_the_name_of_a_real_model_is_noted(capsys):
    found = with_model(from_line("A5", model="A"), "qwen3-next")
    note = capsys.readouterr().err
    assert found.model_note and note == f"cachesim: {found.model_note}\n"
    scenario_of_line("A5", CaseOptions(model="qwen3-next"))
    assert capsys.readouterr().err == note
    with_model(from_line("A5", model="A"), "GA")
    assert capsys.readouterr().err == ""


def test_marks_that_an_engine_does_not_read_are_noted_once(capsys):
    marked = "A5/A.|B5/A.|C5"
    cases_of_line(marked, CaseOptions(profiles=["vllm@0.33.0"]))
    assert "which vllm does" in capsys.readouterr().err
    all_engines = ["vllm@0.33.0", "llama_cpp@b10587", "sglang@0.5.23", "mlx_lm@0.32.2"]
    cases_of_line(marked, CaseOptions(profiles=all_engines))
    assert "which vllm, sglang and mlx_lm do" in capsys.readouterr().err


def test_requested_rule_sets_are_those_of_the_scenario_and_given_once(capsys):
    one = from_line("A5", model="A", profiles=("llama_cpp@b9518",))
    names = ["llama_cpp@b10587", "llama_cpp@b9518", "llama_cpp@b10587"]
    assert chosen_profiles(one, names) == ("llama_cpp@b10587", "llama_cpp@b9518")
    assert chosen_profiles(one, []) == profiles_of(one, ["vllm@0.33.0"]) == ("llama_cpp@b9518",)
    with pytest.raises(BadInput, match="unknown"):
        chosen_profiles(one, ["llama_cpp@none"])
    with pytest.raises(BadInput, match="llama_cpp, vllm"):
        chosen_profiles(one, ["vllm@0.33.0"])
    with pytest.raises(BadInput, match="mlx_lm, vllm"):
        scenario_of_line("A5", CaseOptions(profiles=["mlx_lm@0.32.2", "vllm@0.33.0"]))
    with pytest.raises(BadInput, match="unknown"):
        scenario_of_line("A5", CaseOptions(profiles=["llama_cpp@b9518", "llama_cpp@none"]))


def test_a_line_that_looks_like_a_file_is_noted_or_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("A5.toml", "A5.log", "A50.log", "S5.q", "B5"):
        (tmp_path / name).write_text("")
    with pytest.raises(BadInput) as caught:
        scenario_of_line("A5", CaseOptions())
    assert "'A5' (did you mean A5.log, A5.toml?" in str(caught.value)
    scenario_of_line("S5.q9", CaseOptions())
    assert capsys.readouterr().err == ""
    (tmp_path / "S5.q9.toml").write_text("")
    scenario_of_line("S5.q9", CaseOptions())
    assert "did you mean S5.q9.toml?" in capsys.readouterr().err
    assert scenario_of_line("B5", CaseOptions()).words == {"B": 5}


def test_a_word_of_several_letters_alone_is_refused():
    with pytest.raises(BadInput) as caught:
        scenario_of_line("made1", CaseOptions())
    assert "'made1'" in str(caught.value)
    assert scenario_of_line("made1/B2", CaseOptions()).words == {"made": 1, "B": 2}


def test_a_command_line_that_repeats_a_run_has_its_options():
    options = CaseOptions(model="GA", settings=["ctx_size=64"])
    assert case_arguments(options, ()) == ["--model", "GA", "--set", "ctx_size=64"]
    assert case_arguments(CaseOptions(), ()) == []
    under_two = options._replace(profiles=["llama_cpp@b9518", "mlx_lm@0.32.2"])
    assert case_arguments(under_two, [("tokens", 5)]) == [
        "-p", "llama_cpp@b9518", "-p", "mlx_lm@0.32.2", "--model", "GA", "--set", "ctx_size=64",
        "--limit", "tokens=5"]  # fmt: skip


def test_a_rule_set_may_be_named_by_a_file_of_rules(tmp_path):
    with pytest.raises(BadInput, match="no such file") as caught:
        profile_name(f"{tmp_path}/none.py")
    assert caught.value.file == f"{tmp_path}/none.py"
