"""A line is cut into steps at slashes outside braces, in time that grows with its length."""

from __future__ import annotations

import pytest

from cachesim.scenarios.notation.parse import steps_of


@pytest.mark.parametrize(("line", "steps"), [
    ("", [""]), (" A ", ["A"]), ("A/B", ["A", "B"]), ("/", ["", ""]), ("A{a/b}/C", ["A{a/b}", "C"]),
    ("{a/b}", ["{a/b}"]),
    ("A/{save@0 f}/{restore@0 f}/B", ["A", "{save@0 f}", "{restore@0 f}", "B"]), ("a{b/c", ["a{b", "c"]),
    ("a/b}c/d", ["a/b}c", "d"]), ("{/{/}/}", ["{", "{/}/}"]), ("{}/{}", ["{}", "{}"]),
])  # fmt: skip
def test_steps_of_a_line(line, steps):
    assert [part.text for part in steps_of(line)] == steps
    assert all(line[part.at :].startswith(part.text) for part in steps_of(line))


@pytest.mark.long
@pytest.mark.parametrize("line", ["/" * 1_000_000, "{/" * 500_000, "/}" * 500_000, "a{/}/" * 200_000],
                         ids=["slashes", "open", "closed", "pairs"])  # fmt: skip
def test_a_long_line_is_cut_in_time(line):
    """Half an hour, if every slash looked for its brace."""
    assert len(steps_of(line)) >= 1
