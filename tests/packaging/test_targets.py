"""``make targets`` knows every target, and reports its result correctly."""

from __future__ import annotations

import importlib.util
import re
import subprocess

import pytest

from tests.shared import ROOT

SPEC = importlib.util.spec_from_file_location("targets", ROOT / ".ci" / "targets.py")
module = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(module)


def test_the_tables_name_targets_of_the_makefile_and_variables_that_it_reads():
    makefile, known = module.makefile(), module.targets()
    assert "help" in known and "targets" not in known and len(known) == len(set(known)) > 20
    assert {*module.SMALLEST, *module.OUTSIDE, *module.RENEWS} <= set(known)
    for target in known:
        words, _ = module.command(target)
        assert words[:2] == ["make", target]
        assert [word for word in words[2:] if f"$({word.partition('=')[0]})" not in makefile] == []


def listed(target: str) -> list[str]:
    """Return the targets that a target of the Makefile lists."""
    printed = subprocess.run(["make", "--no-print-directory", target], cwd=ROOT, capture_output=True, text=True)
    return re.findall(r"^make ([a-z-]+) ", printed.stdout, re.M)


def test_help_lists_the_targets_of_a_contributor_and_more_the_others():
    known = set(module.targets()) - {"help", "lint", "more", "peers-vllm", "peers-sglang"}
    contributor, others = listed("help"), listed("more")
    assert contributor[-1] == "more"
    assert sorted([*contributor[:-1], *others]) == sorted(known | {"targets"})


def test_missing_requirements_are_listed(monkeypatch):
    for name in ("OLD", "NEW", "LLAMA_SERVER"):
        monkeypatch.delenv(name, raising=False)
    assert module.command("live")[1] == "a real llama-server" and "/no/" in module.command("live")[0][-1]
    monkeypatch.setenv("OLD", "a")
    assert module.command("upstream") == (["make", "upstream"], "two trees of llama.cpp")
    monkeypatch.setenv("NEW", "b c")
    assert module.command("upstream") == (["make", "upstream", "OLD=a", "NEW=b c"], "")


@pytest.mark.parametrize("code, lines, absent, changed, result, said", [
    (0, ["fine"], "", "", "passed", ""),
    (0, ["Python 3.14: not on this machine, left out", "fine"], "", "", "passed", "absent: Python 3.14: not on this"),
    (0, ["fine"], "", " M README.md", "FAILED", "changes the checkout: M README.md"),
    (1, ["why", "make: *** [Makefile:1: x] Error 1"], "", "", "FAILED", "why"),
    (2, ["no chromium", "no tests ran in 1 s"], "a chromium", "", "absent", "a chromium: no chromium"),
    (0, ["fine"], "a chromium", "", "FAILED", "exit code 0 without a chromium"),
    (2, ["Traceback (most recent call last):", "OSError"], "a server", "", "FAILED", "OSError"),
])  # fmt: skip
def test_the_result_of_a_target(code, lines, absent, changed, result, said):
    got, why = module.judged(code, lines, absent, changed)
    assert got == result and why.startswith(said) and bool(why) == bool(said)
