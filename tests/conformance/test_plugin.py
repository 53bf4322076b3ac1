"""Tests of the pytest plugin: it runs scenario files only on request and passes only expected results."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

# Here, because the inner pytest removes the modules that it imports: NumPy cannot be imported twice in a process
import cachesim.tools.run.run_table  # noqa: F401
from cachesim.pytest_plugin import is_scenario

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "scenarios"
GOOD = CORPUS / "llama_cpp" / "lessons" / "llama-lesson-hybrid.toml"
BUG = CORPUS / "llama_cpp" / "wrong-answer" / "llama-one-token-checkpoint-recurrent.toml"
HEAD = "llama_cpp@b10587"


@pytest.fixture
def run(pytester):
    """Run pytest with the plugin in the folder of the test."""
    def run(*arguments):
        return pytester.runpytest_inprocess("-p", "no:cachesim", "-p", "cachesim.pytest_plugin", *arguments)

    return run


def put(pytester, file, change=("", ""), name=None):
    """Write a copy of a scenario that has only the profile HEAD, with a text replaced."""
    text = re.sub(r"^profiles = .*$", f'profiles = ["{HEAD}"]', file.read_text(), flags=re.M)
    assert change[0] in text
    copy = pytester.path / (name or file.name)
    copy.write_text(text.replace(*change) if change[0] else text)
    return copy


def test_a_scenario_is_an_item_per_profile(pytester, run):
    put(pytester, GOOD)
    result = run("--cachesim", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"llama-lesson-hybrid.toml::{HEAD} PASSED*"])


def test_nothing_is_collected_unless_asked(pytester, run):
    put(pytester, GOOD)
    assert run().ret == pytest.ExitCode.NO_TESTS_COLLECTED
    pytester.makeini("[pytest]\ncachesim_scenarios = true\n")
    run().assert_outcomes(passed=1)


def test_other_peoples_toml_is_left_alone(pytester, run):
    pytester.makefile(".toml", pyproject="[project]\nname = 'x'\n", engine="engine = 'v8'\n", spoilt="= [")
    assert run("--cachesim").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    (pytester.path / "bytes.toml").write_bytes(b"\xff")
    assert [is_scenario(file) for file in (pytester.path / "bytes.toml", pytester.path / "none.toml", GOOD)] == [
        False, False, True,
    ]  # fmt: skip


def test_a_run_that_is_not_as_its_file_says_fails_with_the_report(pytester, run):
    put(pytester, GOOD, ("cache_n = [0, 8, 8]", "cache_n = [0, 8, 9]"))
    result = run("--cachesim")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        f"llama-lesson-hybrid under {HEAD}: broken, or not as expected", "*NOT as expected",
        "*cache_n is 8, the file expects 9",
    ])


def test_a_bug_passes_only_where_its_file_says_so(pytester, run):
    put(pytester, BUG)
    run("--cachesim", "--cachesim-profile", HEAD).assert_outcomes(passed=1)
    put(pytester, BUG, (f'[expect."{HEAD}"]', '[expect."llama_cpp@pr24143-on-b10587"]'))
    result = run("--cachesim", "--cachesim-profile", HEAD)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["wrong answer at requests 2 and 3, * tokens re-evaluated"])


def test_undecided_is_not_a_pass(pytester, run, monkeypatch):
    put(pytester, GOOD)
    monkeypatch.setattr("cachesim.judging.verdict.outcome", lambda data, as_expected: None)
    result = run("--cachesim")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"llama-lesson-hybrid under {HEAD}: undecided, which is not a pass"])


def test_a_spoilt_scenario_is_an_error_not_nothing(pytester, run):
    put(pytester, GOOD, ('model = "GGGA"', 'model = "GGGX"'))
    result = run("--cachesim")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*llama-lesson-hybrid.toml:*unknown kind of layer 'X'*"])


def test_profile_and_mode_come_from_the_command_line_or_the_ini_file(pytester, run):
    put(pytester, GOOD)
    pytester.makeini("[pytest]\ncachesim_scenarios = true\ncachesim_profiles = llama_cpp@pr24143-on-b10587\n"
                     "cachesim_mode = provenance\n")  # fmt: skip
    run("-v").stdout.fnmatch_lines(["llama-lesson-hybrid.toml::llama_cpp@pr24143-on-b10587 PASSED*"])
    run("-v", "--cachesim-profile", HEAD, "--cachesim-mode", "exact").stdout.fnmatch_lines([f"*::{HEAD} PASSED*"])
    run("--cachesim-profile", "ik_llama@main").assert_outcomes()


def test_what_does_not_exist_is_a_usage_error(pytester, run):
    result = run("--cachesim", "--cachesim-profile", "llama_cpp@b10587x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unknown profile 'llama_cpp@b10587x' (did you mean 'llama_cpp@b10587'?)"])
    pytester.makeini("[pytest]\ncachesim_mode = exactly\n")
    assert run().ret == pytest.ExitCode.USAGE_ERROR


def test_items_can_be_chosen_by_mark_and_name(pytester, run):
    put(pytester, GOOD)
    pytester.makepyfile("def test_other(): pass")
    run("--cachesim", "-m", "cachesim", "--strict-markers").assert_outcomes(passed=1, deselected=1)
    run("--cachesim", "-k", "b10587").assert_outcomes(passed=1, deselected=1)
    run("--cachesim", f"llama-lesson-hybrid.toml::{HEAD}").assert_outcomes(passed=1)


def test_the_plugin_is_light():
    code = "import sys, pytest, cachesim.pytest_plugin; print({'numpy', 'hypothesis', 'tomllib'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "set()\n"
