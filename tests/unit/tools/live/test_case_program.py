"""The main part of exported programs: a warm run of a case, a cold run, and a line for each request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import pairwise

import pytest

from cachesim.tools.live.llama_server.export import case_program
from cachesim.tools.live.llama_server.export.case_program import PORTS, ExportedCase, run_case
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel
from tests.unit.tools.live.given_server import DROP, given, likely

ANSWER = {"tokens": [7, 8], "timings": {"cache_n": 3, "prompt_n": 2}}
OTHER = {"tokens": [7, 9]}
VARIABLES = ("LLAMA_SERVER", "MODELS", "SEED", "FIRST", "TOLERANCE", "WITHIN", "DELAY")
COLD = "--cold"
ENDS = DROP                 # the process ends at this request


class Programs:
    """Server programs in place of subprocess.Popen. ``starts``: their command lines; ``warm``: the replies of the
    first, ``cold``: those of each cold start; ``log``: the output of programs that end at once; ``alias``: another
    name that they report."""

    def __init__(self):
        self.starts, self.warm, self.cold, self.log, self.alias = [], [ANSWER], [[ANSWER]], None, ""
        self.running, self.is_stubborn, self.killed = [], False, 0

    def __call__(self, words, stdout=None, **_):
        if words[0] == "/no/such/server":
            raise FileNotFoundError(2, "No such file or directory")
        self.starts.append(words)
        return Program(self, words, stdout)


class Program:
    def __init__(self, programs, words, stdout):
        self.programs, self.code, self.replies = programs, None, []
        if programs.log is not None:
            stdout.write(programs.log)
            self.code = 3
            return
        named = dict(pairwise(words))
        self.replies = programs.cold.pop(0) if COLD in words else programs.warm
        completions = [(200, reply) for reply in self.replies]
        self.context = given({"/props": {"model_alias": programs.alias or named["--alias"]},
                              "/completion": completions}, int(named["--port"]))  # fmt: skip
        self.context.__enter__()
        programs.running.append(self)

    def end(self):
        if self.code is None:
            self.context.__exit__(None, None, None)
            self.programs.running.remove(self)
        self.code = 0

    def poll(self):
        return self.code

    def wait(self, within=None):
        if ENDS in self.replies:
            self.end()
        if self.code is None:
            raise subprocess.TimeoutExpired("server", within)
        return self.code

    def terminate(self):
        if not self.programs.is_stubborn:
            self.end()

    def kill(self):
        self.programs.killed += 1
        self.end()


@pytest.fixture
def programs(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(case_program.signal, "signal", lambda *_: None)
    monkeypatch.setattr(case_program.subprocess, "Popen", made := Programs())
    monkeypatch.setattr(case_program.time, "sleep", lambda seconds: None)
    return made


def run(numbers=(0,), **more):
    """Return the exit code of a case that sends the word A as these requests."""
    def history(talk, server, words):
        for number in numbers:
            talk.ask(number, words["A"])

    model = TinyModel({"general.architecture": "llama"}, [Tensor("out", (2, 3), 0.5)], {}, "")
    fields = {"models": {"m.gguf": model}, "words": {"A": [100, 101, 319, 320]}, "spelled": (), "flags": ("-np", "1"),
              "cold_flags": (COLD,), "constant": ("-t", "1"), "history": history, "tolerance": 0.01,
              "expected": dict.fromkeys(numbers, (3, 2)), "wheel": ""}  # fmt: skip
    return run_case(ExportedCase(**{**fields, **more}))


def rows(capsys):
    """Return the printed words of each request, by its number."""
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    return {int(words[0]): words[1:] for words in lines if words[0].isdigit()}


def test_equal_answers_show_no_fault(programs, capsys):
    assert run() == 0
    row = rows(capsys)[0]
    assert row[:4] == ["3", "(3)", "2", "(2)"] and row[-2:] == ["7", "8"] and "DIFFERS" not in row
    warm, cold = programs.starts
    assert warm[-4:] == ["-t", "1", "-np", "1"] and cold[-3:] == ["-t", "1", COLD] and warm[0] == "llama-server"
    assert os.path.basename(warm[warm.index("-m") + 1]) == "m.gguf" and programs.running == []


def test_a_different_answer_is_the_fault_also_if_later_ones_are_equal(programs, capsys):
    programs.warm, programs.cold = [OTHER, ANSWER], [[ANSWER, ANSWER]]
    assert run((0, 1)) == 1
    found = rows(capsys)
    assert "DIFFERS" in found[0] and found[0][:4] == ["-", "(3)", "-", "(2)"] and "DIFFERS" not in found[1]


@pytest.mark.parametrize(("lost", "code", "said"), [
    ({0: (3, 9, 9)}, 1, "THE LOSS SHOWS: 3 of 9 tokens reused in request 0; with #1 9 (predicted)"),
    ({0: (1, 3, 9)}, 0, "the loss does not show: 3 of 9 tokens reused in request 0, as with #1 (predicted)"),
    ({0: (0, 2, 9)}, 0, "the loss does not show: 3 of 9 tokens reused in request 0; with #1 2 (predicted)"),
    ({0: (0, 9, 9)}, 3, "UNDECIDED: 3 of 9 tokens reused in request 0; 0 with the loss, with #1 9 (predicted)"),
    ({0: (4, 9, 9)}, 3, "UNDECIDED: 3 of 9 tokens reused in request 0; 4 with the loss, with #1 9 (predicted)"),
])  # fmt: skip
def test_reuse_is_that_with_the_loss_or_without_it_or_another(programs, capsys, lost, code, said):
    assert run(lost=lost, reference=("#1", " (predicted)")) == code
    assert capsys.readouterr().out.splitlines()[2:] == [said]


def test_a_loss_counts_beside_other_numbers_and_a_wrong_answer_beside_reuse(programs, capsys):
    programs.warm, programs.cold = [ANSWER, ANSWER], [[ANSWER, ANSWER]]
    assert run((0, 1), lost={0: (0, 9, 9), 1: (3, 9, 9)}, reference=("#1", "")) == 1
    assert capsys.readouterr().out.count("THE LOSS SHOWS") == 1
    programs.warm, programs.cold = [OTHER], [[ANSWER]]
    assert run(lost={0: (0, 1, 9)}, reference=("#1", "")) == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "THE FAULT SHOWS", "UNDECIDED: request 0 does not report how many tokens it reused"]


def test_the_seconds_of_a_loss_follow_from_the_rate_of_its_prompt(programs, capsys):
    timed = {**ANSWER, "timings": {"cache_n": 3, "prompt_n": 20, "prompt_ms": 4000.0}}
    programs.warm, programs.cold = [timed], [[ANSWER]]
    assert run(lost={0: (3, 13, 13)}, reference=("#1", "")) == 1
    assert capsys.readouterr().out.splitlines()[-1] == (
        "  10 tokens evaluated again: about 2 s, at the 5 tokens/s of this prompt")


def test_a_server_that_ends_at_the_cold_run_shows_the_fault_and_is_started_again(programs, capsys):
    programs.warm, programs.cold = [ANSWER, ANSWER], [[ENDS], [ANSWER]]
    assert run((0, 1)) == 1 and len(programs.starts) == 3
    assert rows(capsys)[1][:4] == ["3", "(3)", "2", "(2)"] and programs.running == []


def test_the_answer_to_a_client_that_left_is_not_compared(programs, capsys):
    def history(talk, server, words):
        talk.ask(4, words["A"], hang_up=0)
        talk.ask(5, words["A"])

    programs.warm, programs.cold = [ANSWER], [[ANSWER]]
    assert run((4, 5), history=history) == 0 and len(rows(capsys)[4]) == 1
    programs.cold = [[OTHER]]
    assert run((4, 5), history=history) == 1


def test_a_program_that_fails_has_its_own_exit_code_and_leaves_no_server(programs, capsys):
    def history(talk, server, words):
        raise ValueError("broken")

    assert run(history=history) == 2 and "broken" in capsys.readouterr().err and programs.running == []


def test_models_are_written_where_they_are_missing(programs, monkeypatch, tmp_path):
    monkeypatch.setenv("MODELS", str(tmp_path / "made"))
    run()
    file = tmp_path / "made" / "m.gguf"
    assert file.read_bytes()[:4] == b"GGUF" and str(file) in programs.starts[0]
    file.write_text("own")
    programs.cold = [[ANSWER]]
    run(flags=("--lora", "MODELS/a.gguf"))
    assert file.read_text() == "own" and programs.starts[2][-1] == str(tmp_path / "made" / "a.gguf")


@pytest.mark.parametrize(("environment", "spelled", "tokens"), [
    ({}, (), [100, 101, 319, 101]), ({"SEED": "2"}, (), [100, 103, 102, 103]),
    ({"SEED": "2", "FIRST": "1000"}, (), [100, 1002, 1001, 1002]), ({"SEED": "2"}, ("A",), [100, 101, 319, 320]),
])  # fmt: skip
def test_words_get_other_tokens_with_a_seed_and_a_first_token(programs, monkeypatch, environment, spelled, tokens):
    seen = []
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    run((), history=lambda talk, server, words: seen.append(words), spelled=spelled)
    assert seen == [{"A": tokens}]


@pytest.mark.parametrize(("value", "binary"), [("mine", "mine"), ("bin/mine", os.path.abspath("bin/mine"))])
def test_the_server_is_that_of_the_variable_else_of_the_wheel(programs, monkeypatch, value, binary):
    run(wheel="print(1)")
    assert programs.starts[0][0] == sys.executable and programs.starts[0][1].endswith("server.py")
    monkeypatch.setenv("LLAMA_SERVER", value)
    programs.cold = [[ANSWER]]
    run(wheel="print(1)")
    assert programs.starts[2][0] == binary


@pytest.mark.parametrize(("log", "starts", "named"), [
    (b"x E one\n", 1, ["x E one"]), (b"a E couldn't bind\n", PORTS, ["a E couldn't bind"]),
    (b"a\nx E 1\nb\xff\n", 1, ["x E 1"]), (b"a\nb\nc\nd\xff\n", 1, ["b", "c", "d\ufffd"]), (b"", 1, []),
])  # fmt: skip
def test_a_server_that_does_not_start_ends_the_program_with_its_errors(programs, capsys, log, starts, named):
    """A port that another process took is tried again."""
    programs.log = log
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2 and len(programs.starts) == starts
    assert capsys.readouterr().err.splitlines()[1:] == named


def test_another_server_on_the_port_is_not_taken_for_ours(programs, monkeypatch):
    monkeypatch.setattr(case_program, "START_WITHIN", 0.05)
    programs.alias = "another"
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2 and programs.running == []


def test_a_program_that_cannot_be_run_is_named(programs, monkeypatch, capsys):
    monkeypatch.setenv("LLAMA_SERVER", "/no/such/server")
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2 and capsys.readouterr().err.startswith("/no/such/server: ")


def test_a_server_that_does_not_end_by_itself_is_killed(programs):
    programs.is_stubborn = True
    assert run() == 0 and programs.killed == 2 and programs.running == []


def test_the_tolerance_and_the_time_limits_come_from_the_environment(programs, monkeypatch):
    seen = []

    def history(talk, server, words):
        seen.append((talk.within, talk.delay))
        talk.ask(0, words["A"])

    programs.warm = [{"tokens": [7], **likely({7: -1.0})}]
    programs.cold = [[{"tokens": [7], **likely({7: -1.5})}] for _ in range(2)]
    assert run(history=history) == 1
    for name, value in (("WITHIN", "7"), ("DELAY", "0.5"), ("TOLERANCE", "0.5")):
        monkeypatch.setenv(name, value)
    assert run(history=history) == 0 and seen[1] == (7.0, 0.5)


def test_signals_end_the_program_with_their_number(programs, monkeypatch):
    handlers = {}
    monkeypatch.setattr(case_program.signal, "signal", handlers.__setitem__)
    run()
    assert set(handlers) == {signal.SIGTERM, signal.SIGHUP}
    with pytest.raises(SystemExit) as ended:
        handlers[signal.SIGTERM](15, None)
    assert ended.value.code == 143
