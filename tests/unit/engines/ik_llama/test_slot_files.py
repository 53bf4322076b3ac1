"""Slot files of ik_llama.cpp: contents, omissions, side files, refusals."""

from __future__ import annotations

import os

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Request
from cachesim.engines.ik_llama import start
from cachesim.engines.ik_llama.rules.checkpoint_create import create_by_position, create_by_tokens, create_from_four
from cachesim.engines.ik_llama.rules.checkpoint_restore import Ckpt
from cachesim.engines.ik_llama.slot_save_restore import (
    SlotFile,
    pack_side,
    pack_slot,
    side_file_path,
    unpack_side,
    unpack_slot,
)
from cachesim.events import Log
from cachesim.judging.compare_answer import Judge

P, Q = tuple(range(1000, 1100)), tuple(range(2000, 2080))
ANSWER = (5000, 5001, 5002, 5003)


def server(model="GGGA", mode="exact", profile="ik_llama@main", **flags):
    base = {"ctx_size": 512, "batch_size": 64, "ubatch_size": 16, "cache_ram": 0, "context_shift": False}
    return start(profile, model, {**base, **flags}, mode, Log())


def lengths(srv):
    return [c.facts.pos_max + 1 for c in srv.core.slots[0].checkpoints]


@pytest.mark.parametrize("model", ["AAAA", "GGGA", "W32 W32 A", "GGGA+M"])
@pytest.mark.parametrize("mode", ["none", "provenance", "exact"])
def test_a_restored_slot_goes_on_as_if_nothing_had_been(model, mode, tmp_path):
    srv = server(model, mode)
    srv.complete(Request(P, 4, forced=ANSWER))
    saved, size = srv.slot("save", 0, tmp_path / "a"), srv.core.memory.size_of(0, partial=False)
    side = 16 + sum(24 + kept.facts.size for kept in srv.core.slots[0].checkpoints) if "G" in model else 0
    assert saved == {"status": 200, "n_saved": 103, "n_written": 12 + 4 * 103 + size + side}
    two = server(model, mode)
    two.complete(Request(Q, 1))
    assert two.slot("restore", 0, tmp_path / "a") == {"status": 200, "n_restored": 103, "n_read": 12 + 4 * 103 + size}
    assert lengths(two) == ([95, 103] if "G" in model else [])
    request = Request((*P, *ANSWER, 7000), 1)
    answer = two.complete(request)
    assert (answer.cache_n, answer.prompt_n) == (103, 2)
    if mode != "none":
        assert Judge(two.core.context.model).judge(request, answer, two.inspection.live(0)).equal_cold
    two.core.memory.check()


def test_a_side_file_stays_where_there_is_nothing_to_write(tmp_path):
    srv = server()
    srv.complete(Request(P, 4, forced=ANSWER))
    srv.slot("save", 0, tmp_path / "f")
    two = server(ctx_checkpoints=0)
    two.complete(Request(Q, 1))
    two.slot("save", 0, tmp_path / "f")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["f", "f.checkpoints"]
    three = server()
    three.slot("restore", 0, tmp_path / "f")
    assert (tuple(three.core.slots[0].tokens), lengths(three)) == (Q, [95, 103])


def test_before_1584_there_is_no_side_file(tmp_path):
    srv = server(profile="ik_llama@1346")
    srv.complete(Request(P, 4, forced=ANSWER))
    srv.slot("save", 0, tmp_path / "f")
    assert [file.name for file in tmp_path.iterdir()] == ["f"]
    srv.slot("erase", 0)
    assert lengths(srv) == [95, 103]
    srv.slot("restore", 0, tmp_path / "f")
    assert lengths(srv) == [95, 103]          # nothing is read, and the slot's own list stays


def test_files_keep_every_part_and_not_the_number_of_tokens(tmp_path):
    srv = server("GGGA")
    srv.complete(Request(P, 4, forced=ANSWER))
    made = SlotFile("GGGA", tuple(srv.core.slots[0].tokens), srv.core.memory.get(0, partial=False))
    assert pack_slot(unpack_slot(pack_slot(made), "x")) == pack_slot(made)
    found = unpack_side(pack_side("GGGA", srv.core.slots[0].checkpoints), "x", 7).checkpoints
    assert [c.facts[:4] for c in found] == [(94, 94, 94, 94), (102, 102, 102, 102)]
    assert [c.facts.unset for c in found] == [(7, 0), (7, 1)]
    assert (found[0].blob.rows, sorted(found[0].blob.states)) == (None, [0, 1, 2])
    np.testing.assert_array_equal(found[0].blob.own, np.arange(95))


def test_a_compacted_window_comes_back_where_it_was(tmp_path):
    srv = server("deepseek4", "provenance", ctx_size=2048, batch_size=512, ubatch_size=512, swa_compress=True)
    srv.complete(Request(tuple(range(1000, 1800)), 1))
    srv.slot("save", 0, tmp_path / "w")
    before = srv.core.memory.window
    two = server("deepseek4", "provenance", ctx_size=2048, batch_size=512, ubatch_size=512, swa_compress=True)
    two.slot("restore", 0, tmp_path / "w")
    assert (two.core.memory.window, two.core.memory.window is before, before.end) == (before, False, 800)


@pytest.mark.parametrize("which", ["a", "a.checkpoints"])
def test_a_spoilt_file_is_refused_and_nothing_changes(tmp_path, which):
    srv = server("GGGA", "none")
    srv.complete(Request(P, 4, forced=ANSWER))
    srv.slot("save", 0, tmp_path / "a")
    srv.complete(Request(Q, 1))
    file = tmp_path / which
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(BadInput, match="damaged or truncated") as caught:
        srv.slot("restore", 0, tmp_path / "a")
    assert str(file) in str(caught.value)
    assert tuple(srv.core.slots[0].tokens) == Q


def test_what_does_not_fit_empties_the_slot(tmp_path):
    srv, small = server("AAAA", "none"), server("AAAA", "none", ctx_size=96, flash_attn=False)
    srv.complete(Request(P, 1))
    srv.slot("save", 0, tmp_path / "a")
    small.complete(Request(Q, 1))
    assert small.slot("restore", 0, tmp_path / "a")["status"] == 400
    assert (small.core.slots[0].tokens, small.core.memory.empty(0)) == ([], True)


@pytest.mark.parametrize(("n", "status"), [(95, 200), (96, 200), (97, 400)])
def test_a_slot_is_restored_up_to_the_length_of_the_context(n, status, tmp_path):
    srv, small = server("AAAA", "none"), server("AAAA", "none", ctx_size=96, flash_attn=False)
    srv.complete(Request(tuple(range(1000, 1000 + n)), 1))
    srv.slot("save", 0, tmp_path / "a")
    assert small.slot("restore", 0, tmp_path / "a")["status"] == status
    assert len(small.core.slots[0].tokens) == (n if status == 200 else 0)


def test_a_slot_file_is_not_flushed_to_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    srv = server("GGGA", "none")
    srv.complete(Request(P, 4, forced=ANSWER))
    srv.slot("save", 0, tmp_path / "a")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "a.checkpoints"] and synced == []


def test_a_slot_that_an_action_changed_is_reported(tmp_path):
    srv, small = server("GGGA", "none"), server("GGGA", "none", ctx_size=96, flash_attn=False)
    told = []
    for one, prompt, actions in ((srv, P, ("save", "restore", "erase")), (small, Q, ("restore",))):
        one.log.listener = print
        one.complete(Request(prompt, 4, forced=ANSWER))
        for action in actions:
            before = len(one.log.events)
            one.slot(action, 0, tmp_path / "a")
            told.append([(event.cause, event.rule) for event in one.log.events[before:] if event.ev == "advanced"])
    restore = "IK-SLOT-RESTORE.SIDE-FILE"
    assert told == [[], [("overwritten", restore)], [("cleared", "IK-SLOT-ERASE.ALL")], [("cleared", restore)]]


def test_what_cannot_be_done_is_bad_input(tmp_path):
    srv = server("GGGA", "none")
    srv.slot("save", 0, tmp_path / "a")
    two = server("AAAA", "none")
    for asked in (("restore", 0, tmp_path / "none"), ("save", 0), ("sav", 0, tmp_path / "a"), ("erase", 7)):
        with pytest.raises(BadInput):
            srv.slot(*asked)
    with pytest.raises(BadInput, match="expected a file of model AAAA, found model GGGA"):
        two.slot("restore", 0, tmp_path / "a")
    with pytest.raises(BadInput, match="purely recurrent models"):
        server("SSSS", "none").slot("save", 0, tmp_path / "a")
    assert side_file_path(tmp_path / "a").name == "a.checkpoints"


def test_an_uninitialised_number_is_not_compared():
    ckpts = [Ckpt(94, 94, 94, 94, 95, 0), Ckpt(102, 102, 102, 102, 103, 0, unset=(3, 1))]
    assert create_by_tokens(ckpts, 200, 199, 199, True).value is None
    assert create_from_four(ckpts, 200, 199, 199, True).value is None
    assert create_by_tokens(ckpts, 63, 62, 62, True).value is False       # too short, whatever the number
    assert create_by_tokens(ckpts[:1], 200, 199, 199, True).value is True
    assert create_by_position(ckpts, 200, 199, 199, True).value is True


def test_an_action_on_a_slot_is_a_step_and_a_task_of_its_own(tmp_path):
    srv = server("GGGA", "none")
    srv.complete(Request(P, 1))
    for number, action in enumerate(("save", "erase", "restore"), start=1):
        before = srv.core.next_id
        srv.slot(action, 0, tmp_path / "a")
        assert (len(srv.log.marks), srv.core.next_id) == (number + 1, before + 1)
    assert [event.ev for event in srv.log.of(2) if event.ev == "seq_rm"] == ["seq_rm"]
