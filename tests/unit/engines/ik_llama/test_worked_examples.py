"""Worked examples of the specification that are not scenarios, with the specification's numbers."""

from __future__ import annotations

import pytest

from cachesim.base.tokens import POS_INF
from cachesim.engines.base import Draft, Request
from cachesim.engines.ik_llama import start
from cachesim.engines.ik_llama.memory.kv_cache import Window, capacity
from cachesim.engines.ik_llama.rules import checkpoint_restore as use
from cachesim.engines.shared.slot_events import Batch, CkptRestore
from cachesim.events import Log, SeqRm

BASE, MAIN = "ik_llama@1889-base", "ik_llama@main"


def server(model, profile=MAIN, **flags):
    base = {"ctx_size": 4096, "batch_size": 2048, "ubatch_size": 512, "cache_ram": 0}
    return start(profile, model, {**base, **flags}, "none", Log())


def prompt(n, first=10_000):
    return tuple(range(first, first + n))


def ends(srv, slot=0):
    return [c.facts.pos_max for c in srv.core.slots[slot].checkpoints]


def block(window):
    return window.base, window.live, window.end


def compacted(n_max):
    return server("deepseek4", spec_type="mtp", spec_draft_n_max=n_max, swa_compress=True)


def test_7_5_where_the_companion_refuses():
    srv = compacted(1)
    target, companion = srv.core.memory, srv.core.companion.kv
    assert target.window.cap == 768
    srv.complete(Request(prompt(700), 1))
    assert block(target.window) == block(companion.window) == (0, 700, 700)

    srv = compacted(1)
    target, companion = srv.core.memory, srv.core.companion.kv
    answer = srv.complete(Request(prompt(700), 101, draft_else=1))     # the last token is not evaluated
    assert ends(srv) == [694, 799]
    assert block(target.window) == (640, 160, 800)
    assert block(companion.window) == (639, 162, 801)
    first = len(srv.log.events)
    again = srv.complete(Request((*prompt(700), *answer.tokens[:20], 1, 2, 3), 1))
    said = srv.log.events[first:]
    assert [e.n_past for e in said if isinstance(e, CkptRestore)] == [695]
    assert [e.ok for e in said if isinstance(e, SeqRm) and e.p0 == 695][:2] == [True, False]
    assert (again.cache_n, again.prompt_n) == (0, 723)


def test_7_5_with_drafts_of_three_the_purge_is_refused_and_the_commit_fails():
    srv = compacted(3)
    srv.complete(Request(prompt(700), 80, drafts=(Draft(764, 3, 1), Draft(766, 3, 3)), draft_else=3))
    refused = [(e.p0, e.p1) for e in srv.log.events if isinstance(e, SeqRm) and not e.ok]
    assert refused[0] == (767, 770)
    assert srv.core.companion.kv.window.end != srv.core.memory.window.end + 1          # as it would be after a commit


def test_7_4_a_prompt_of_1718_again():
    srv = server("GGGA", BASE)
    srv.complete(Request(prompt(1718), 4))
    assert srv.complete(Request(prompt(1718), 4)).cache_n == 1713


def test_15_deepseek_prompt_of_107_again():
    """#2275: n_past 106, checkpoint of position 101, n_past 102, p0 = 102."""
    srv = server("deepseek4")
    srv.complete(Request(prompt(107), 5))
    first = len(srv.log.events)
    assert srv.complete(Request(prompt(107), 5)).cache_n == 102
    said = srv.log.events[first:]
    assert [(e.pos_max, e.n_past) for e in said if isinstance(e, CkptRestore)] == [(101, 102)]
    assert next(e.p0 for e in said if isinstance(e, Batch)) == 102


def test_15_the_log_of_1673():
    """n_past 54248, a checkpoint of position 54245, p0 = 54246."""
    ckpt = use.Ckpt(54245, 54245, 54245, 54245, 54247, 0)
    ask = use.RestoreInputs(54248, 54248, 60000, 59998, True, False)
    assert use.pick_within([ckpt], ask).value == 0
    assert use.resume_prompt_max(ckpt, ask).value.n_past == 54246


@pytest.mark.parametrize("profile", [BASE, MAIN])
def test_d10_positions_of_the_checkpoints(profile):
    srv = server("GGGA", profile)
    srv.complete(Request(prompt(2000), 3))
    assert ends(srv) == [1994, 2000, 2001]
    srv = server("GGGA", profile, batch_size=512)
    srv.complete(Request(prompt(2000), 1))
    assert ends(srv)[:3] == [511, 1023, 1535]


def test_d3_cells_of_two_slots():
    srv = server("GGGA", parallel=2)
    srv.complete(Request(prompt(100), 3, id_slot=0, forced=(1, 2, 3)))
    srv.complete(Request(prompt(150, 20_000), 3, id_slot=1))
    assert srv.core.memory.cells.of(0).tolist() == list(range(102))
    assert srv.core.memory.cells.of(1).tolist() == list(range(102, 254))
    text = (*prompt(100), 1, 2, *prompt(120, 30_000))
    srv.complete(Request(text, 3, id_slot=0))
    assert srv.core.memory.cells.of(0).tolist()[102:] == list(range(254, 376))
    assert ends(srv)[-2:] == [216, 223]
    srv.complete(Request((*text[:220], 7, 8, 9), 1, id_slot=0))
    cells = srv.core.memory.cells.of(0).tolist()
    assert cells == [*range(5), *range(254, 472)]        # the checkpoint in 254 .. 470, then a new token and five more


def test_catalogue_ik24_a_window_that_has_moved_on():
    window = Window(1024, capacity(1024, 512), base=1536, live=2948 - 1536)
    assert not window.cut(1088, POS_INF)
    assert block(window) == (1536, 1412, 2948)
