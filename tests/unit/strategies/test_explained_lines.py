"""The explanation of a failure names no line of this package."""

from __future__ import annotations

import subprocess
import sys

from cachesim.strategies.explained_lines import PACKAGE
from tests.shared import ROOT

FAILING = """
from hypothesis import given, settings
from cachesim.strategies import conversations

@settings(database=None, derandomize=True)
@given(conversations())
def failing(conversation):
    if len(conversation.requests) > 1:
        print("one line of the test")
        raise ValueError
    assert len(conversation.requests[0].prompt) < 2, f"{conversation} fails"

failing()
"""


def test_an_explanation_names_no_line_of_the_package(tmp_path):
    """A conversation is printed only when a test fails: Hypothesis named the line that prints it as the reason."""
    file = tmp_path / "failing.py"
    file.write_text(FAILING)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, cwd=ROOT, check=False)
    explained = [part.partition("+--")[0] for part in done.stderr.split("Explanation:")[1:]]
    assert explained and not any(str(PACKAGE) in part for part in explained)
