"""What the ledger records of each restore point, from its report until its loss."""

from __future__ import annotations

import pytest

from cachesim.engines.inspection import TokenPrefix
from cachesim.events import Declined, Release
from cachesim.judging.restore_point_index import nearest_decline
from tests.unit.judging.ledger_story import (
    CREATE,
    ERASE,
    LOAD,
    SAID,
    SELECT,
    SLOT,
    WHOLE,
    Story,
    charges,
    row_part,
)

LIMIT = "LC-PC-UPDATE.PC6"
UNUSABLE = (1, 0)


def usable(story, kind="slot"):
    """Return the lengths at which the present restore points of a kind are usable."""
    known = [one for one in story.ledger.present.values() if one.kind == kind]
    return sorted({n for one in known for n in range(one.lo, one.hi + 1, one.step)})


def test_a_restore_point_under_a_known_key_takes_the_former_lengths_away():
    """The entry is cut to four tokens. The new event names the cause and the rule."""
    story = Story()
    story.ledger.begin(0)
    story.point("entry", 8, "stored")
    story.point("entry", 4, "truncated", ERASE)
    ledger = story.settle((*SAID[:8], 7), 4, request=1)
    assert charges(ledger) == [(4, "truncated", ERASE, 0, "entry")]
    assert len(story.ledger.present) == len(story.ledger.snapshots) == 1


def test_a_restore_point_that_is_reported_again_as_it_was_is_not_lost():
    story = Story()
    story.point("entry", 8, "stored")
    [first] = story.ledger.present.values()
    story.point("entry", 8, "overwritten", LOAD)
    assert [*story.ledger.present.values()] == [first] and first.lost is None and first.seen == 1
    story.lose("entry", "evicted", LIMIT)
    assert first.lost.rule == LIMIT and not story.ledger.present


def test_a_longer_state_keeps_none_of_its_former_lengths():
    """A running slot grows from 6 to 8 tokens. Its rows are usable at every length, the previous point is lost."""
    story = Story()
    story.point("slot", 6)
    story.point("slot", 8, start=6, after=SLOT)
    lost = [known for known in story.ledger.radix.root.notes.ranged if known.lost is not None]
    assert [(one.hi, one.lost.cause) for one in lost] == [(6, "evaluated")]
    assert usable(story) == [*range(1, 9)]


def test_two_objects_that_are_one_restore_point_are_lost_with_the_second():
    story = Story()
    story.ledger.begin(0)
    story.point("entry", 6, "stored", number=1)
    story.point("entry", 6, "stored", number=2)
    [known] = story.ledger.present.values()
    assert known.seen == 2
    story.lose("entry", "evicted", LIMIT, number=1)
    assert known.lost is None and story.ledger.present
    assert charges(story.settle((*SAID[:6], 7), 0, (LOAD, None))) == [(6, "not chosen", LOAD, -1, "entry")]
    story.lose("entry", "consumed", ERASE, number=2)
    assert not story.ledger.present and not story.ledger.snapshots
    assert charges(story.settle((*SAID[:6], 7), 0, request=2)) == [(6, "consumed", ERASE, 1, "entry")]


def test_objects_of_another_kind_or_length_are_other_restore_points():
    story = Story()
    story.point("entry", 6, "stored")
    story.point("checkpoint", 6)
    story.point("entry", 6, "stored", number=2, lengths=(4, 6), step=2)
    story.point("entry", 6, "stored", number=3, lengths=(4, 6))
    story.point("entry", 6, "stored", number=4, tokens=(*SAID[:5], 7))
    story.point("entry", 8, "stored", number=5, lengths=(6, 6))
    assert [one.seen for one in story.ledger.present.values()] == [1] * 6


def test_a_restart_loses_everything():
    story = Story()
    story.point("entry", 4, "stored")
    story.point("checkpoint", 6)
    story.point("slot", 8)
    story.ledger.record(Release(0, 0, 8, 0))
    story.ledger.begin(1)
    story.ledger.restart()
    assert not story.ledger.snapshots and not story.ledger.present and not story.ledger.live
    for shared, kind in [(4, "entry"), (6, "checkpoint"), (8, "slot")]:
        assert charges(story.settle((*SAID[:shared], 7), 0, request=2))[-1] == (shared, "restarted", "", 1, kind)
    story.point("entry", 4, "stored")
    assert charges(story.settle((*SAID[:4], 7), 0, (LOAD, None), request=3)) == [(4, "not chosen", LOAD, -1, "entry")]


def test_a_restart_charges_the_kept_copy_before_the_slot():
    story = Story()
    story.point("slot", 6)
    story.point("checkpoint", 6)
    story.ledger.begin(1)
    story.ledger.restart()
    assert charges(story.settle((*SAID[:6], 7), 0, request=2)) == [(6, "restarted", "", 1, "checkpoint")]


def test_the_loss_of_an_unknown_restore_point_is_an_error():
    with pytest.raises(KeyError):
        Story().lose("entry", "evicted")


@pytest.mark.parametrize(("foreign", "longest"), [((), 8), ((2,), 2), ((4,), 4), ((5,), 8), ((2, 5), 2), ((0, 6), 0)])
def test_a_point_that_goes_on_inherits_foreign_rows_before_its_start(foreign, longest):
    """The slot is evaluated anew from position 5 on. It keeps the rows before, and with them those that are foreign."""
    story = Story()
    story.point("slot", 7, foreign=foreign)
    story.point("slot", 8, start=5, after=SLOT)
    assert story.inspected == [(SLOT, 0), (SLOT, 5)]
    assert usable(story) == [*range(1, longest + 1)]


def test_a_point_that_goes_on_with_other_tokens_has_a_place_of_its_own():
    """The slot goes back to four tokens and continues with others."""
    story = Story()
    story.point("slot", 6)
    other = (*SAID[:4], 1, 2, 3)
    story.point("slot", 7, tokens=other, start=4, after=SLOT)
    assert story.ledger.radix.tokens(story.ledger.snapshots[SLOT].place) == other
    story.ledger.evaluated.append(other)
    assert [story.settle((*begin, 9), 0).held for begin in (SAID[:6], other)] == [6, 7]
    assert [one.tokens for one in story.settle((*other, 9), 0, (SELECT, None)).charges] == [7]


def test_own_rows_from_the_start_on_are_compared():
    story = Story()
    story.point("slot", 5)
    story.point("slot", 9, start=5, after=SLOT, foreign=[7])
    assert usable(story) == [*range(1, 8)]
    story.point("slot", 9, start=6, after=SLOT)
    assert usable(story) == [*range(1, 10)]


def test_foreign_rows_are_inherited_from_one_point_to_the_next():
    story = Story()
    story.point("slot", 4, foreign=[3])
    for n in range(5, 10):
        story.point("slot", n, start=n - 1, after=SLOT)
        assert usable(story) == [1, 2, 3]


def test_a_checkpoint_inherits_the_rows_of_the_slot_before_its_end():
    """The checkpoint holds a state only; the rows of its tokens are those of the slot."""
    for foreign, lengths in [([3], []), ([4], [4])]:
        story = Story()
        story.point("slot", 6, foreign=foreign)
        story.point("checkpoint", 4, start=4, after=SLOT, parts=())
        assert usable(story, "checkpoint") == lengths


@pytest.mark.parametrize(("before", "rows", "foreign", "lengths"), [
    ([1], range(4, 8), [], [5, 6, 7, 8]), ([1], range(4, 8), [6], [5, 6]), ([5], range(4, 8), [], [5, 6, 7, 8]),
    ([2], range(4, 8), [], [6, 7, 8]), ([5], range(6, 8), [], [5]), ([5], range(5, 8), [], [5, 6, 7, 8]),
    ([5], (), [], [5]), ([1], (), [], [5, 6, 7, 8]),
])  # fmt: skip
def test_a_window_inherits_foreign_rows_before_its_first_row(before, rows, foreign, lengths):
    """A window of four is reported with all rows that it has, whatever the start. A row that it has dropped stays
    foreign, and the lengths stay unusable at which the next token would read it."""
    story = Story()
    story.point("slot", 6, parts=(row_part(range(6), before, window=4),))
    story.point("slot", 8, start=6, after=SLOT, parts=(row_part(rows, foreign, window=4),), lengths=(5, 8))
    assert usable(story) == lengths


def test_a_row_from_the_start_on_is_not_inherited():
    """The window holds neither position 5 nor position 6 any more; only position 5 lies before the start."""
    for foreign, lengths in [([5], [9]), ([6], [8, 9])]:
        story = Story()
        story.point("slot", 8, parts=(row_part(range(8), foreign, window=4),))
        story.point("slot", 9, start=6, after=SLOT, parts=(row_part(range(7, 9), window=4),), lengths=(8, 9))
        assert usable(story) == lengths


def test_rows_of_two_parts_with_one_window_are_all_compared():
    story = Story()
    story.point("slot", 8, parts=(row_part(range(8)), row_part(range(8), [6])))
    assert usable(story) == [*range(1, 7)]


def test_an_empty_slot_is_not_looked_at():
    story = Story()
    story.point("slot", 6)
    story.point("slot", 0, "cleared", ERASE)
    assert story.inspected == [(SLOT, 0)] and story.ledger.snapshots[SLOT].known == []
    story.point("slot", 3)
    assert (usable(story), story.cold_runs) == ([1, 2, 3], [SAID[:6], SAID[:3]])


def test_a_cold_run_that_goes_on_alike_is_used_again():
    asked, answers = [], []

    def covers(run, tokens, same):
        asked.append((tokens, same))
        return answers.pop()

    story = Story(covers=covers)
    story.point("slot", 4)
    answers.append(True)
    story.point("slot", 6, start=4, after=SLOT)
    assert (asked, story.cold_runs) == ([(SAID[4:6], 4)], [SAID[:4]])
    answers.append(False)
    story.point("slot", 8, start=6, after=SLOT)
    assert (asked[1:], story.cold_runs[1:]) == ([(SAID[6:8], 6)], [SAID[:8]])
    assert story.ledger.snapshots[SLOT].cold is not None


def test_a_decline_is_placed_where_the_slot_was_reported():
    """The reported tokens are known: the ledger does not request them from the server."""
    story = Story(slot_prefix=lambda slot: pytest.fail("the tokens of the slot are known"))
    story.point("slot", 6, lengths=UNUSABLE)
    for n, rule in [(6, "six"), (4, "four"), (0, "none")]:
        story.ledger.record(Declined(0, n, rule))
    for shared, rule in [(3, "none"), (4, "four"), (5, "four"), (6, "six"), (9, "six")]:
        assert charges(story.settle((*SAID[:shared], 7), 0)) == [(shared, "never captured", rule, -1, "")]


def test_a_decline_before_a_fork_is_found_from_both_branches():
    """The reported slot leaves another conversation after three tokens; the rule declined after two of them."""
    story = Story()
    story.point("entry", 10, "stored", lengths=UNUSABLE)
    story.point("slot", 6, tokens=(*SAID[:3], 7, 8, 9), lengths=UNUSABLE)
    story.ledger.record(Declined(0, 2, CREATE))
    for prompt in [(*SAID[:5], 1), (*SAID[:3], 7, 8)]:
        assert charges(story.settle(prompt, 0))[0][1:3] == ("never captured", CREATE)


@pytest.mark.parametrize("reported", [None, 0, 3], ids=["not reported", "reported as empty", "reported with three"])
def test_a_decline_behind_the_reported_tokens_is_placed_by_the_tokens_of_the_slot(reported):
    asked = []
    story = Story(slot_prefix=lambda slot: asked.append(slot) or WHOLE)
    if reported is not None:
        story.point("slot", reported, lengths=UNUSABLE)
    story.ledger.record(Declined(0, 4, CREATE))
    story.ledger.record(Declined(1, 6, "other slot"))
    assert asked == [0, 1]
    for shared, rule in [(3, ""), (4, CREATE), (5, CREATE), (6, "other slot")]:
        assert charges(story.settle((*SAID[:shared], 7), 0)) == [(shared, "never captured", rule, -1, "")]


def test_a_slot_with_another_list_is_placed_anew():
    texts = [(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4)]
    story = Story(slot_prefix=lambda slot: TokenPrefix(texts[0], 4))
    for number in range(3):
        story.ledger.record(Declined(3, 4, f"list {number}"))
        texts.pop(0)
    radix = story.ledger.radix
    assert [nearest_decline(radix.longest_known((1, 2, 3, last)), 9) for last in (4, 5)] == ["list 0", "list 1"]


def test_a_release_lets_only_the_state_of_its_slot_rest():
    """A state at which a request ended is lasting; it stays so when another slot is released."""
    for released, lasting in [([0], True), ([1], False), ([0, 1], True)]:
        story = Story()
        story.point("slot", 6)
        for slot in released:
            story.ledger.record(Release(slot, 0, 6, 0))
        story.point("slot", 0, "overwritten", LOAD)
        [known] = story.ledger.radix.root.notes.ranged
        assert known.is_lasting is lasting


def test_a_loss_is_charged_at_the_request_that_works_in_the_slot():
    story = Story(slot_request=lambda slot: 3 if slot == 0 else -1)
    story.ledger.begin(5)
    for n, slot in [(4, 0), (6, 1), (8, None)]:
        story.point("checkpoint", n, number=n)
        story.lose("checkpoint", "evicted", LIMIT, number=n, slot=slot)
        assert charges(story.settle((*SAID[:n], 7), 0, request=6))[-1] == (n, "evicted", LIMIT, 3 if n == 4 else 5,
                                                                          "checkpoint")  # fmt: skip
        story.ledger.begin(5)
