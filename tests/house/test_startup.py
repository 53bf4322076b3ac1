"""``cachesim --help`` imports no heavy module, and a command imports only the engines that it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

OURS = {
    "cachesim",
    "cachesim.cli.main",
    "cachesim.base",
    "cachesim.base.ending",
    "cachesim.base.errors",
    "cachesim.base.exits",
    "cachesim.cli",
    "cachesim.cli.command_list",
}
HEAVY = {"numpy", "rich", "hypothesis", "shtab"}


def loaded(*argv: str) -> set[str]:
    """Names of the modules that are loaded after the command line ran in a process of its own."""
    code = (
        "import sys\nfrom cachesim.cli.main import main\n"
        f"try:\n    main({list(argv)!r})\nexcept SystemExit:\n    pass\n"
        "print('MODULES', *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.rpartition("MODULES")[2].split())


def test_help_imports_only_the_frame():
    names = loaded("--help")
    assert {name for name in names if name.partition(".")[0] == "cachesim"} == OURS
    assert names & HEAVY == set()


@pytest.mark.parametrize("argv", [["rum"], ["profiles", "--nonsense"]], ids=str)
def test_usage_is_light(argv):
    assert loaded(*argv) & HEAVY == set()


MOST_MODULES = {
    ("--version",): 26,
    ("run", "--help"): 30,
    ("explain", "n_past"): 25,
    ("options", "vllm"): 125,
    ("run", "A5"): 236,
    ("run", "A5", "-p", "vllm"): 220,
}
"""Command -> most modules of ours that it may import. Each costs about half a millisecond of every start."""
WITHOUT_RULES = [("--version",), ("explain", "n_past"), ("options", "vllm")]
"""Commands that import the rules of no engine."""


@pytest.mark.parametrize("argv", MOST_MODULES, ids=" ".join)
def test_the_number_of_imported_modules_is_bounded(argv):
    ours = {name for name in loaded(*argv) if name.partition(".")[0] == "cachesim"}
    assert len(ours) <= MOST_MODULES[argv]
    rules = {name for name in ours if name.startswith("cachesim.engines.") and name.endswith(".profiles")}
    assert rules == set() or argv not in WITHOUT_RULES


def test_a_command_imports_the_engine_that_it_needs():
    names = loaded("run", "llama-24143-entry-removed-dense", "-p", "llama_cpp@b10587")
    assert "cachesim.engines.llama_cpp" in names
    assert names & {"cachesim.engines.ik_llama", "cachesim.engines.mlx_lm"} == set()
