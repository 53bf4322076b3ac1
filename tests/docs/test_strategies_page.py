"""The examples of strategies.md find their planted faults, soon, and print what the page shows."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from cachesim.base import exits
from cachesim.strategies import CacheFault
from tests.docs.examples import PAGES, ROOT
from tests.docs.strategy_examples import EXAMPLE, loaded

PAGE = (PAGES / "strategies.md").read_text()
FOUND = {found["file"]: found for found in EXAMPLE.finditer(PAGE)}
LATER = [pytest.param(file, marks=pytest.mark.long) for file in ("test_blocks.py", "test_my_rules.py")]


def module(file):
    return loaded(file, FOUND[file]["code"])


def in_new_process(file):
    """Return what an example prints, and after how many examples it fails. What other tests registered is not there:
    rules and rule sets decide what is drawn."""
    done = subprocess.run([sys.executable, "-c", RUN, file], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


RUN = """
import json
import sys
from tests.docs.strategy_examples import failure
from tests.docs.test_strategies_page import FOUND
print()
print(json.dumps(failure(sys.argv[1], FOUND[sys.argv[1]]["code"])))
"""


def test_there_are_three_examples():
    assert list(FOUND) == ["test_my_cache.py", "test_blocks.py", "test_my_rules.py"]


@pytest.mark.long
@pytest.mark.parametrize("file", ["test_my_cache.py", *LATER])
def test_an_example_finds_its_fault_and_prints_what_the_page_shows(file):
    printed, examples = in_new_process(file)
    assert printed == FOUND[file]["printed"]
    assert examples <= 200


def test_the_cache_with_a_fault_has_at_most_forty_lines():
    code = FOUND["test_my_cache.py"]["code"]
    assert len(code.strip().splitlines()) <= 46
    assert len(code.partition("class MyCache")[2].partition("@given")[0].splitlines()) <= 40


def test_the_block_manager_without_the_fault_passes():
    machine = module("test_blocks.py").BlockMachine
    fixed = settings(derandomize=True, deadline=None, database=None, max_examples=10, stateful_step_count=12,
                     phases=[Phase.generate])  # fmt: skip
    run_state_machine_as_test(machine, settings=fixed)


def test_the_printed_call_repeats_the_run():
    line = re.search(r"FaultyMachine\.repeat\('(.*?)'\)", FOUND["test_blocks.py"]["printed"])[1]
    with pytest.raises(CacheFault, match="differs from a cold run"):
        module("test_blocks.py").FaultyMachine.repeat(line)
    module("test_blocks.py").BlockMachine.repeat(line)


@pytest.mark.long
def test_the_printed_command_repeats_the_failure(tmp_path):
    """The command runs the rule set in the test file. It has a process of its own, because it registers a rule."""
    found = FOUND["test_my_rules.py"]
    (tmp_path / "test_my_rules.py").write_text(found["code"])
    words = shlex.split(re.search(r"^again: cachesim (.*)$", found["printed"], re.M)[1])
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "cachesim", *words]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == exits.BROKEN, done.stderr
    assert "wrong answer at r" in done.stdout
