"""Deferred evaluation of generated tokens: results equal those of immediate evaluation."""

from __future__ import annotations

from dataclasses import asdict, replace
from random import Random

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch
from cachesim.events import Lost
from cachesim.events.unlogged import PointEvent
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.tools.search.drawn_conversation import draw_conversation
from tests.unit.engines.llama_cpp.talk import Talk, word

PROFILES = ["llama_cpp@b10587", "llama_cpp@b11549", "llama_cpp@b9518", "llama_cpp@b6160"]


class Seen(SilentObserver):
    """Observer that records answers and the memory after each. ``hears`` is called for each event."""

    def __init__(self, hears):
        self.hears, self.found = hears, []

    def started(self, server):
        self.server = server
        if self.hears:
            server.log.listener = lambda event: None

    def answered(self, number, request, answer):
        told = asdict(answer)
        told["outputs"] = [(one.pos, one.digest) for one in answer.outputs]
        self.found.append((told, [self.live(slot) for slot in range(self.server.inspection.n_slots)]))

    def live(self, slot):
        stored = self.server.inspection.live(slot)
        rows = [(part.window, part.pos.tolist(), {layer: one.digest.tolist() for layer, one in part.rows.items()})
                for part in stored.rows]  # fmt: skip
        states = stored.state and (stored.state.pos, {layer: state and (state.hash, state.conv.tolist())
                                                      for layer, state in stored.state.rows.items()})  # fmt: skip
        return stored.tokens, rows, states


def lengthened(scenario, seed):
    """Return the scenario with answers of up to 90 given tokens."""
    draw = Random(seed)
    steps = [replace(step, request=longer(step.request, draw)) if step.action is None else step
             for step in scenario.steps]  # fmt: skip
    return replace(scenario, steps=steps)


def longer(request, draw):
    n = draw.choice([1, 2, 3, 20, 90])
    given = (*(request.forced or ()), *range(5000, 5000 + n))
    n_predict = draw.choice([n, len(given)])
    eog = draw.choice([(), request.eog, given[-1:], (given[len(given) // 2],)])
    return replace(request, forced=given, n_predict=n_predict, eog=eog)


def played(scenario, profile, mode, hears):
    seen = Seen(hears)
    try:
        log = play(scenario, profile, mode, seen)
    except BadInput as bad:
        return str(bad)
    events = [repr(event) for event in log.events if not isinstance(event, PointEvent | Lost)]     # for listeners only
    return seen.found, events, log.spent, log.passes


@pytest.mark.long
@pytest.mark.parametrize("profile", PROFILES)
def test_deferred_evaluation_changes_no_result(profile):
    for seed in range(20):
        case = draw_conversation(seed, "llama_cpp")
        mode = "none" if seed % 5 == 0 else "provenance"
        for scenario in (case.scenario(profile), lengthened(case.scenario(profile), seed)):
            assert played(scenario, profile, mode, False) == played(scenario, profile, mode, True), seed


@pytest.mark.parametrize("model", ["A", "G"])
def test_a_given_answer_fails_where_the_context_is_full(model):
    """Before b5409 only the next step of a full context found it out."""
    server = {"ctx_size": 256, "parallel": 1, "context_shift": False}
    case = from_line("A200>b90/B5>1", model=model, profiles=("llama_cpp@b5340",), server=server)
    at_once, one_by_one = (played(case, "llama_cpp@b5340", "provenance", hears) for hears in (False, True))
    assert at_once == one_by_one and [told["status"] for told, _ in at_once[0]] == [500, 200]


@pytest.mark.parametrize(("model", "line"), [
    ("W8", "A20>b700/A.b>c300"), ("AW8", "A20>b300/B30>c300/A.b>d300"), ("GW8", "A4>b3{n_cmpl=2}/A>c600"),
    ("GW8", "A20>b700/A.b>c300"),
])  # fmt: skip
def test_a_given_answer_goes_around_the_ring_of_a_window(model, line):
    server = {"ctx_size": 4096, "parallel": 2, "ubatch_size": 16}
    case = from_line(line, model=model, profiles=("llama_cpp@b11549",), server=server)
    at_once, one_by_one = (played(case, "llama_cpp@b11549", "provenance", hears) for hears in (False, True))
    assert at_once == one_by_one and {told["status"] for told, _ in at_once[0]} == {200}


def iterated(talk, n):
    for _ in range(n):
        talk.server.iterate()


@pytest.mark.parametrize("kind", ["A", "W", "R", "H", "HW"])
def test_the_tokens_of_an_answer_wait_for_a_single_pass(kind):
    talk, waiting = Talk(kind), []
    answer = talk.send(word("A", 4), 9)
    while talk.server.working:
        talk.server.iterate()
        waiting.append(talk.server.core.context.n_deferred)
    assert max(waiting) >= 7 and waiting[-1] == 0 and len(answer.outputs) == 9


def test_reads_of_the_memory_find_every_token():
    talk = Talk("H")
    answer = talk.send(word("A", 4), 9)
    iterated(talk, 5)
    assert talk.server.core.context.n_deferred == 4 and len(answer.outputs) == 1
    assert talk.server.core.memory.pos_max(0) == 7 and len(answer.outputs) == 5
    assert talk.server.core.context.n_deferred == 0


def test_a_copy_is_independent():
    talk = Talk("H")
    answer = talk.send(word("A", 4), 9)
    iterated(talk, 5)
    twin = talk.server.fork()
    assert twin.core.memory.pos_max(0) == 7 and talk.server.core.context.n_deferred == 4
    assert len(twin.inspection.answer_at(0).outputs) == 5 and len(answer.outputs) == 1


@pytest.mark.parametrize("more", [
    {"mode": "exact"}, {"spec_type": "draft-mtp", "kind": "GGA+M"}, {"spec_type": "draft-mtp", "kind": "A+M"},
])  # fmt: skip
def test_exact_mode_and_drafters_do_not_defer(more):
    talk = Talk(**{"kind": "H", **more})
    talk.send(word("A", 4), 9)
    iterated(talk, 5)
    assert talk.server.core.context.n_deferred == 0


def test_no_token_is_deferred_with_rollback_planes():
    """Rollback needs the states between the tokens of a pass."""
    talk = Talk("GGA+M", "b11549", spec_type="draft-mtp", spec_draft_n_max=3, ubatch_size=16)
    talk.ask(word("A", 4), 1)
    batch = DecodeBatch([7], [4], [0], [True])
    assert talk.server.core.memory.pos_max(0) == 3
    assert talk.server.core.memory.recr.n_rs_seq == 3 and not talk.server.core.context.defer_token(batch)
    plain = Talk("GGA", "b11549")
    plain.ask(word("A", 4), 1)
    assert plain.server.core.context.defer_token(batch)


def test_two_answers_at_once_are_not_deferred():
    talk = Talk("A", parallel=2)
    talk.send(word("A", 4), 9), talk.send(word("B", 4), 9)
    iterated(talk, 6)
    assert talk.server.core.context.n_deferred == 0


def test_no_token_takes_a_cell_that_a_deferred_token_reads():
    """A ring of 256 cells for a window of 8. The first 256 positions fill it. After 249 deferred tokens the next free
    cell would be a cell that the first of them still reads."""
    said = []
    for heard in (False, True):
        talk = Talk("W", ctx_size=1024)
        talk.server.log.listener = (lambda event: None) if heard else None
        answer = talk.send(word("A", 4), 700)
        while talk.server.working:
            talk.server.iterate()
        said.append([one.digest for one in answer.outputs])
    assert said[0] == said[1] and len(said[0]) == 700


def test_a_token_of_another_sequence_is_not_deferred_with_the_others():
    talk = Talk("A", parallel=2)
    talk.send(word("A", 4), 9)
    iterated(talk, 5)
    context, busy = talk.server.core.context, next(slot for slot in talk.server.core.slots if slot.busy)
    one, other = (DecodeBatch([7], [len(busy.tokens)], [seq], [True]) for seq in (busy.id, 1 - busy.id))
    assert context.n_deferred == 4 and not context.defer_token(other) and context.defer_token(one)


def test_no_more_tokens_are_deferred_than_there_are_cells():
    talk = Talk("A")
    talk.send(word("A", 250), 20)
    while talk.server.working:
        talk.server.iterate()
        assert talk.server.core.context.n_deferred <= 256 - 250


def test_both_memories_together_are_read_after_the_deferred_tokens_are_evaluated():
    for name in ("memory", "common_memory"):
        talk = Talk("A")
        talk.send(word("a", 8), 9)
        while not talk.server.core.context.n_deferred:
            talk.server.iterate()
        assert getattr(talk.server.core, name) is not None
        assert talk.server.core.context.n_deferred == 0


def test_a_server_that_aborts_has_recorded_every_output():
    """A build of 2024 shifts by the negative number of tokens that a request asks for, and ends."""
    answer = Talk("A", "b4265", context_shift=True).ask(word("a", 245), 20, n_keep=4, n_discard=-7)
    assert (answer.died, answer.error_kind, len(answer.tokens), len(answer.outputs)) == (True, "list-overrun", 11, 11)
