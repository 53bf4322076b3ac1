"""Counter-tests of the replay: each test breaks the simulator in a single place and requires that a figure fails.

Most of them break an operation; the first test breaks the judge's input: a store that always returns the contents of a
cold run makes every answer correct, and must therefore miss the recorded wrong answers.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from cachesim.engines.llama_cpp import prefill_chunk
from cachesim.engines.llama_cpp import server as llama_server
from cachesim.engines.llama_cpp.memory.attention import AttentionCache
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.ubatch_view import UbatchStore
from cachesim.engines.registry import profiles
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.model import KVRows
from cachesim.model.attention_mask import ByPosition
from cachesim.oracle.cold_run import cold
from cachesim.replay.recorded_trace import read_trace
from tests.replay.verdicts import DATA, decided_alike, judged_alike, verdicts

pytestmark = pytest.mark.long
FILES = sorted((DATA / "llama_cpp").glob("*.json"))


def plainly_wrong(path):
    """True if the file contains a wrong answer that does not follow from a shift, and none that does."""
    entries = json.loads(path.read_text())["inexact"]
    return entries and not any(entry["shifted"] for entry in entries) and not read_trace(path, profiles()).out


INEXACT = [path for path in FILES if plainly_wrong(path)]


def figure_fails(paths=FILES):
    """True if a file disagrees in a step, an event or a verdict; stops at the first such file."""
    found = (verdicts(path) for path in paths)
    return any(not one.trace.out and not (decided_alike(one) and judged_alike(one)) for one in found)


class TruthStore(UbatchStore):
    """A store that returns what a cold run would hold, whatever the engine did to the memory."""

    core = None

    def _cold(self, run):
        tokens = self.core.slots[self.ubatch.runs[run].seq].tokens
        return cold(self.core.context.model, tokens[: self._stop(run)], logits_at=())

    def _stop(self, run):
        return self.ubatch.runs[run].pos0 + len(self.ubatch.runs[run].tokens)

    def view(self, part, run, asked):
        return ByPosition.view(self, part, run, asked)

    def positions(self, part, run):
        return np.arange(self._stop(run))

    def get_rows(self, layer, run):
        return KVRows(self._cold(run).rows(layer).digest, None, None)

    def get_state(self, layer, run):
        return self._cold(run).state_at(layer, self.ubatch.runs[run].pos0)


def test_a_store_that_is_always_right_misses_the_recorded_wrong_answers(monkeypatch):
    plain_store, update = Memory.store, llama_server.update_slots

    def true_store(self, placed):
        store = plain_store(self, placed)
        if self is TruthStore.core.memory:      # a drafter's memory has other layers and no part in the answers
            store.__class__ = TruthStore
        return store

    def watched(core):
        TruthStore.core = core
        update(core)

    monkeypatch.setattr(Memory, "store", true_store)
    monkeypatch.setattr(llama_server, "update_slots", watched)
    found = [verdicts(path) for path in INEXACT]
    assert all(decided_alike(one) for one in found)
    assert sum(len(one.trace.inexact) for one in found) >= 30
    # A few stay broken though every answer is right: --swa-full leaves a hole in the slot, which no store can fill.
    missed = [one for one in found if not judged_alike(one)]
    assert len(missed) > 3 * len(found) // 4


def test_a_trim_that_removes_nothing_is_noticed(monkeypatch):
    monkeypatch.setattr(prefill_chunk, "trim",
                        lambda srv, slot, task, n: srv.emit(slot_ev.Batch(slot.id, task.id, n, n)))  # fmt: skip
    assert figure_fails()


def test_a_checkpoint_that_is_not_loaded_is_noticed(monkeypatch):
    plain = Memory.state_read

    def state_read(self, seq, blob):
        if blob.base is not None or self.kind.kind == "R":
            plain(self, seq, blob)

    monkeypatch.setattr(Memory, "state_read", state_read)
    assert figure_fails()


def test_a_ring_that_is_not_purged_is_noticed(monkeypatch):
    monkeypatch.setattr(AttentionCache, "_purge", lambda self, lost, quiet: None)
    assert figure_fails()


@pytest.mark.parametrize("model", ["llama", "gemma3"])
def test_a_state_read_on_top_of_the_old_cells_is_noticed(monkeypatch, model):
    plain = AttentionCache.state_read

    def state_read(self, seq, state):
        with monkeypatch.context() as patch:
            patch.setattr(AttentionCache, "seq_rm", lambda *args: True)
            plain(self, seq, state)

    monkeypatch.setattr(AttentionCache, "state_read", state_read)
    assert figure_fails([path for path in FILES if path.name.startswith(f"{model}-")])
