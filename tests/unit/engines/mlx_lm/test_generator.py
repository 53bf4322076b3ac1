"""The generators' common parts: what a pass logs, the result of a tick, and rows that are asked for or removed."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.mlx_lm.batch import merged
from cachesim.engines.mlx_lm.generator import TickResult, offsets
from cachesim.engines.mlx_lm.model_layout import make_caches
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.events import MicroBatch
from tests.unit.engines.mlx_lm.serving import chat, server, system, text, user


def started(*requests, ticks=0, **flags):
    """Return a server with these requests at work after so many ticks, and its generator."""
    srv = server(**flags)
    for request in requests:
        srv.submit(request)
    srv.take_tasks()
    for _ in range(ticks):
        srv.iterate()
    return srv, srv.core.generator


class Layer:
    """A cache with a counter of tokens: a number, or one for each row."""

    def __init__(self, offset):
        self.offset = offset


@pytest.mark.parametrize(("caches", "rows", "found"), [
    ([Layer(5)], 1, [5]), ([Layer(5)], 3, [5, 5, 5]), ([object(), Layer(4), Layer(9)], 2, [4, 4]),
    ([Layer(np.array([3, 7]))], 2, [3, 7]), ([object()], 2, [0, 0]), ([], 1, [0]),
])  # fmt: skip
def test_the_next_column_of_each_row_is_that_of_the_first_layer_with_rows(caches, rows, found):
    assert offsets(caches, rows) == found


def test_each_pass_is_logged_with_its_rows_and_their_positions():
    srv, _ = started(text(1, 2, 3, 4, 5, n=1), text(11, 12, 13, n=1), ticks=3, prefill_step_size=3)
    assert [event.runs for event in srv.log.events if isinstance(event, MicroBatch)] == [
        ((0, 0, 3), (1, 0, 3)), ((1, 2, 1),), ((0, 3, 1),), ((1, 3, 1),), ((0, 4, 1),)]


def test_a_tick_tells_which_rows_halted_were_told_something_decoded_and_ended():
    """The chat has a system segment of 14 tokens, and one of 7 for the user."""
    _, generator = started(text(1, 2, 3, n=1), chat(system(), user(3), n=1))
    first, second = generator.waiting
    found = []
    for _ in range(4):
        ticked = generator.next()
        found.append((ticked.pauses, [row.id for row in ticked.notified], ticked.decoded,
                      [row.id for row, _ in ticked.ended]))  # fmt: skip
    assert found == [
        ([(first, True), (second, True)], [0, 1], 0, []),
        ([(second, True)], [0, 1], 0, []),
        ([], [0, 1], 1, [0]),
        ([], [1], 1, [1]),
    ]
    assert TickResult() == TickResult([], [], [], 0)


def test_a_piece_inside_a_segment_is_a_halt_but_not_its_end():
    _, generator = started(text(*range(1, 7), n=1), prefill_step_size=2)
    (row,) = generator.waiting
    assert [generator.next().pauses for _ in range(3)] == [[(row, False)], [(row, False)], [(row, True)]]


def test_the_caches_of_a_row_are_found_in_every_phase():
    _, generator = started(text(1, 2, 3, 4, n=3), text(11, 12, 13, 14, n=3), prompt_concurrency=1)
    first, second = generator.waiting
    assert generator.extract(first) is first.caches and generator.held() == [first.caches, second.caches, [], []]
    found = []
    for _ in range(4):
        generator.next()
        found.append([next(int(layer.offset) for layer in generator.extract(row) if hasattr(layer, "offset"))
                      for row in (first, second)])  # fmt: skip
    assert found == [[3, 0], [4, 0], [5, 3], [6, 4]]


@pytest.mark.parametrize("ticks", [0, 1, 2, 3])
def test_a_removed_row_is_in_no_phase_any_longer(ticks):
    """One row is removed while it waits, is fed, or generates; the other one goes on."""
    srv, generator = started(text(1, 2, 3, 4, n=9), text(11, 12, 13, 14, n=9))
    for _ in range(ticks):
        generator.next()
    first, second = srv.core.slots
    generator.remove([first])
    rows = [*generator.waiting, *(row for batch in generator.batches for row in batch.rows)]
    assert rows == [second]
    generator.next()
    assert len(second.tokens) == 3 + ticks and len(first.tokens) == (2 + ticks if ticks else 0)


def test_a_row_whose_limit_is_reached_leaves_the_others():
    _, generator = started(text(1, 2, n=1), text(11, 12, n=3))
    first, second = generator.waiting
    ended = [ticked.ended for ticked in [generator.next() for _ in range(5)]]
    assert [[row for row, _ in rows] for rows in ended] == [[], [], [first], [], [second]]
    assert generator.generating.rows == [] and generator.next() == TickResult()


def test_a_pass_costs_its_tokens_and_the_columns_that_they_read():
    """Two rows of thirty tokens each, behind as many: a token reads half of its own row on average."""
    srv, _ = started(text(1, 2, n=1), text(3, 4, n=1), model="A", mode="exact")
    machine, rows, log = srv.core.machine, srv.core.slots, srv.log
    caches = merged([make_caches(machine.kind.spec, srv.core.cache_rules) for _ in rows])
    for held in (0, 30):
        before = log.spent, log.passes, log.exact
        machine.feed(caches, [tuple(range(30)), tuple(range(50, 80))], rows)
        spent = tuple(now - then for now, then in zip((log.spent, log.passes, log.exact), before, strict=True))
        assert spent == cost_of(machine.model, 60, 60, 60 * (held + 15))


def test_the_output_of_a_pass_is_that_after_its_last_token():
    srv, _ = started(text(1, 2, 3, n=1), model="A", mode="exact")
    machine, (row,) = srv.core.machine, srv.core.slots
    caches = make_caches(machine.kind.spec, srv.core.cache_rules)
    (hidden,) = machine.feed(caches, [(1, 2, 3)], [row])
    row.tokens = [1, 2, 3]
    machine.record_output(row, hidden)
    (output,) = row.task.answer.outputs
    last, first = (machine.model.readout(hidden.x[at])[0] for at in (slice(2, 3), slice(0, 1)))
    assert np.array_equal(output.logits, last) and not np.array_equal(last, first)
    assert (output.pos, output.digest, row.next) == (2, int(hidden.digest[2]), 1000)
