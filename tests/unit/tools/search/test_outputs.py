"""Whole outputs of commands of this tool, and their exit codes."""

from __future__ import annotations

import pytest

from tests.unit.tools.printed_outputs import printed, read

OUTPUTS = read("search")


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_command_prints_what_the_file_shows(command: str) -> None:
    assert printed(command) == OUTPUTS[command]
