"""The explanation of a failure names no line of this package."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings

from cachesim.strategies import conversations
from cachesim.strategies.explained_lines import PACKAGE


@settings(database=None, phases=tuple(Phase), derandomize=True)
@given(conversations())
def a_failing_test(conversation):
    assert len(conversation.requests) < 2, f"{conversation} fails"


def test_an_explanation_names_no_line_of_the_package():
    """A conversation is printed only when a test fails: Hypothesis named the line that prints it as the reason."""
    with pytest.raises(AssertionError) as found:
        a_failing_test()
    notes = "\n".join(found.value.__notes__)
    assert "conversation=" in notes and str(PACKAGE) not in notes
