"""The two steps of "A flag" in CONTRIBUTING add a flag that every command knows."""

from __future__ import annotations

import filecmp
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from textwrap import dedent

import pytest

from tests.docs.examples import ROOT

SECTION = re.search(r"\n### A flag\n(.*?)\n##", (ROOT / "CONTRIBUTING.md").read_text(), re.S)[1]
STEPS = [dedent(step) for step in re.findall(r" *```diff\n(.*?) *```", SECTION, re.S)]
SET, TYPED, OPTIONS, EXPLAIN, ADVISE = (
    ["-m", "cachesim", *shlex.split(words)] for words in re.findall(r"^python -m cachesim (.*)$", SECTION, re.M)
)
HELP = re.search(r'^\+ +help="(.*?)"', STEPS[0], re.M)[1]
LINES = """
import json
from cachesim.engines.llama_cpp.flags import read_flags, write_flags
read = read_flags(["-np", "2", "--cache-prompt-max", "20", "-c", "512"]).options
print(json.dumps([read, write_flags(read)]))
"""


def take(tree, step):
    """Change a file as a step says: the lines with a plus stand where they stand between the others."""
    head, *lines = step.splitlines()
    old, new = ("".join(f"{line[1:]}\n" for line in lines if line[:1] != sign) for sign in "+-")
    path = tree / head.removeprefix("--- ")
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Run Python in a copy of the checkout that has the new flag; return what it prints."""
    tree = tmp_path_factory.mktemp("flag")
    shutil.copytree(ROOT / "cachesim", tree / "cachesim", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("scenarios", "pyproject.toml"):
        (tree / name).symlink_to(ROOT / name)
    for step in STEPS:
        take(tree, step)

    def run(*words):
        done = subprocess.run([sys.executable, *words], cwd=tree, capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"})  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    run.tree = tree
    return run


def kept(out):
    [judged] = json.loads(out)["runs"]
    return [request["cache_n"] for request in judged["requests"]]


def test_two_files_of_the_package_differ(python):
    files = [str(path.relative_to(python.tree)) for path in (python.tree / "cachesim").rglob("*.py")]
    assert len(files) > 400
    _, changed, missing = filecmp.cmpfiles(python.tree, ROOT, files, shallow=False)
    assert (sorted(changed), missing) == (sorted(step.split()[1] for step in STEPS), [])
    assert len(changed) == 2


@pytest.mark.long
def test_the_flag_changes_what_a_request_keeps(python):
    assert kept(python(*SET, "--json")) == [0, 20]
    assert kept(python(*SET[: SET.index("--set")], "--json")) == [0, 60]


@pytest.mark.long
def test_the_command_line_of_a_server_sets_it(python):
    assert kept(python(*TYPED, "--json")) == [0, 20]
    read, written = json.loads(python("-c", LINES))
    assert read == {"parallel": 2, "cache_prompt_max": 20, "ctx_size": 512}
    assert written == ["-c", "512", "-np", "2", "--cache-prompt-max", "20"]


@pytest.mark.long
def test_reports_name_it_with_its_help(python):
    assert f"--cache-prompt-max N\n      cache_prompt_max: default 0; at least 0\n      {HELP}" in python(*OPTIONS)
    assert f"--cache-prompt-max: {HELP}" in " ".join(python(*EXPLAIN).split())


@pytest.mark.long
def test_advice_tries_it(python):
    advice = json.loads(python(*ADVISE, "--json"))["advise"][0]["advice"]
    options = [option for one in advice for change in one["changes"] for option in change["options"]]
    assert {"name": "cache_prompt_max", "value": 0} in options
