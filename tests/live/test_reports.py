"""Tests that the worked reports match the commands' output and the simulator."""

from __future__ import annotations

import re
import sys

import pytest

from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.export.program_text import standalone_script
from cachesim.tools.live.llama_server.export.script import make_script
from tests.live.reports import CLASS_REPORTS, IK_REPORTS, KEYED_REPORTS, REPORTS, SERVERS

FOLDER = corpus_root() / "reports"


def code(text):
    """Return the executed lines of a script."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_what_the_commands_write(name):
    script = make_script(load(corpus_files()[REPORTS[name]]), SERVERS["b11549"])
    assert code((FOLDER / name / "case.sh").read_text("utf-8")) == code(standalone_script(script))
    issue = (FOLDER / name / "issue.md").read_text("utf-8")
    assert "\n".join(code(standalone_script(script))) in "\n".join(code(issue))
    assert "please fill in: the summary, in your own words" in issue and "WRONG: " in issue
    assert "llama_cpp@b11549-repaired" in issue and "\n```console\n... request" in issue


@pytest.mark.parametrize("name", REPORTS)
def test_what_a_report_proves(name):
    scenario = load(corpus_files()[REPORTS[name]])
    broken = [run_judged(scenario, profile, "provenance", with_ledger=False).broken for profile in SERVERS.values()]
    assert broken[0] and not broken[1]
    proof = (FOLDER / name / "proof.txt").read_text("utf-8")
    shown, mended = proof.split("b11549-repaired/llama-server sh case.sh")
    assert "THE FAULT SHOWS\nexit status 1" in shown and "the fault does not show\nexit status 0" in mended
    assert proof.count("=> same\nexit status 0") == 2


@pytest.mark.parametrize("name", IK_REPORTS)
def test_a_report_about_ik_llama(name):
    scenario = load(corpus_files()[IK_REPORTS[name]])
    script = standalone_script(make_script(scenario, "ik_llama@main"))
    assert code((FOLDER / name / "case.sh").read_text("utf-8")) == code(script)
    broken = [run_judged(scenario, f"ik_llama@{rules}", "provenance", with_ledger=False).broken
              for rules in ("main", "main-repaired")]  # fmt: skip
    assert broken == [[3], []]
    shown, changed = (FOLDER / name / "proof.txt").read_text("utf-8").split("# llama_decode_internal calls")
    assert shown.count("THE FAULT SHOWS\nexit status 1") == 2 == changed.count("the fault does not show\nexit status 0")
    assert "8337e4cd3" in shown


COMMON_PART = re.compile(r"# Files: GGUF version 3.*# End of the common part", re.DOTALL)


def test_the_reports_about_adapters_and_images_share_their_server():
    programs = [(FOLDER / name / "case.py").read_text("utf-8") for name in KEYED_REPORTS]
    assert len({COMMON_PART.search(text)[0] for text in programs}) == 1
    assert all(name in sys.stdlib_module_names for text in programs
               for name in re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE))  # fmt: skip


@pytest.mark.parametrize(("name", "wrong"), [("plain-adapters", (6, 0)), ("activated-adapters", (9, 1))])
def test_wrong_answers_before_and_after_a_change(name, wrong):
    _, *proofs = (FOLDER / name / "proof.txt").read_text("utf-8").split("$ LLAMA_SERVER=")
    assert [proof.partition("/")[0] for proof in proofs] == ["b11549", KEYED_REPORTS[name][1]]
    assert tuple(proof.count("\nWRONG ") for proof in proofs) == wrong
    assert all(f"exit status {int(number > 0)}" in proof for proof, number in zip(proofs, wrong, strict=True))


def test_requests_end_a_server_before_and_not_after_a_change():
    proof = (FOLDER / "requests-that-end-the-server" / "proof.txt").read_text("utf-8")
    _, before, after = proof.split("$ LLAMA_SERVER=")
    assert [line.split(",")[0].split()[-1] for line in before.splitlines() if line.startswith("THE SERVER ENDED")] == [
        "M1", "M3", "M4"]  # fmt: skip
    assert "FOREIGN OUTPUT" in before and "ENDED" not in after and "FOREIGN" not in after and "exit status 0" in after


def test_every_report_is_there_and_no_other():
    every = {**REPORTS, **IK_REPORTS, **{name: scenario for name, (scenario, _) in KEYED_REPORTS.items()},
             **dict.fromkeys(CLASS_REPORTS, "")}  # fmt: skip
    assert {one.name for one in FOLDER.iterdir() if one.is_dir()} == set(every)
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert all(f"[{name}]({name}/issue.md) | `{scenario}`" in readme for name, scenario in every.items() if scenario)
    assert all(f"[{name}]({name}/issue.md) |" in readme for name in every)
