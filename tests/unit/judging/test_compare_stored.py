"""Tests of stored copies: copies of a cold run, each corrupted in a single place."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.inspection import RowsPart, StatePart, StoredObject
from cachesim.judging.compare_stored import compare_stored, digests_only
from cachesim.judging.fault_kinds import FaultKind
from cachesim.model import KVRows, make_model, parse
from cachesim.oracle.cold_run import cold

TOKENS = tuple(range(100, 120))
N = len(TOKENS)


def world(notation, exact=False):
    model = make_model(parse(notation), exact=exact)
    return model, cold(model, TOKENS, logits_at=(), marks=(N,))


def rows_part(run, layers, positions, window=0):
    """Rows of some positions, in the given order."""
    at = np.array(positions, np.int64)
    rows = {}
    for layer in layers:
        all_rows = run.rows(layer)
        rows[layer] = KVRows(all_rows.digest[at], *(None if x is None else x[at] for x in all_rows[1:]))
    return RowsPart(window, at, rows)


def stored(rows=(), state=None, resume=N):
    return StoredObject("slot", 0, TOKENS, resume, tuple(rows), state)


def test_a_true_copy_holds_in_any_order_of_its_cells():
    _, run = world("AA")
    for positions in (range(N), range(N)[::-1], [*range(7, N), *range(7)]):
        assert compare_stored(stored([rows_part(run, (0, 1), positions)]), run).equal_cold


def test_more_than_what_is_believed_does_not_matter():
    _, run = world("AA")
    assert compare_stored(stored([rows_part(run, (0, 1), range(N))], resume=12), run).equal_cold


@pytest.mark.parametrize("gone", [0, 7, 19])
def test_a_missing_row_is_broken_and_named(gone):
    _, run = world("AA")
    verdict = compare_stored(stored([rows_part(run, (0, 1), [p for p in range(N) if p != gone])]), run)
    assert (verdict.equal_cold, verdict.rung, verdict.where) == (False, "provenance", gone)


def test_a_position_held_twice_is_broken():
    _, run = world("AA")
    assert compare_stored(stored([rows_part(run, (0, 1), [*range(N), 4])]), run).equal_cold is False


@pytest.mark.parametrize("layer", [0, 1])
def test_a_foreign_row_is_broken_and_its_position_named(layer):
    _, run = world("AA")
    part = rows_part(run, (0, 1), range(N)[::-1])
    part.rows[layer].digest[3] += np.uint64(1)                  # the row of position 16
    verdict = compare_stored(stored([part]), run)
    assert (verdict.equal_cold, verdict.rung, verdict.where) == (False, "provenance", 16)
    assert f"layer {layer}" in verdict.why


@pytest.mark.parametrize("first, holds", [(13, True), (12, True), (0, True), (14, False)])
def test_of_a_window_only_what_the_next_token_reads_must_be_there(first, holds):
    _, run = world("W8")                                        # token 20 reads 13 .. 19 and itself
    assert compare_stored(stored([rows_part(run, (0,), range(first, N), window=8)]), run).equal_cold is holds


@pytest.mark.parametrize("at, holds", [(12, True), (13, False)])
def test_a_foreign_row_out_of_sight_does_not_matter(at, holds):
    _, run = world("W8")
    part = rows_part(run, (0,), range(N), window=8)
    part.rows[0].digest[at] += np.uint64(1)
    assert compare_stored(stored([part]), run).equal_cold is holds


def state_part(run, n=N, pos=None):
    return StatePart(n - 1 if pos is None else pos, {0: run.state_at(0, n)})


@pytest.mark.parametrize("kind", ["G", "S", "C"])
def test_a_true_state_holds_and_that_of_another_length_does_not(kind):
    _, run = world(kind)
    assert compare_stored(stored(state=state_part(run)), run).equal_cold
    for wrong in (state_part(run, 19), state_part(run, 19, pos=19), state_part(run, 20, pos=18)):
        assert compare_stored(stored(state=wrong), run).equal_cold is False


def test_a_zeroed_state_is_not_the_state_of_a_conversation():
    _, run = world("S")
    assert compare_stored(stored(state=StatePart(N - 1, {0: None})), run).equal_cold is False


def test_an_exact_copy_is_compared_bit_by_bit():
    _, run = world("A", exact=True)
    part = rows_part(run, (0,), range(N))
    assert compare_stored(stored([part]), run).equal_cold
    part.rows[0].v[5, 0, 0] += 1
    verdict = compare_stored(stored([part]), run)
    assert (verdict.equal_cold, verdict.rung) == (False, "bits")


def test_an_exact_state_is_compared_bit_by_bit():
    _, run = world("S", exact=True)
    true = run.state_at(0, N)
    h = true.h.copy()
    h.flat[0] += 1
    assert compare_stored(stored(state=StatePart(N - 1, {0: true})), run).equal_cold
    verdict = compare_stored(stored(state=StatePart(N - 1, {0: true._replace(h=h)})), run)
    assert (verdict.equal_cold, verdict.rung) == (False, "bits")


def test_a_state_of_other_tokens_is_no_rounding_though_its_numbers_differ_too():
    """The rungs of a state: the same digests in other numbers, or other digests."""
    _, run = world("GG", exact=True)
    held = {layer: run.state_at(layer, N) for layer in (0, 1)}
    numbers = held[1]._replace(h=held[1].h + 1)
    for spoilt, rung in ((numbers, "bits"), (numbers._replace(hash=numbers.hash + 1), "provenance")):
        verdict = compare_stored(stored(state=StatePart(N - 1, {**held, 1: spoilt})), run)
        assert (verdict.equal_cold, verdict.rung, verdict.kind) == (False, rung, FaultKind.STATE)


@pytest.mark.parametrize("exact", [False, True])
def test_of_what_several_share_only_its_own_stretch_must_be_there(exact):
    """A block of rows 8 .. 11: earlier rows belong to other blocks, later rows do not exist."""
    _, run = world("AA", exact)
    block = stored([rows_part(run, (0, 1), range(8, 12))], resume=12)
    assert compare_stored(block, run).where == 0
    assert compare_stored(block._replace(start=8), run).equal_cold
    assert compare_stored(block._replace(start=7), run).where == 7
    assert compare_stored(block._replace(start=8, resume=13), run).where == 12
    block.rows[0].rows[1].digest[1] += np.uint64(1)
    assert compare_stored(block._replace(start=8), run).where == 9


def test_of_a_shared_window_only_what_the_next_token_reads_must_be_there():
    _, run = world("W8 W8")
    block, whole = ([rows_part(run, (0,), range(first, last), window=8)] for first, last in ((8, 12), (13, N)))
    assert compare_stored(stored(block, resume=12)._replace(start=8), run).equal_cold
    assert compare_stored(stored(whole)._replace(start=2), run).equal_cold


@pytest.mark.parametrize(("positions", "rows", "where"), [
    ([p for p in range(N) if p not in (4, 7)], 2, 4), ([*range(N), 4], 0, -1), ([*range(1, N), N], 1, 0), ([], N, 0),
])  # fmt: skip
def test_missing_rows_are_counted_from_the_first(positions, rows, where):
    _, run = world("AA")
    part = rows_part(run, (0, 1), [min(p, N - 1) for p in positions])._replace(pos=np.array(positions, np.int64))
    verdict = compare_stored(stored([part]), run)
    assert (verdict.kind, dict(verdict.numbers), verdict.where) == (
        FaultKind.ROWS_MISSING, {"rows": rows, "position": where}, where)


def test_faults_have_their_numbers():
    _, run = world("GA")
    state = StatePart(N - 1, {0: run.state_at(0, N)})
    part = rows_part(run, (1,), range(N))
    part.rows[1].digest[3] += np.uint64(1)
    found = [compare_stored(one, run) for one in (
        stored([part], state), stored([part], state._replace(pos=7)), stored([part], state, resume=N - 1),
        stored([part], StatePart(N - 1, {0: run.state_at(0, N - 1)})))]  # fmt: skip
    assert [(one.kind, dict(one.numbers), one.where) for one in found] == [
        (FaultKind.ROW, {"layer": 1, "position": 3}, 3),
        (FaultKind.STATE_ELSEWHERE, {"position": 7, "wanted": N - 1}, N - 1),
        (FaultKind.STATE_ELSEWHERE, {"position": N - 1, "wanted": N - 2}, N - 2),
        (FaultKind.STATE, {"layer": 0, "tokens": N}, N - 1),
    ]


def compressed(rows, resume=N, start=0):
    """Return an object with these rows, each of which stands for four tokens."""
    part = rows_part(Groups(), (0,), rows)._replace(every=4)
    return stored([part], resume=resume)._replace(start=start)


class Groups:
    """Cold run of five rows that stand for four tokens each."""

    def rows(self, layer):
        return KVRows(np.arange(10, 15, dtype=np.uint64), np.arange(5.0), np.arange(5.0))


def test_of_rows_that_stand_for_four_tokens_only_whole_ones_must_be_there():
    assert compare_stored(compressed(range(5)), Groups()).equal_cold
    assert compare_stored(compressed(range(4)), Groups()).equal_cold is False
    assert compare_stored(compressed(range(4), resume=N - 1), Groups()).equal_cold
    assert compare_stored(compressed(range(2, 5), start=8), Groups()).equal_cold
    assert compare_stored(compressed(range(2, 5), start=7), Groups()).equal_cold is False


def test_a_row_that_stands_for_four_tokens_is_named_by_the_last():
    held = compressed(range(5))
    held.rows[0].rows[0].digest[3] += np.uint64(1)
    verdict = compare_stored(held, Groups())
    assert (verdict.where, dict(verdict.numbers)) == (15, {"layer": 0, "position": 15})


@pytest.mark.parametrize(("rows", "where", "missing"), [([0, 1, 3, 4], 11, 1), ([1, 2, 3, 4], 3, 1), ([0, 1], 11, 3)])
def test_a_missing_row_that_stands_for_four_tokens_is_named_by_the_last(rows, where, missing):
    verdict = compare_stored(compressed(rows), Groups())
    assert (verdict.kind, verdict.where, dict(verdict.numbers)) == (
        FaultKind.ROWS_MISSING, where, {"rows": missing, "position": where})  # fmt: skip


@pytest.mark.parametrize("name", ["k", "v"])
@pytest.mark.parametrize("every", [1, 4])
def test_other_numbers_with_the_same_digests_have_no_position(name, every):
    held = compressed(range(5)) if every == 4 else stored([rows_part(Groups(), (0,), range(5))], resume=5)
    getattr(held.rows[0].rows[0], name)[3] += 1
    verdict = compare_stored(held, Groups())
    assert (verdict.rung, verdict.kind, verdict.where, dict(verdict.numbers)) == (
        "bits", FaultKind.ROW_BITS, -1, {"layer": 0})  # fmt: skip


@pytest.mark.parametrize("name", ["k", "v"])
def test_numbers_that_one_side_lacks_are_not_compared(name):
    held = stored([rows_part(Groups(), (0,), range(5))], resume=5)
    rows = held.rows[0].rows[0]
    held.rows[0].rows[0] = rows._replace(**{name: None})
    assert compare_stored(held, Groups()).equal_cold


def test_the_digests_of_no_state_are_none():
    _, run = world("S", exact=True)
    assert digests_only(None) is None
    state = digests_only(run.state_at(0, N))
    assert (state.conv_x, state.h, state.hash) == (None, None, run.state_at(0, N).hash)
