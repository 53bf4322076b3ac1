"""Are the restore points those lengths at which every row and state that the next token reads is present?"""

from __future__ import annotations

import pytest

from tests.unit.engines.llama_cpp.talk import Talk, word

LONG = word("S", 300)


def talks(kind):
    """Servers with live slots, checkpoints and entries, of which a ring has lost its first rows."""
    for prompts in ([LONG], [LONG, LONG[:290] + word("x", 9)], [LONG, word("B", 40), LONG + word("y", 20)]):
        talk = Talk(kind, "head", ctx_size=1024, ctx_checkpoints=4, checkpoint_min_step=0)
        for prompt in prompts:
            talk.ask(prompt, 2)
        yield talk


def usable(point):
    """All lengths at which nothing is missing, told row by row."""
    stored = point.stored
    lengths = range(1, len(stored.tokens) + 1)
    if stored.state is not None:
        lengths = [n for n in lengths if n == stored.state.pos + 1]
    return [n for n in lengths if all(
        set(range(max(0, n - part.window + 1) if part.window else 0, n)) <= set(part.pos.tolist())
        for part in stored.rows
    )]  # fmt: skip


@pytest.mark.parametrize("kind", ["A", "W", "W8 W8", "R", "H", "HW"])
def test_a_point_has_all_lengths_at_which_nothing_is_missing(kind):
    kinds = set()
    for talk in talks(kind):
        for point in talk.server.points():
            kinds.add(point.stored.kind)
            assert list(range(point.lo, point.hi + 1)) == usable(point)
    assert {"slot", "entry"} <= kinds
    assert kind == "A" or any("checkpoint" in one for one in kinds)


def test_a_ring_that_has_lost_rows_begins_a_window_behind_them():
    talk = Talk("W", "head", ctx_size=1024, ctx_checkpoints=0)
    talk.ask(LONG, 1)
    [point] = talk.server.points()
    first = min(point.stored.rows[1].pos)
    assert first > 0
    assert (point.lo, point.hi) == (first + 7, 300)
