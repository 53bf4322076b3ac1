"""Tests that the worked reports match the commands' output and the simulator."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache

import pytest

from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.export.affected_versions import newest_seen
from tests.live.build import BUILDS, HERE
from tests.live.reports import (
    CLASS_REPORTS,
    EXPORTED_REPORTS,
    IK_REPORTS,
    KEYED_REPORTS,
    ORDER_REPORTS,
    PROGRAMS,
    REPORTS,
    SCRIPT_BLOCK,
    SERVERS,
    command_of,
    program_digest,
    said,
)

FOLDER = corpus_root() / "reports"
exported = cache(said)
"""What a command prints, and its exit code."""
README = (FOLDER / "README.md").read_text("utf-8")
COMMANDS = re.findall(r"^(cachesim export \S+ --to (?:script|pytest) .*) > ([\w./-]+)$", README, re.MULTILINE)
DIGESTS = {file: digest for digest, file in (line.split("  ") for line in
           (FOLDER / "programs.sha256").read_text("utf-8").splitlines())}  # fmt: skip


@pytest.mark.parametrize(("command", "file"), COMMANDS, ids=[file for _, file in COMMANDS])
def test_a_command_of_the_readme_writes_the_program_with_the_stored_digest(command, file):
    program, code = exported(*command.split()[1:])
    assert code == 0
    assert program_digest(program) == DIGESTS[file], "changed program: python -m tests.live.reports"
    assert f"{command} > {file.rpartition('/')[2]}" == command_of(file)


def test_every_generated_program_has_a_command_and_a_digest_and_is_not_stored():
    assert {file for _, file in COMMANDS} == set(PROGRAMS) == set(DIGESTS)
    stored = {file.parent.name for file in FOLDER.glob("*/case.*")}
    assert stored == {*KEYED_REPORTS, *CLASS_REPORTS, *ORDER_REPORTS}


def test_a_digest_depends_on_every_line_but_comments():
    program, _ = exported(*PROGRAMS["stale-checkpoint/case.sh"])
    lines = program.splitlines(keepends=True)
    comments = [number for number, line in enumerate(lines) if line.startswith("#")]
    assert comments[:8] == list(range(8))
    for number in {*comments, *range(0, len(lines), 9)}:
        changed = "".join([*lines[:number], *lines[number + 1 :]])
        assert (program_digest(changed) == program_digest(program)) == (number in comments)


@pytest.mark.parametrize("name", REPORTS)
def test_an_issue_names_the_command_that_writes_its_program(name):
    issue = (FOLDER / name / "issue.md").read_text("utf-8")
    assert f"\n```sh\n{command_of(f'{name}/case.sh')}\n```\n" in issue
    assert "please fill in: the summary, in your own words" in issue and "WRONG: " in issue
    assert "llama_cpp@b11549-repaired" in issue and "\n```console\n... request" in issue


def test_an_exported_issue_has_the_program():
    name = next(iter(REPORTS))
    written, code = said("export", REPORTS[name], "--to", "issue")
    assert code == 0
    assert [program_digest(block) for block in SCRIPT_BLOCK.findall(written)] == [DIGESTS[f"{name}/case.sh"]]


@pytest.mark.parametrize("name", REPORTS)
def test_what_a_report_proves(name):
    scenario = load(corpus_files()[REPORTS[name]])
    broken = [run_judged(scenario, profile, "provenance", with_ledger=False).broken for profile in SERVERS.values()]
    assert broken[0] and not broken[1]
    proof = (FOLDER / name / "proof.txt").read_text("utf-8")
    shown, mended = proof.split("b11549-repaired/llama-server sh case.sh")
    assert "THE FAULT SHOWS\nexit status 1" in shown and "the fault does not show\nexit status 0" in mended
    assert proof.count("=> same\nexit status 0") == 2


@pytest.mark.parametrize(("name", "scenario"), [
    *REPORTS.items(), *((name, scenario) for name, (scenario, _) in KEYED_REPORTS.items() if scenario)])  # fmt: skip
def test_a_report_names_the_newest_wheel_that_shows_its_fault(name, scenario):
    [line] = newest_seen(load(corpus_files()[scenario]))
    assert line in (FOLDER / name / "issue.md").read_text("utf-8"), line


@pytest.mark.parametrize("name", IK_REPORTS)
def test_a_report_about_ik_llama(name):
    assert f"    {command_of(f'{name}/case.sh')}\n" in (FOLDER / name / "issue.md").read_text("utf-8")
    scenario = load(corpus_files()[IK_REPORTS[name]])
    broken = [run_judged(scenario, f"ik_llama@{rules}", "provenance", with_ledger=False).broken
              for rules in ("main", "main-repaired")]  # fmt: skip
    assert broken == [[3], []]
    shown, changed = (FOLDER / name / "proof.txt").read_text("utf-8").split("# llama_decode_internal calls")
    assert shown.count("THE FAULT SHOWS\nexit status 1") == 2 == changed.count("the fault does not show\nexit status 0")
    assert "8337e4cd3" in shown


@pytest.mark.parametrize("name", EXPORTED_REPORTS)
def test_a_report_with_exported_tests(name):
    issue, proof = ((FOLDER / name / file).read_text("utf-8") for file in ("issue.md", "proof.txt"))
    assert all(f"    {command_of(file)}\n" in issue for file in PROGRAMS if file.startswith(f"{name}/"))
    command, *outcomes, result = proof.splitlines()
    assert command == f"$ python -m tests.peers.sglang_exported sglang-0.5.23 {' '.join(EXPORTED_REPORTS[name])} -v"
    for scenario in EXPORTED_REPORTS[name]:
        shown, mended = (one.rpartition(f"{scenario}, repaired numbers on the ")[2] for one in outcomes
                         if one.startswith(f"{scenario}, "))  # fmt: skip
        assert shown.startswith("release: ") and "Error: " in shown and mended == "repaired release: passes"
        broken = [run_judged(load(corpus_files()[scenario]), f"sglang@0.5.23{rules}", "provenance",
                             with_ledger=False).broken for rules in ("", "-repaired")]  # fmt: skip
        assert broken[0] and not broken[1]
    assert result.endswith("0 wrong outcomes")


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


@pytest.mark.parametrize("name", ORDER_REPORTS)
def test_a_report_about_an_order_has_a_control_and_a_tried_change(name):
    _, *proofs = (FOLDER / name / "proof.txt").read_text("utf-8").split("$ LLAMA_SERVER=")
    assert [proof.partition("/")[0] for proof in proofs] == ["b11549", ORDER_REPORTS[name][1]]
    before, after = (re.findall("^.*fault.*$", proof, re.IGNORECASE | re.MULTILINE) for proof in proofs)
    assert before == ["THE FAULT SHOWS", "the fault does not show"] and set(after) == {before[1]}
    assert "exit status 1" in proofs[0] and "exit status 0" in proofs[1]
    issue = (FOLDER / name / "issue.md").read_text("utf-8")
    assert all(line in issue for proof in proofs for line in proof.splitlines()[1:3])


@pytest.mark.parametrize("name", ORDER_REPORTS)
def test_a_report_about_an_order_shows_the_change_that_was_built(name):
    issue = (FOLDER / name / "issue.md").read_text("utf-8")
    (edit,) = tomllib.loads((HERE / BUILDS[ORDER_REPORTS[name][1]].edits).read_text("utf-8"))["edit"]
    for sign, text in (("-", edit["at"]), ("+", edit["by"])):
        assert f"{sign}{text.splitlines()[-1]}" in issue


def test_every_report_is_there_and_no_other():
    every = {**REPORTS, **IK_REPORTS, **{name: scenario for name, (scenario, _) in KEYED_REPORTS.items()},
             **{name: ids[0] for name, ids in EXPORTED_REPORTS.items()},
             **dict.fromkeys((*CLASS_REPORTS, *ORDER_REPORTS), "")}  # fmt: skip
    assert {one.name for one in FOLDER.iterdir() if one.is_dir()} == set(every)
    assert all(f"[{name}]({name}/issue.md) | `{scenario}`" in README for name, scenario in every.items() if scenario)
    assert all(f"[{name}]({name}/issue.md) |" in README for name in every)
