"""Tests of ``cachesim advise``: partial results, sizes of real models, and single-line errors."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base import untrusted_files
from cachesim.base.limits import OF_A_RUN
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.advise import command as advise
from cachesim.tools.advise import ranking, setup_changes
from cachesim.tools.advise.case_facts import CaseFacts
from cachesim.tools.advise.report import try_sentence
from cachesim.tools.advise.saved_tokens import RepairCase
from cachesim.tools.advise.search import AdviceSearch
from cachesim.tools.advise.setup_changes import CaseArguments
from cachesim.tools.picture.picture_options import PictureOptions
from cachesim.tools.server_logs import import_log
from tests.unit.tools.command_arguments import arguments

EXCERPT = Path(__file__).parents[1] / "server_logs" / "excerpt.log"
LINE = "S40.A60/B80/S.C50/S.A.D5"
WRONG = "llama-window-checkpoint-erosion"


def told(capsys, *words):
    """Return the exit code, stdout and stderr."""
    code = main(["advise", *words])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_everything_fits_a_terminal_but_the_commands(capsys):
    code, out, err = told(capsys, LINE)
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines() if "cachesim run" not in line)
    assert "lower bound for any server: 235" in out and "-np 2" in out
    assert "not released: llama_cpp@pr24143-on-b10587, made on llama_cpp@b10587" in out


@pytest.mark.parametrize(("words", "said"), [
    (("nowhere.toml",), "no such file"), (("S4/",), "no words"), ((LINE, "--seconds", "0"), "at least 1"),
    ((LINE, "--sizes", "nothing"), "unknown sizes of K/V rows and states: model 'nothing' ("),
    ((LINE, "--model", "GGGA", "--sizes", "llama-3"), "unlike"),
    ((LINE, "--model", "lfm2swa", "--sizes", "llama-3"), "its own sizes"), ((LINE, "-p", "xyz"), "unknown profile"),
    ((LINE, "--model", "GGGA@1/x"), "expected two sizes in bytes"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_in_a_line(words, said, capsys):
    code, out, err = told(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and said in err


@pytest.mark.long
def test_mib_are_those_of_the_real_model(capsys):
    code, out, _ = told(capsys, LINE, "--sizes", "qwen3-next", "--json")
    (data,) = json.loads(out)["advise"]
    assert (code, data["model"]) == (0, "GGGA@24576/26345472")
    assert data["sizes"].endswith("Qwen3-Next-80B-A3B-Instruct")
    assert data["base"]["mib"] > 2 * 36 * 2195456 / (1 << 20)      # a state in the slot, another in the prompt cache
    assert "--model GGGA@24576/26345472" in data["advice"][0]["command"]
    _, out, _ = told(capsys, LINE, "--model", "qwen3-next", "--json", "-q")
    assert json.loads(out)["advise"] == [data]


@pytest.mark.long
def test_a_log_can_have_the_sizes_of_a_real_model(capsys):
    code, out, _ = told(capsys, str(EXCERPT), "--sizes", "qwen3-next", "--json")
    (data,) = json.loads(out)["advise"]
    assert (code, data["model"]) == (0, "GGGA@24576/26345472") and data["base"]["evaluated"] > 1600


def test_a_log_may_come_from_standard_input(capsys, monkeypatch):
    untrusted_files._standard_input.cache_clear()
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(EXCERPT.read_bytes())))
    code, out, _ = told(capsys, "-", "--json")
    untrusted_files._standard_input.cache_clear()
    assert code == 0 and json.loads(out)["advise"][0]["base"]["evaluated"] > 1600


def test_ctrl_c_shows_what_was_found_so_far(capsys, monkeypatch):
    def interrupted(search):
        for number, one in enumerate(every(search)):
            if number == 15:
                raise KeyboardInterrupt
            yield one

    every = AdviceSearch.__iter__
    monkeypatch.setattr(AdviceSearch, "__iter__", interrupted)
    code, out, err = told(capsys, LINE, "--json")
    (data,) = json.loads(out)["advise"]
    assert (code, data["stopped"]) == (130, "interrupted") and data["advice"] and data["tried"] == 16
    assert err.startswith("cachesim: interrupted: 16 of about")


def test_the_case_is_printed_before_changes_are_tried(capsys, monkeypatch):
    printed = []
    monkeypatch.setattr(AdviceSearch, "attempt", lambda *_: printed.append(capsys.readouterr().out))
    code, rest, _ = told(capsys, LINE)
    assert (code, printed[1:]) == (0, [""] * (len(printed) - 1)) and len(printed) > 1
    assert printed[0].splitlines() == [
        f"try  {DEFAULT_PROFILE}  GGGA",
        "  4 requests, 375 prompt tokens: 375 evaluated; lower bound for any server: 235",
    ]
    assert rest.startswith("  MiB: n/a")


@pytest.mark.long
def test_with_wrong_answers_a_line_on_stderr_comes_first(capsys, monkeypatch):
    """A wrong answer may evaluate fewer tokens than the lower bound, so that the advice decides if the bound holds."""
    printed = []
    monkeypatch.setattr(AdviceSearch, "attempt", lambda *_: printed.append(capsys.readouterr()))
    _, out, _ = told(capsys, WRONG)
    assert printed[0].out == "" and out.startswith(WRONG) and "lower bound for any server" in out
    assert printed[0].err.startswith(f"cachesim: {WRONG} under llama_cpp@")
    assert printed[0].err.endswith("; WRONG: 2 of 4 answers\n")
    printed.clear()
    told(capsys, WRONG, "--json")
    assert (printed[0].out, printed[0].err) == ("", "")


def test_a_log_is_described_before_it_is_simulated(capsys, monkeypatch):
    printed = []

    def solve(*args):
        printed.append(capsys.readouterr())
        raise KeyboardInterrupt

    monkeypatch.setattr(import_log, "solve", solve)
    code, out, err = told(capsys, str(EXCERPT))
    assert (code, out, printed[0].out) == (130, "", "")
    assert printed[0].err.startswith(f"cachesim: {EXCERPT}: ") and "common prefix" in printed[0].err
    assert err == f"cachesim: interrupted: the simulation of {EXCERPT} was not finished\n"
    told(capsys, str(EXCERPT), "--json")
    assert printed[1].err == ""


def test_an_interrupt_after_the_trials_says_what_is_missing(capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ranking, "choose", interrupt)
    code, out, err = told(capsys, LINE)
    assert (code, err) == (130, "cachesim: interrupted: the search for advice was not finished\n")
    assert "375 evaluated" in out and "cachesim run" not in out


@pytest.mark.parametrize("words", [(LINE,), (WRONG,), (WRONG, "-p", "latest")])
def test_the_unchanged_case_runs_once(capsys, monkeypatch, words):
    ran = []
    run = setup_changes.run_judged
    monkeypatch.setattr(setup_changes, "run_judged", lambda *args, **named: ran.append(args) or run(*args, **named))
    monkeypatch.setattr(AdviceSearch, "attempt", lambda *_: None)
    told(capsys, *words, "--json")
    assert len(ran) == 1


def test_a_search_ends_when_its_time_is_over(capsys, monkeypatch):
    now = iter(range(0, 10_000, 7))
    monkeypatch.setattr(advise.time, "monotonic", lambda: next(now))
    code, out, err = told(capsys, LINE, "--json", "--seconds", "20")
    (data,) = json.loads(out)["advise"]
    assert (code, data["stopped"], data["tried"]) == (0, "seconds", 3) and "--seconds" in err


def test_the_best_advice_in_a_sentence(capsys):
    _, out, _ = told(capsys, "d2.S80.u5/e2.S.u", "--json")
    (data,) = json.loads(out)["advise"]
    assert try_sentence(data) == (
        "Try: client: put the changing part after everything that stays the same (174 -> 91 tokens evaluated)"
    )
    assert try_sentence({**data, "advice": []}) == ""


def test_a_setting_that_answers_wrongly_says_so_in_words(capsys):
    code, out, _ = told(capsys, "llama-21831-reasoning-removed-hybrid")
    trap = out[out.index("--cache-reuse") :]
    assert code == 0 and "WRONG: 1 of 2 answers" in trap


def test_a_wrong_case_is_told_and_mended_first(capsys):
    code, out, _ = told(capsys, "llama-one-token-checkpoint-hybrid")
    assert code == 1 and "WRONG: 2 of 4 answers" in out
    assert "corrected: 2 answers" in out


def test_an_imported_log_begins_with_the_saved_tokens(capsys):
    log = "tests/unit/tools/server_logs/default_verbosity.log"
    assert main(["import", log]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Simulated: other flags would have saved 104 of 674 evaluated tokens (15%): -ub 64." in text
    assert f"All suggestions: cachesim advise {log}" in text
    main(["import", log, "-q"])
    assert "would have saved" not in capsys.readouterr().out


@pytest.mark.long
def test_a_log_and_request_bodies_are_imported_and_advised(capsys):
    code, out, _ = told(capsys, "tests/unit/tools/server_logs/default_verbosity.log", "--seconds", "600")
    assert code == 0 and "7 requests" in out and "-ub 64" in out and "cachesim run 'A120>a5/A.B30" in out
    code, out, _ = told(capsys, "tests/unit/tools/request_bodies/agent.jsonl", "-p", "llama_cpp@b11549")
    assert code == 0 and "client: put the changing part after everything that stays the same" in out


def test_a_log_without_requests_is_refused(tmp_path, capsys):
    log = tmp_path / "server.log"
    log.write_text("srv  update_slots: all slots are idle\n" * 3, "utf-8")
    code, _, err = told(capsys, str(log))
    assert code == 2 and err.count("\n") == 1 and "no complete request" in err


def args(**more):
    return Namespace(**{"case": "A5", "model": "", "sizes": "", "settings": [], "profiles": [], "limits": [], **more})


@pytest.mark.parametrize(("more", "model"), [
    ({}, ""), ({"model": "AA"}, "GA"), ({"sizes": "qwen3"}, "GA"), ({"model": "AA", "sizes": "qwen3"}, "GA")])
def test_the_model_is_an_argument_if_it_was_one(more, model):
    scenario = from_line("A5", model="GA")
    assert advise._arguments(args(**more), scenario, None) == CaseArguments("A5", model)


def test_options_and_limits_of_a_case_are_arguments_again():
    scenario = from_line("A5")
    limits = {"tokens": 5, "zz": 7} | {limit.name: 9 for limit in OF_A_RUN}
    kept = tuple((name, amount) for name, amount in limits.items() if name in {limit.name for limit in OF_A_RUN})
    found = advise._arguments(args(settings=["parallel=2", "cache_ram=0"], limits=[*limits.items()]), scenario, None)
    assert found == CaseArguments("A5", "", {"parallel": 2, "cache_ram": 0}, kept) and kept
    both = args(profiles=["llama_cpp@b11549", "mlx_lm@0.32.2"], settings=["parallel=2", "decode_concurrency=3"])
    assert advise._arguments(both, scenario, None).server == {"parallel": 2}
    imported = RepairCase(scenario)
    assert advise._arguments(args(model="AA", limits=[("zz", 7)]), scenario, imported) == CaseArguments()


@pytest.mark.parametrize(("low", "high", "printed"), [(None, None, None), (5, 6, None), (7, 7, 7), (0, 0, None)])
def test_facts_of_a_log_are_data(low, high, printed):
    scenario = from_line("A5", profiles=(DEFAULT_PROFILE,))
    facts = CaseFacts(low=low, high=high, before=3, contradicted=(4, 2), differing=())
    found = advise._log_data(args(case="x y.log"), RepairCase(scenario, facts=facts), scenario)
    assert found["printed_build"] == printed and found["before"] == 3 and found["is_refuted"] is True
    assert (found["contradicted"], found["differing"], found["assumed"]) == ([4, 2], [], [])
    assert found["command"].startswith("cachesim import 'x y.log'")


def test_a_case_without_a_log_has_no_facts():
    scenario = from_line("A5")
    assert advise._log_data(args(case="x y.log"), None, scenario) is None
    assert advise._log_data(args(case="x y.log"), RepairCase(scenario), scenario) is None


@pytest.mark.parametrize(("more", "source", "layers"), [
    ({}, "", "GGGA"), ({"model": "GA"}, "", "GA"), ({"model": "qwen3-next"}, "Qwen3-Next", "GGGA"),
    ({"sizes": "gpt-oss"}, "gpt-oss", "W128 A"), ({"model": "W8 A", "sizes": "gpt-oss"}, "gpt-oss", "W8 A"),
    ({"model": "qwen3-next", "sizes": "qwen3.5-4b"}, "Qwen3.5-4B", "GGGA"),
])  # fmt: skip
def test_sizes_are_those_that_are_named_or_those_of_the_model(more, source, layers):
    """A line has the layers of the named sizes unless it has a model of its own."""
    ([scenario], sizes) = advise.sized(args(**more))
    assert (sizes.source.rpartition("/")[2].startswith(source), bool(sizes.source)) == (True, bool(source))
    assert scenario.model.partition("@")[0] == layers and ("@" in scenario.model) is bool(source)


def outcomes(monkeypatch, **evaluated):
    """Give the outcome of a case under rule sets, of which 5 tokens are necessary; return those that were run."""
    ran = []

    def unchanged(scenario, profile):
        ran.append(profile)
        return SimpleNamespace(profile=profile, evaluated=evaluated[profile.partition("@b")[2] or "draft"])

    monkeypatch.setattr(advise, "_unchanged", unchanged)
    monkeypatch.setattr(setup_changes, "loses", lambda trial: trial.evaluated > 5)
    return ran


OLD, MIDDLE, NEW, DRAFT = (f"llama_cpp@{name}" for name in ("b9231", "b9473", "b9518", "24035-v3"))


@pytest.mark.parametrize(("own", "losing", "found", "ran"), [
    ([OLD, NEW, MIDDLE], "9518", NEW, [NEW]), ([OLD, NEW, MIDDLE], "9473 9231", MIDDLE, [NEW, MIDDLE]),
    ([OLD, NEW, MIDDLE], "9231", OLD, [NEW, MIDDLE, OLD]), ([OLD, NEW, MIDDLE], "", NEW, [NEW, MIDDLE, OLD]),
    ([OLD, NEW], "9231", OLD, [NEW, OLD]), ([OLD], "", OLD, [OLD]), ([DRAFT, OLD], "draft", OLD, [OLD]),
    ([DRAFT], "", DRAFT, [DRAFT]),
])  # fmt: skip
def test_a_case_is_advised_under_its_newest_rule_set_that_loses_tokens(monkeypatch, own, losing, found, ran):
    evaluated = {name: 9 if name in losing.split() else 5 for name in ("9231", "9473", "9518", "draft")}
    asked = outcomes(monkeypatch, **evaluated)
    assert advise.newest_with_losses("scenario", tuple(own)).profile == found and asked == ran


def test_an_imported_case_is_that_of_its_engine_or_of_every_rule_set():
    scenario = from_line("A5", profiles=(DEFAULT_PROFILE,), server={"parallel": 2})
    assert advise._cases(args(profiles=["vllm@0.33.0"]), RepairCase(scenario, facts=CaseFacts())) == [scenario]
    found = advise._cases(args(profiles=[DEFAULT_PROFILE, "vllm@0.33.0"], settings=["enable_prefix_caching=false"]),
                          RepairCase(scenario))  # fmt: skip
    assert [(case.engine, case.profiles) for case in found] == [
        ("llama_cpp", (DEFAULT_PROFILE,)), ("vllm", ("vllm@0.33.0",))]  # fmt: skip
    assert found[0].server == {"parallel": 2} and found[1].server == {"enable_prefix_caching": False}


class Search:
    """Search of prepared length whose every step takes a second."""

    def __init__(self, steps, clock):
        self.base, self.found, self.steps, self.clock = "base", [], steps, clock
        self.tried = 0

    def __len__(self):
        return self.steps

    def __iter__(self):
        for _ in range(self.steps):
            self.tried += 1
            self.clock[0] += 1
            yield None


@pytest.mark.parametrize(("steps", "most", "facts", "tried", "stopped"), [
    (3, 9, None, 3, None), (9, 3, None, 4, "seconds"), (3, 3, None, 3, None),
    (3, 9, CaseFacts(contradicted=(1,)), 0, None), (3, 9, CaseFacts(), 3, None),
])  # fmt: skip
def test_a_search_ends_after_its_seconds_and_does_not_begin_for_a_refuted_log(
    monkeypatch, steps, most, facts, tried, stopped
):
    clock, asked = [100], []
    search = Search(steps, clock)
    monkeypatch.setattr(advise.time, "monotonic", lambda: clock[0])
    piece = SimpleNamespace(tried=SimpleNamespace(case=SimpleNamespace(scenario="s", profile="p")))
    best = SimpleNamespace(tried=SimpleNamespace(case=SimpleNamespace(scenario="t", profile="q")))
    advice = SimpleNamespace(base=piece, released=[best, piece])
    monkeypatch.setattr(ranking, "choose", lambda *given: asked.append(given) or advice)
    monkeypatch.setattr("cachesim.tools.advise.search.advice_data", lambda *given: {"texts": given[-1]})
    about = RepairCase(from_line("A5"), facts=facts)
    drawn = []
    data, ended = advise.advice_for(search, about, "sizes", most, CaseArguments("x"), drawn)
    assert (search.tried, data["stopped"], ended, drawn) == (tried, stopped, None, [("s", "p"), ("t", "q")])
    assert asked == [("base", [], "sizes", CaseArguments("x"), facts)] and data["texts"] is about.has_texts
    advise.advice_for(search, about, "sizes")
    assert asked[-1][3] == CaseArguments()


@pytest.mark.parametrize(("engine", "model", "has_sizes"), [("llama_cpp", "qwen3-next", True)])
def test_a_case_that_runs_a_tiny_model_has_its_units(monkeypatch, engine, model, has_sizes):
    real = advise.sized(args(model=model))
    assert bool(real[1].source) is has_sizes
    tiny = from_line("A5", model="GA")
    monkeypatch.setattr(advise, "_cases", lambda args, imported: [replace(tiny, model=next(iter(
        ENGINES[engine].manual.models), ""))])  # fmt: skip
    cases, sizes = advise.sized(args(model=model))
    assert (sizes.source, "@" in cases[0].model) == ("", False)


def advice(wrong=(), refuted=None):
    return {"base": {"wrong": [*wrong]}, "log": None if refuted is None else {"is_refuted": refuted}}


@pytest.mark.parametrize(("found", "ended", "code"), [
    ([advice()], None, 0), ([advice(), advice([1])], None, 1), ([advice([1]), advice(refuted=True)], None, 3),
    ([advice(refuted=False)], None, 0), ([advice([1])], KeyboardInterrupt(), 130), ([], None, 0),
])  # fmt: skip
def test_the_exit_code_is_that_of_all_rule_sets_and_two_cases_are_drawn(monkeypatch, capsys, found, ended, code):
    drawn, report = [], "cachesim.tools.advise.report"
    runs = advise.AdviceRuns(found, ["a", "b", "c"], ended)
    monkeypatch.setattr(advise, "_advise_each", lambda args, scenarios, sizes, imported: runs)
    monkeypatch.setattr(advise, "draw_cases", lambda args, cases, shown: drawn.append((cases, shown)))
    for name in ("try_sentence", "run_names", "advise_report"):
        monkeypatch.setattr(f"{report}.{name}", lambda data, name=name: [name, data])
    first = found[0] if found else None
    assert told(capsys, "A5", "--model", "GA", "--json")[0] == code
    shown = PictureOptions("cachesim advise A5 --model GA", ["try_sentence", first], names=["run_names", first],
                           report=["advise_report", first])  # fmt: skip
    assert drawn == ([(["a", "b"], shown)] if found else [])


def test_advice_ends_at_the_interrupted_rule_set(monkeypatch):
    ended, asked = KeyboardInterrupt(), []
    scenario = from_line("A5", profiles=(DEFAULT_PROFILE, OLD, NEW))
    monkeypatch.setattr(advise, "_unchanged", lambda scenario, profile: profile)

    def advised(args, case, base, sizes, named, drawn, about):
        asked.append((case.scenario, base, sizes, named, about))
        return base, ended if base == OLD else None

    monkeypatch.setattr(advise, "_advised", advised)
    given = args(profiles=[DEFAULT_PROFILE, OLD, NEW])
    monkeypatch.setattr(advise, "profiles_of", lambda scenario, profiles: tuple(given.profiles))
    assert advise._advise_each(given, [scenario], "sizes", None) == ([DEFAULT_PROFILE, OLD], [], ended)
    about = {"rule_sets": 1, "assumes": "", "log": None}
    assert asked == [(scenario, name, "sizes", CaseArguments("A5"), about) for name in (DEFAULT_PROFILE, OLD)]
    monkeypatch.setattr(advise, "newest_with_losses", lambda scenario, own: f"newest of {len(own)}")
    given.profiles = []
    monkeypatch.setattr(advise, "profiles_of", lambda scenario, profiles: (DEFAULT_PROFILE, OLD, NEW))
    other = RepairCase(from_line("B9"), "a guess")              # before it was put under this engine
    assert advise._advise_each(given, [scenario], "sizes", other).found == ["newest of 3"]
    assert asked[-1][0] is scenario and asked[-1][4] == {"rule_sets": 3, "assumes": "a guess", "log": None}


def test_every_argument_is_explained_and_has_its_default():
    assert arguments(advise.add_arguments) == {
        "cases": [], "model": None, "settings": [], "pasted": "", "purpose": None, "memory": None, "weights": None,
        "clients": 1, "tokens": 0, "profiles": [], "sizes": "", "seconds": 60, "limits": [], "json": False, "html": "",
        "svg": "", "trace": ""}  # fmt: skip
    found = arguments(advise.add_arguments, ["x", "y", "--for", "agents", "--memory", "2GiB", "--weights", "1GiB",
                                             "--clients", "3", "--tokens", "9", "--seconds", "5"])  # fmt: skip
    assert (found["cases"], found["purpose"], found["memory"], found["weights"]) == (
        ["x", "y"], "agents", 2 << 30, 1 << 30)  # fmt: skip
    assert (found["clients"], found["tokens"], found["seconds"]) == (3, 9, 5)


@pytest.mark.parametrize(("holds", "as_json", "printed"), [
    (3, False, ["case", "found"]), (None, False, ["note", "advice"]), (3, True, []), (None, True, []),
])  # fmt: skip
@pytest.mark.parametrize(("stopped", "ended", "why"), [
    ("", None, None), ("seconds", None, "stopped after 7 seconds (--seconds)"),
    ("interrupted", KeyboardInterrupt(), "interrupted"),
])  # fmt: skip
def test_the_unchanged_case_is_printed_before_changes_are_tried(monkeypatch, holds, as_json, printed, stopped, ended,
                                                                why):  # fmt: skip
    shown, tool = [], "cachesim.tools.advise"
    for name, text in (("case_report", "case"), ("found_report", "found"), ("advise_report", "advice"),
                       ("case_note", "note")):  # fmt: skip
        monkeypatch.setattr(f"{tool}.report.{name}", lambda data, text=text: (text, data["log"]))
    monkeypatch.setattr(f"{tool}.search.AdviceSearch", lambda *given: given)
    monkeypatch.setattr(f"{tool}.search.case_data", lambda search, has_texts: {"bound": {"holds": holds}})
    monkeypatch.setattr(advise, "advice_for", lambda *given: ({"stopped": stopped, "tried": 2, "changes": 9}, ended))
    for name in ("show", "note"):
        monkeypatch.setattr(advise, name, shown.append)
    told = []
    monkeypatch.setattr(advise, "complain", told.append)
    base = SimpleNamespace(case=SimpleNamespace(scenario="s", profile="p"))
    data, found = advise._advised(args(json=as_json, seconds=7), RepairCase(from_line("A5")), base, "sizes",
                                  CaseArguments(), [], {"log": "facts"})  # fmt: skip
    assert shown == [(text, "facts") for text in printed] and found is ended
    assert data == {"stopped": stopped, "tried": 2, "changes": 9, "log": "facts"}
    assert told == ([f"{why}: 2 of about 9 changes tried"] if why else [])


def test_every_argument_has_a_help_and_its_value_a_name():
    parser = ArgumentParser(prog="advise")
    advise.add_arguments(parser)
    usage = " ".join(parser.format_usage().split())
    for text in ("[--for {agents}]", "[--memory SIZE]", "[--weights SIZE]", "[--clients N]", "[--tokens N]",
                 "[--sizes FILE|NAME]", "[--seconds N]", "[--json]", "[--html FILE]"):  # fmt: skip
        assert text in usage
    assert "[FILE|ID|LINE ...]" in usage and [one.dest for one in parser._actions if not one.help] == []
