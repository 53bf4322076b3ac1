"""Tests of runs for pictures: each picture needs one simulation, whatever its form."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import cachesim
from cachesim.cli.main import main
from cachesim.judging import reproduce_command
from cachesim.scenarios.runner import ScenarioStage
from cachesim.tools.picture.shown import PictureOptions
from cachesim.tools.playground.case import answer
from cachesim.tools.run import pictured_runs
from cachesim.tools.run.pictured_runs import draw_cases, draw_text, run_pictured

LINE = "S20.A20>3/B9>2/S.A.C5"
CASES = {
    "llama_cpp": ("llama_cpp@b11549", "GA"), "ik_llama": ("ik_llama@main", "GA"), "mlx_lm": ("mlx_lm@0.32.2", "GA"),
    "vllm": ("vllm@0.33.0", "A"), "sglang": ("sglang@0.5.23", "A"),
}  # fmt: skip


@pytest.fixture
def simulations(monkeypatch):
    """Return the rule sets that cases have been run under since; those of runs with exchanged rules are left out."""
    started, real = [], ScenarioStage.__init__

    def counted(self, scenario, profile, mode, folder, watcher, rules, *args, **more):
        if rules in (profile, cachesim.rules(profile)):
            started.append(profile)
        real(self, scenario, profile, mode, folder, watcher, rules, *args, **more)

    monkeypatch.setattr(ScenarioStage, "__init__", counted)
    return started


def files(folder):
    return {name: str(folder / f"x.{name}") for name in ("html", "svg", "trace")}


@pytest.mark.parametrize("engine", CASES)
def test_all_pictures_of_a_command_take_one_simulation(simulations, capsys, tmp_path, engine):
    profile, model = CASES[engine]
    options = [word for name, file in files(tmp_path).items() for word in (f"--{name}", file)]
    assert main(["run", LINE, "-p", profile, "--model", model, "-q", *options]) == 0
    assert simulations == [profile] and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("engine", CASES)
def test_a_case_is_simulated_once_for_its_pictures(simulations, capsys, tmp_path, engine):
    profile, model = CASES[engine]
    case = cachesim.load(LINE, profile=profile, model=model)
    draw_cases(SimpleNamespace(**files(tmp_path)), [(case, profile)])
    assert simulations == [profile] and len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("engine", CASES)
def test_the_playground_simulates_once_for_each_rule_set(simulations, engine):
    profile, model = CASES[engine]
    assert "error" not in answer({"line": LINE, "model": model, "flags": "", "profiles": [profile]})
    assert simulations == [profile]


@pytest.mark.parametrize("engine", CASES)
def test_the_picture_of_a_judged_run_takes_no_further_simulation(simulations, engine):
    profile, model = CASES[engine]
    run = cachesim.judge(cachesim.load(LINE, profile=profile, model=model), profile)
    assert cachesim.svg(run).count("<svg") == 1 and simulations == [profile]


def test_two_rule_sets_take_two_simulations(simulations, capsys, tmp_path):
    names = ["llama_cpp@b10587", "llama_cpp@b11549"]
    options = [word for name in names for word in ("-p", name)]
    for command in ("run", "diff"):
        simulations.clear()
        assert main([command, LINE, *options, "-q", "--html", str(tmp_path / "x.html")]) == 0
        assert simulations == names, command


def test_a_picture_of_why_takes_no_further_simulation(simulations, capsys, tmp_path):
    line = ["why", LINE, "2", "-p", "vllm@0.33.0", "--model", "A", "-q"]
    counts = []
    for options in ([], ["--html", str(tmp_path / "x.html")]):
        simulations.clear()
        assert main([*line, *options]) == 0
        counts.append(len(simulations))
    assert counts[0] == counts[1] > 0


def test_runs_without_a_slider_do_not_record_events():
    case = cachesim.load(LINE)
    assert run_pictured(case, case.profiles[0], events=False).told() is None


def test_a_picture_of_several_scenarios_is_refused_before_anything_runs(simulations, capsys, tmp_path):
    assert main(["run", "llama-lesson-attention", "llama-lesson-window", "--svg", str(tmp_path / "x.svg")]) == 2
    out, err = capsys.readouterr()
    assert simulations == [] and out == "" and err.count("\n") == 1 and "a picture can show one scenario only" in err


def test_text_that_is_no_scenario_draws_nothing(tmp_path):
    draw_text(SimpleNamespace(html="", svg=str(tmp_path / "x.svg"), trace=""), "")
    assert not list(tmp_path.iterdir())


TEXT = """id = "x"
title = "t"
why = "w"
source = ["cachesim"]
engine = "llama_cpp"
model = "A"
profiles = ["llama_cpp@b9518", "llama_cpp@b10587"]
[words]
A = 5
[[request]]
prompt = "A"
"""


def test_a_file_is_drawn_under_its_first_rule_set_with_the_command_for_its_line(monkeypatch):
    drawn = []
    monkeypatch.setattr(pictured_runs, "draw_cases", lambda args, cases, shown: drawn.append((cases, shown)))
    args = SimpleNamespace(html="", svg="x.svg", trace="")
    draw_text(args, TEXT)
    draw_text(args, TEXT, PictureOptions(note="n", command="c"))
    monkeypatch.setattr(reproduce_command, "case_words", lambda scenario, profile: ["x.toml", "-p", profile])
    draw_text(args, TEXT, PictureOptions(command="c"))
    assert [[(scenario.id, profile) for scenario, profile in cases] for cases, _ in drawn] == [
        [("x", "llama_cpp@b9518")]] * 3  # fmt: skip
    command = "cachesim run A5 -p llama_cpp@b9518 --model A"
    assert drawn[0][1] == PictureOptions(command=command)
    assert [shown for _, shown in drawn[1:]] == [PictureOptions(note="n", command=command), PictureOptions(command="c")]


def test_nothing_is_drawn_without_a_picture_option(monkeypatch):
    monkeypatch.setattr(pictured_runs, "run_pictured", lambda *what: pytest.fail("ran"))
    args = SimpleNamespace(html="", svg="", trace="")
    draw_text(args, TEXT)
    draw_cases(args, [(cachesim.load(LINE), "llama_cpp@b10587")])


def test_events_are_recorded_for_a_page_only(monkeypatch):
    seen = []
    monkeypatch.setattr(pictured_runs, "run_pictured", lambda scenario, profile, events: seen.append(events))
    monkeypatch.setattr(pictured_runs, "write_pictures", lambda args, runs, shown: None)
    for html in ("x.html", ""):
        draw_cases(SimpleNamespace(html=html, svg="x.svg", trace=""), [(cachesim.load(LINE), "llama_cpp@b10587")])
    assert seen == [True, False]
