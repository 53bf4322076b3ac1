"""Tests of the pytest plugin: it runs scenario files only on request and passes only expected results."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

# Here, because the inner pytest removes the modules that it imports: NumPy cannot be imported twice in a process
import cachesim
import cachesim.tools.run.run_table
from cachesim.pytest_plugin import is_scenario, pytest_assertrepr_compare

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "scenarios"
GOOD = CORPUS / "llama_cpp" / "lessons" / "llama-lesson-hybrid.toml"
BUG = CORPUS / "llama_cpp" / "wrong-answer" / "llama-one-token-checkpoint-recurrent.toml"
HEAD = "llama_cpp@b10587"
LINE = "S40.A60/S.A"
NEWEST = "llama_cpp@b11549"


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """Run a case: the modules that it imports stay, and no inner pytest imports them again."""
    runs = cachesim.run(LINE, [NEWEST, "vllm", "ik_llama"])
    assert len(runs) == 3


@pytest.fixture
def run(pytester, monkeypatch):
    """Run pytest with the plugin in the folder of the test. Other installed plugins are not loaded: to find them takes
    a third of the time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

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
    for name, text in (("pyproject", "[project]\nname = 'x'\n"), ("engine", "engine = 'v8'\n"), ("spoilt", "= [")):
        (pytester.path / f"{name}.toml").write_text(text)
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
        "request 2: cache_n is 8, the file expects 9", "*NOT as expected", "*cache_n is 8, the file expects 9",
        f"FAILED llama-lesson-hybrid.toml::{HEAD} - Failed: request 2: *",
    ])


def test_a_bug_passes_only_where_its_file_says_so(pytester, run):
    put(pytester, BUG)
    run("--cachesim", "--cachesim-profile", HEAD).assert_outcomes(passed=1)
    put(pytester, BUG, (f'[expect."{HEAD}"]', '[expect."llama_cpp@pr24143-on-b10587"]'))
    result = run("--cachesim", "--cachesim-profile", HEAD)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["wrong answer at requests 2 and 3, * tokens re-evaluated"])


REFUSED = f"""id = "refused"
title = "t"
why = "w"
source = ["cachesim"]
engine = "llama_cpp"
model = "A"
profiles = ["{HEAD}"]
[server]
ctx_size = 256
[words]
A = 300
[[request]]
prompt = "A"
"""


def test_undecided_is_not_a_pass_unless_the_file_expects_it(pytester, run):
    """A request that the server refuses has no answer to judge."""
    file = pytester.path / "refused.toml"
    for expect, outcome in (("", "failed"), (f'[expect]\n"{HEAD}" = {{ status = [400] }}\n', "passed")):
        file.write_text(REFUSED + expect)
        run("--cachesim").assert_outcomes(**{outcome: 1})


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


def test_a_file_of_any_name_is_collected_if_it_is_an_argument(pytester, run):
    put(pytester, GOOD, name="case.txt")
    assert run("--cachesim").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    run("--cachesim", "case.txt", "-v").stdout.fnmatch_lines([f"case.txt::{HEAD} PASSED*"])
    run("--cachesim", f"case.txt::{HEAD}").assert_outcomes(passed=1)
    pytester.makepyfile(test_other=f"TEXT = '''\n{GOOD.read_text()}'''\ndef test_other(): pass")
    run("--cachesim", "test_other.py", "case.txt").assert_outcomes(passed=2)


def test_a_misspelled_scenario_is_an_error_if_it_is_an_argument(pytester, run):
    put(pytester, GOOD, ("engine =", "engin ="))
    assert run("--cachesim").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result = run("--cachesim", GOOD.name)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*engin*"])


@pytest.mark.skipif(pytest.version_tuple < (8, 3), reason="-m selects by the arguments of markers since pytest 8.3")
def test_items_and_tests_are_chosen_by_engine_and_build(pytester, run):
    put(pytester, GOOD)
    run("--cachesim", "-m", "cachesim(build='b10587')", "--strict-markers").assert_outcomes(passed=1)
    write_test(pytester, "pass", '@pytest.mark.cachesim_builds("b9518", "vllm")')
    run("--cachesim", "-m", "cachesim(engine='vllm')").assert_outcomes(passed=1, deselected=2)


def write_test(pytester, body, head=""):
    """Write a test with the fixture ``simulate``."""
    pytester.makepyfile(test_it=f"import cachesim, pytest\n{head}\ndef test_it(simulate):\n    {body}\n")


def test_a_test_simulates_a_case(pytester, run):
    write_test(pytester, f"""run = simulate("{LINE}", profile="{NEWEST}", model="GA", server={{"parallel": 2}})
    assert run.profile == "{NEWEST}" and run.verdict.word == "correct" and run.mode == "exact"
    assert run == [{{"cache_n": 0}}, {{"cache_n": 96}}]
    assert [simulate("{LINE}", mode=mode).mode for mode in ("provenance", None)] == ["provenance", "exact"] """)
    run().assert_outcomes(passed=1)


def test_simulate_has_the_defaults_of_the_command_line(pytester, run):
    write_test(pytester, f'run = simulate("{LINE}"); assert (run.profile, run.mode) == ("{HEAD}", "provenance")')
    run("--cachesim-profile", HEAD, "--cachesim-mode", "provenance").assert_outcomes(passed=1)
    result = run("--cachesim-profile", HEAD, "--cachesim-profile", NEWEST, "-v")
    result.stdout.fnmatch_lines([f"*test_it?{HEAD}? FAILED*", f"*test_it?{NEWEST}? FAILED*"])


def test_a_test_runs_once_for_each_build_of_its_marker(pytester, run):
    write_test(pytester, f'assert simulate("{LINE}").profile.endswith(("@b9518", "@b11549", "@0.33.0"))',
               '@pytest.mark.cachesim_builds("b9518", "llama_cpp@b11549", "vllm")')  # fmt: skip
    result = run("-v", "--strict-markers", "--cachesim-profile", HEAD)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([f"*test_it?{name}? PASSED*" for name in ("llama_cpp@b9518", NEWEST, "vllm@0.33.0")])


def test_an_unknown_build_of_a_marker_is_an_error(pytester, run):
    write_test(pytester, "pass", '@pytest.mark.cachesim_builds("llama_cpp@nosuch")')
    run().stdout.fnmatch_lines(["*cachesim_builds: unknown profile 'llama_cpp@nosuch'*"])


def last_line(pytester, run, body):
    """Return pytest's summary of the failure of a test, and all of its output."""
    write_test(pytester, body)
    lines = run().outlines
    assert not any("cachesim/" in line for line in lines), "a frame of ours is shown"
    [last] = [line for line in lines if line.startswith("FAILED ")]
    return last.partition(" - ")[2].removeprefix("AssertionError: "), "\n".join(lines)


def test_a_failure_ends_in_a_line_with_the_case(pytester, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    last, _ = last_line(pytester, run, 'simulate("S40.A20/S.A>3/B9@0/S.A.C5", "ik_llama@1889-base", '
                        'model="GA", check=True)')  # fmt: skip
    assert last == ("cachesim.NotCorrect: S40.A20/S.A>3/B9@0/S.A.C5 under ik_llama@1889-base: wrong answer at "
                    "request 1, 60 tokens re-evaluated")  # fmt: skip
    last, _ = last_line(pytester, run, 'cachesim.judge("S4.A/", model="GA")')
    assert last.startswith("cachesim.BadInput: ") and "request 0" in last
    last, _ = last_line(pytester, run, """class Cache:
        def __init__(self):
            self.said = []
        def complete(self, prompt, n_predict):
            self.said.append(sum(prompt))
            return {"tokens": [self.said[-1] if len(self.said) < 3 else self.said[0]] * n_predict}
    cachesim.conform(Cache, max_examples=10)""")
    assert re.fullmatch(r"cachesim\.Nonconforming: A1/\S+: expected .*", last)
    last, _ = last_line(pytester, run, "cachesim.conform(3)")
    assert last.startswith("cachesim.BadInput: factory: expected a callable")


def test_a_difference_between_a_run_and_its_expectation_is_readable(pytester, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    mine = f'assert simulate("{LINE}", "{NEWEST}")'
    last, text = last_line(pytester, run, f'{mine} == [{{"cache_n": 1}}, {{"cache_n": 95}}]')
    assert last == f"assert {LINE} under {NEWEST}: cache_n of request 0 is 0, expected 1"
    assert "E         cache_n of request 1 is 96, expected 95" in text
    last, text = last_line(pytester, run, f'{mine} == simulate("{LINE}", "{HEAD}", model="A")')
    assert last.startswith(f"assert {LINE} under {NEWEST}: ")
    last, text = last_line(pytester, run, f"{mine} == 3")
    assert last.startswith("assert <JudgedRun of")


PAGE = (ROOT / "cachesim" / "pages" / "python.md").read_text()


def test_the_tests_of_the_page_run(pytester, run):
    [code] = re.findall(r"```python\n(import pytest\n.*?)```", PAGE, re.S)
    pytester.makepyfile(code)
    run("--strict-markers").assert_outcomes(passed=3)


def test_the_failures_of_the_page_are_those_of_pytest(pytester, run, monkeypatch):
    pytester.makepyfile(test_cache="""
        import cachesim
        from tests.conformance.naive import NaiveCache
        def test_reuse(simulate):
            assert simulate("S40.A60/S.A", "vllm@0.33.0") == [{"cache_n": 0}, {"cache_n": 64}]
        def test_mine():
            cachesim.conform(NaiveCache, max_examples=40)
        def test_answers(simulate):
            simulate("S40.A20/S.A>3/B9@0/S.A.C5", "ik_llama@1889-base", model="GA", check=True)
        def test_typo(simulate):
            simulate("S40.A20/S.B")
        """)
    monkeypatch.setenv("COLUMNS", "144")
    for name in ("CI", "BUILD_NUMBER"):          # pytest cuts no line of its summary where one of these is set
        monkeypatch.delenv(name, raising=False)
    printed = [line for line in run().outlines if line.startswith("FAILED ")]
    assert printed == [line for line in PAGE.splitlines() if line.startswith("FAILED ")]


def test_each_difference_of_a_result_is_explained_once():
    run = cachesim.run(LINE, NEWEST, model="GA")
    said = pytest_assertrepr_compare("==", run, [{"cache_n": 5}, {"cache_n": 7}])
    first, second = run.differences([{"cache_n": 5}, {"cache_n": 7}])
    assert said == [f"{run.title}: {first}", str(second)]
    assert pytest_assertrepr_compare("==", run, run) is pytest_assertrepr_compare("!=", run, []) is None
