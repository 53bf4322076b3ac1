"""Tests of the observations in a bug report, with a recorder that runs nothing."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.export import scenario_file as module
from cachesim.tools.live.llama_server.export.scenario_file import LINES, observed, version
from cachesim.tools.live.llama_server.export.script import make_script
from tests.shared import SMALL
from tests.unit.tools.live.test_hang_ups import launch

RIGHT = {"status": 200, "cache_n": 2, "prompt_n": 3, "tokens": []}


@pytest.fixture
def binary(tmp_path):
    file = tmp_path / "llama-server"
    file.write_text("#!/bin/sh\necho loading\necho 'version: 9999 (abc)' >&2\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def came(monkeypatch, tmp_path, binary):
    """Return the observations of a line whose steps end like this; each step logs two relevant lines and another."""

    def of(line, *ends, inexact=()):
        class Recorded:
            def __init__(self, start, rounding):
                self.inexact, self.log_file, self.left = [], tmp_path / "log", list(ends)
                self.log_file.write_text("0.00.000.001 W srv before: before the case\n")

            def __enter__(self):
                return self

            def __exit__(self, *error):
                pass

            def play(self, step):
                number = len(ends) - len(self.left)
                self.inexact += [one for one in inexact if str(one["i"]).partition(".")[0] == str(number)]
                with self.log_file.open("a") as log:
                    log.write(f"0.00.000.001 {launch(number)}\n0.00.000.002 I srv x: of no use\n"
                              f"0.00.000.003 W srv y: warning {number}\n")  # fmt: skip
                return {"i": number, **step, **self.left.pop(0)}

        monkeypatch.setattr(module, "Recorder", Recorded)
        return observed(make_script(from_line(line, model="A", server=SMALL), "llama_cpp@b11549"), binary, tmp_path)

    return of


def test_what_came_of_each_request_is_said(came):
    found = came("S5>1/S.A3>1/B4>1/C9>1", {"response": RIGHT},
                 {"response": RIGHT, "cold": {"equal": False, "first_diff": 1, "max_dlogprob": 0.25}},
                 {"response": {"status": 400, "error": {"message": "too long"}}},
                 {"died": {"fatal": ["GGML_ASSERT(x) failed", "abort"]}}, inexact=[{"i": 1}, {"i": 3}])  # fmt: skip
    assert found.version == "version: 9999 (abc)"
    assert found.came == [
        "0. cache_n 2, evaluated 3: correct answer",
        "1. cache_n 2, evaluated 3: WRONG: token 1 differs from a cold run and log-probabilities differ by 0.25 "
        "from a cold run",
        "2. HTTP 400 too long", "3. the process ends: GGML_ASSERT(x) failed / abort",
    ]  # fmt: skip


def test_the_log_is_that_of_the_wrong_requests(came):
    wrong = {"response": RIGHT, "cold": {"equal": True, "max_dlogprob": 0.5}}
    found = came("S5>1/S.A3>1", {"response": RIGHT}, wrong, inexact=[{"i": 1}])
    assert found.log[0] == "... request 1" and len(found.log) == 3
    assert "launch_slot_" in found.log[1] and found.log[2].endswith("warning 1")
    assert found.came[1].endswith("WRONG: log-probabilities differ by 0.5 from a cold run")
    long = came("/".join(["S5>1", *["S>1"] * 29]), *[wrong] * 30, inexact=[{"i": n} for n in range(30)])
    assert len(long.log) == LINES


def test_of_requests_that_were_sent_together_each_has_its_own_end(came):
    steps = [{"i": "0.0", "response": RIGHT}, {"i": "0.1", "response": RIGHT, "cold": {"equal": False}}]
    found = came("S5>1/A3>1{together}", {"steps": steps}, inexact=[{"i": "0.1"}])
    assert [one.partition("evaluated 3: ")[2] for one in found.came] == [
        "correct answer", "WRONG: token 0 differs from a cold run"]  # fmt: skip
    assert [one[:2] for one in found.came] == ["0.", "1."] and found.log[0] == "... request 0"


def test_a_process_that_says_nothing_and_a_binary_that_cannot_be_run(came, tmp_path):
    assert came("S5>1", {"died": {"fatal": []}}).came == ["0. the process ends: no message"]
    with pytest.raises(BadInput, match="cannot be run"):
        version(tmp_path / "nothing")
    (silent := tmp_path / "silent").write_text("#!/bin/sh\n")
    silent.chmod(0o755)
    assert version(silent) == "unknown version"
