"""A new build costs its rules, its rule set and its place in the history: nothing else has to be edited.

Fictional newest builds of all engines are added to a copy of the tree. The tests that look at the newest build, or at
all of them, then pass in the copy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from cachesim.engines.registry import BUILTIN
from tests.new_build.additions import ADDITIONS, add_build
from tests.shared import ROOT

pytestmark = pytest.mark.long

MOST = 3                # edited files: rules, rule set, history
LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", ".git", ".venv*", ".*_cache", ".hypothesis", "*.egg-info", "build", "dist", "new_build",
)  # fmt: skip
CORPUS = "tests/scenarios/test_corpus.py"
CHECKS = (
    "tests/house/test_faults.py", "tests/house/test_signatures.py", "tests/house/test_sources.py",
    "tests/docs/test_lessons.py", "tests/docs/test_newest.py", "tests/docs/test_readme.py",
    "tests/evidence/test_outcomes_table.py",
    f"{CORPUS}::test_corpus_is_not_empty_and_names_every_profile",
    f"{CORPUS}::test_rules_of_builds_that_no_scenario_names_are_asked_there",
    f"{CORPUS}::test_the_tables_beside_the_files_are_right",
    "tests/scenarios/test_plain_rules.py::test_rules_of_builds_that_no_scenario_names_are_asked_there",
    "tests/scenarios/test_sentences.py::test_every_rule_of_the_newest_builds_has_a_sentence",
    "tests/scenarios/test_lives.py", "tests/unit/cli/test_names.py", "tests/unit/engines/test_build_names.py",
    "tests/unit/engines/llama_cpp/test_history.py", "tests/unit/engines/llama_cpp/test_newer.py",
    "tests/unit/engines/llama_cpp/test_builds.py", "tests/unit/engines/mlx_lm/test_profiles.py",
    "tests/unit/engines/ik_llama/test_rules.py", "tests/unit/engines/vllm/test_releases.py",
    "tests/unit/scenarios/test_lives.py", "tests/unit/tools/playground/test_case.py",
    "tests/unit/tools/rulebook/test_explain_command.py", "tests/unit/tools/server_logs/test_import_log.py",
)
"""Tests of scenarios, documents, grades, rules and names that a new build could make wrong."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Return a copy of the checkout with a new build of every engine, and the files edited for each."""
    tree = tmp_path_factory.mktemp("new-builds") / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    edited = {name: add_build(tree, name, engine.line[-1]) for name, engine in BUILTIN.items()}
    return tree, edited


def called(tree, *words):
    """Return the exit code and the output of a Python module that runs in a tree."""
    done = subprocess.run([sys.executable, "-m", *words], cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize("engine", BUILTIN)
def test_a_build_is_at_most_three_files(tree, engine):
    assert 1 <= len(tree[1][engine]) <= MOST


def test_the_new_builds_are_the_newest(tree):
    code, out = called(tree[0], "cachesim", "--version")
    assert code == 0 and out.splitlines()[-1].split(", ") == [ADDITIONS[name].name for name in BUILTIN]


def test_a_new_rule_decides(tree):
    """Two checkpoints are erased where the build before erases one."""
    case = ("A20/A.B20/A.B.C20/A.B.C.D20/A.B.F9", "--model", "S", "-np", "1")
    settings = ("--set", "ctx_checkpoints=3", "--set", "checkpoint_min_step=0")
    profiles = ("-p", BUILTIN["llama_cpp"].newest, "-p", "latest")
    code, out = called(tree[0], "cachesim", "diff", *case, *settings, *profiles)
    assert code in (0, 1) and "ckpt_limit: LC-CKPT-LIMIT.OLDEST -> LC-CKPT-LIMIT.TWO (#99001)" in out
    assert "first difference at request 1" in out


DEMANDED = """
from tests.scenarios import test_corpus, test_plain_rules, test_sentences
print(*sorted(set().union(*test_corpus.NEWER.values())))
plain = map(test_plain_rules.demanded, test_plain_rules.PREFIXES)
print(*test_corpus.demanded().union(test_sentences.demanded(), *plain))
"""
"""Prints the rules of builds that no scenario names, and all that scenarios have to ask or that need a sentence."""


def test_no_scenario_and_no_sentence_of_a_new_rule_is_demanded(tree):
    """The tests that demand them run all scenarios, in the checkout alone."""
    done = subprocess.run([sys.executable, "-c", DEMANDED], cwd=tree[0], stdout=subprocess.PIPE, text=True, check=True)
    newer, demanded = (line.split() for line in done.stdout.splitlines())
    added = {re.search(r'@rule\("([^"]+)"', one.code)[1] for one in ADDITIONS.values()}
    assert set(newer) == added and len(demanded) > 500 and not added & set(demanded)


def test_nothing_else_has_to_be_edited(tree):
    code, out = called(tree[0], "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *CHECKS)
    assert (code, "") == (0, ""), out[-4000:]
