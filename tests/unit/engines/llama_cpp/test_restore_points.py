"""Are the reported restore points those lengths at which every row and state that the next token reads is present?"""

from __future__ import annotations

import pytest

from tests.unit.engines.llama_cpp.talk import Talk, word
from tests.unit.engines.restore_points import Reported, conversations, differences

LONG = word("S", 300)


def listened(kind, **flags):
    """A server and the restore points that it reports."""
    talk, told = Talk(kind, "head", ctx_size=1024, **flags), Reported()
    talk.log.listener = told
    return talk, told


def talks(kind):
    """Servers with live slots, checkpoints and entries, of which a ring has lost its first rows."""
    for prompts in ([LONG], [LONG, LONG[:290] + word("x", 9)], [LONG, word("B", 40), LONG + word("y", 20)]):
        talk, told = listened(kind, ctx_checkpoints=4, checkpoint_min_step=0)
        for prompt in prompts:
            talk.ask(prompt, 2)
        yield talk, told


@pytest.mark.parametrize("kind", ["A", "W", "W8 W8", "R", "H", "HW"])
def test_a_point_has_all_lengths_at_which_nothing_is_missing(kind):
    kinds = set()
    for talk, told in talks(kind):
        assert differences(told, talk.server) == []
        assert any(place.own.lengths for place in conversations(talk.server))
        kinds |= {key[0] for key in told.points if told.lengths(key)}
    assert {"slot", "entry"} <= kinds
    assert kind == "A" or any("checkpoint" in one for one in kinds)


def test_a_ring_that_has_lost_rows_begins_a_window_behind_them():
    talk, told = listened("W", ctx_checkpoints=0)
    talk.ask(LONG, 1)
    first = min(talk.server.live(0).rows[1].pos)
    assert first > 0
    assert told.spans("slot") == [(300, first + 7, 300)]
