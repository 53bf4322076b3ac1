"""The explanation of a failure names no line of this package."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from cachesim.strategies import conversations
from cachesim.strategies.explained_lines import PACKAGE


@settings(database=None, derandomize=True)
@given(conversations(max_requests=2, max_prompt=3))
def failing(conversation):
    if len(conversation.requests) > 1:
        print("one line of the test")
        raise ValueError
    assert len(conversation.requests[0].prompt) < 2, f"{conversation} fails"


def test_an_explanation_names_no_line_of_the_package():
    """A conversation is printed only when a test fails: Hypothesis named the line that prints it as the reason."""
    with pytest.raises(ExceptionGroup) as found:
        failing()
    explained = [note for error in found.value.exceptions for note in error.__notes__ if __file__ in note]
    assert explained and not any(str(PACKAGE) in note for error in found.value.exceptions for note in error.__notes__)
