"""Events of servers with slots: what a trace holds of them."""

from cachesim.engines.shared import slot_events as slot_ev

NAMES = [
    "reuse_chunk", "ctx_shift", "spec_step", "ckpt_search", "ckpt_restore", "full_reprocess", "ckpt_invalidate",
    "need_one", "batch", "ckpt_evict", "ckpt_create", "warn", "error", "slot_by_lcp", "slot_by_lru", "pc_begin",
    "pc_save", "pc_already", "pc_obsolete", "pc_evict", "pc_search", "pc_load", "pc_load_failed", "pc_state",
    "media_encode", "media_decode",
]  # fmt: skip


def test_every_event_has_a_name_and_is_printed():
    assert [event.ev for event in slot_ev.LOGGED] == NAMES
    assert all(event.logged and event.printed for event in slot_ev.LOGGED)


def test_a_failed_load_names_its_slot_only_beside_others():
    assert slot_ev.PcLoadFailed().record() == {"ev": "pc_load_failed"}
    assert slot_ev.PcLoadFailed(2).record() == {"ev": "pc_load_failed", "slot": 2}
    assert slot_ev.PcLoadFailed(2).record(one_slot=True) == {"ev": "pc_load_failed"}
    assert slot_ev.PcLoadFailed(0).record() == {"ev": "pc_load_failed", "slot": 0}


def test_only_the_state_of_the_prompt_cache_says_how_much_is_stored():
    state = slot_ev.PcState(2, 3.5, 8192.0, 4096, 9)
    assert (state.cached_mib, slot_ev.PcEvict(3.5).cached_mib, slot_ev.PcBegin().cached_mib) == (3.5, None, None)
    assert state.record() == {"ev": "pc_state", "prompts": 2, "mib": 3.5, "limit_mib": 8192.0, "limit_tokens": 4096,
                              "est": 9}  # fmt: skip
