"""Tests of the inspection of the server: rows and states under the tokens that they should hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.chat_template import ChatTemplate
from cachesim.engines.mlx_lm.caches import ChunkedKVCache, KVCache, RotatingKVCache
from cachesim.engines.mlx_lm.model_layout import rows_of
from cachesim.engines.mlx_lm.request_lifecycle import new_caches
from cachesim.engines.mlx_lm.snapshot import content
from cachesim.events import Gained, Release
from cachesim.judging.compare_answer import Judge
from tests.unit.engines.mlx_lm.rows import feed, filled
from tests.unit.engines.mlx_lm.serving import burst, chat, listened, server, sound, stored, system, text, user
from tests.unit.engines.restore_points import differences


def test_a_state_serves_at_its_end_only():
    srv, told = listened("0.32.2", "GGGA")
    burst(srv, chat(system(), user(3)))
    assert told.spans("entry") == [(14, 14, 14), (21, 21, 21), (25, 25, 25)]
    assert srv.inspection.checkpoints(0) == [14, 21, 25]


def test_rows_serve_at_every_length():
    srv, told = listened("0.32.2", "AAAA")
    burst(srv, chat(system(), user(3)))
    assert told.spans("entry") == [(25, 1, 25)]


def test_a_ring_serves_where_its_window_is_whole():
    """Prompts of 24 tokens are fed as 23 and 1: the first 16 tokens leave the ring, token 17 leaves with the 24th. A
    single-token answer writes in place, so rows 17 to 24 remain, whose window of 8 is complete from 24 on."""
    srv, told = listened("0.32.2", "W8 A")
    burst(srv, text(*range(1, 25), n=1))
    assert told.spans("entry")[-1] == (25, 24, 25)


@pytest.mark.parametrize("model", ["GGGA", "AAAA", "W8 A", "SSSS", "CCA", "HH"])
def test_a_point_has_all_lengths_at_which_nothing_is_missing(model):
    srv, told = listened("0.32.2", model)
    burst(srv, chat(system(), user(3)), chat(system(), user(9, 40)), text(*range(1, 25)))
    assert told.points and differences(told, srv) == []


def test_the_rows_that_decoded_together_are_counted():
    srv = server("0.32.2", "AAAA")
    assert srv.core.widest == 0
    burst(srv, text(*range(1, 9)))
    assert srv.core.widest == 1 and srv.inspection.exceeded_limits() == []
    burst(srv, text(*range(1, 9)), text(*range(20, 29)), text(*range(40, 49)))
    assert srv.core.widest == 3


def test_nothing_is_reported_without_a_listener():
    srv = server()
    burst(srv, text(1, 2, 3))
    assert srv.inspection.kept() and not any(isinstance(event, Gained) for event in srv.log.events)


@pytest.mark.parametrize("model", ["GGGA", "AAAA", "W8 A", "SSSS", "CCA", "HH"])
def test_what_is_kept_is_what_a_cold_run_has(model):
    srv = server("0.32.2", model)
    burst(srv, chat(system(), user(3)), chat(system(), user(9, 40)), text(*range(1, 13)))
    assert sound(srv) and srv.inspection.kept()


def ended(srv, request):
    """Return the stored contents of a row at its release, and whether its caches match its tokens."""
    seen = []
    srv.submit(request)

    def hear(event):
        if isinstance(event, Release):
            seen.append((srv.inspection.live(event.slot), srv.inspection.memory_matches(event.slot)))

    srv.log.listener = hear
    while srv.working:
        srv.iterate()
    return seen[0]


def test_a_row_is_seen_as_it_ended_and_then_no_more():
    srv = server()
    stored, agreed = ended(srv, chat(system(), user(3)))
    assert (len(stored.tokens), stored.resume, stored.state.pos) == (25, 25, 24) and agreed
    assert srv.inspection.live(0).state is None


def test_a_row_whose_tail_was_fed_twice_does_not_agree():
    srv = server("0.31.1", template="plain", thinking=True)
    stored, agreed = ended(srv, chat(system(), user(3), template=ChatTemplate("plain", True)))
    assert (len(stored.tokens), stored.resume) == (27, 29) and not agreed


def test_looking_changes_nothing():
    srv = server(model="W8 A")
    burst(srv, text(*range(1, 25)))
    seen = [[(entry.tokens, [part.pos.tolist() for part in entry.rows]) for entry in stored(srv)] for _ in "ab"]
    assert seen[0] == seen[1] != []


def test_entries_have_sizes_by_type_and_a_row_without_a_buffer_has_no_rows():
    srv = server("0.32.2", "AAAA")
    assert (srv.sizes.stored_sizes(), srv.sizes.stored_bytes(), srv.sizes.uncounted_bytes()) == ([], (0, 0), 0)
    burst(srv, text(*range(1, 9)))
    [size] = srv.sizes.stored_sizes()
    [entry] = srv.core.cache.lru.entries().values()
    assert (size.kind, size.owner, size.tokens, size.bytes, size.draft_bytes, size.entry_type) == (
        "entry", -1, 11, entry.nbytes, 0, "assistant")
    assert srv.sizes.stored_bytes().checkpoints == 0
    assert srv.sizes.stored_bytes().cache == entry.nbytes + srv.sizes.uncounted_bytes()
    fresh = new_caches(srv.core)
    found = content(srv.core, "slot", 0, (1, 2), fresh)
    assert [len(part.pos) for part in found.rows] == [0] and found.resume == 2


def test_a_row_is_busy_until_its_request_ends_and_its_caches_end_with_its_tokens():
    srv = server("0.32.2", "AAAA")
    srv.submit(text(*range(1, 9)))
    srv.iterate()
    assert [*srv.inspection.occupied_slots()] == [0]
    row = srv.core.slots[0]
    row.left = row.caches or new_caches(srv.core)
    assert srv.inspection.memory_matches(0) is (rows_of(row.left[0]).offset == len(row.tokens))
    row.tokens = [0] * (int(rows_of(row.left[0]).offset) + 1)
    assert not srv.inspection.memory_matches(0)
    row.tokens.pop()
    assert srv.inspection.memory_matches(0)
    row.left = []
    burst(srv)
    assert [*srv.inspection.occupied_slots()] == []


def test_a_row_without_tokens_resumes_at_the_beginning():
    srv = server("0.32.2", "AAAA")
    assert content(srv.core, "slot", 0, (), new_caches(srv.core)).resume == 0


def test_columns_behind_the_counter_of_a_ring_are_not_its_rows():
    """Before #738 a row of a batch was taken out with the unused columns behind it."""
    ring = filled(RotatingKVCache(8), 1, 6)
    ring.offset = 4
    [part] = content(server(model="W8").core, "slot", 0, (1, 2, 3, 4), [ring]).rows
    assert part.rows[0].digest.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("profile", ["pr923", "pr923-repaired"])
def test_the_repaired_copy_of_a_message_is_evaluated_in_caches_of_its_own(profile):
    srv = server(profile, "GGGA", snapshot_interval=8)
    burst(srv, chat(user(3), user(4, 60)))
    found = {len(entry.tokens): entry for entry in stored(srv)}
    assert len(found) == 2 and min(found) < max(found)
    judge = Judge(srv.core.machine.model)
    assert judge.stored(found[min(found)]).equal_cold is (profile == "pr923-repaired")


@pytest.mark.parametrize("model", ["A", "W8"])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_an_entry_without_rows_serves_at_no_length(model, n):
    srv = server(model=model)
    burst(srv, text(1, 2, 3, n=1))
    srv.core.cache.insert(srv.core.slots[0], tuple(range(n)), new_caches(srv.core), "assistant")
    point = srv.core.cache.point(srv.core.cache.keys[tuple(range(n))])
    assert (point.n, point.lo > point.hi) == (n, True)


def test_the_caches_of_a_draft_model_may_end_elsewhere():
    srv = server(model="A", draft_model="A", num_draft_tokens=2)
    burst(srv, text(1, 2, 3, n=2))
    (row,) = srv.core.slots
    target, draft = KVCache(), KVCache()
    target.offset, draft.offset = len(row.tokens), len(row.tokens) - 1
    row.left = [target, draft]
    assert srv.inspection.memory_matches(0)
    row.left = [draft, target]
    assert not srv.inspection.memory_matches(0)


def test_as_many_entries_and_rows_as_allowed_are_no_excess():
    srv = server(model="A", prompt_cache_size=2)
    burst(srv, text(1, 2, 3, n=2), text(11, 12, 13, n=2))
    most = srv.core.widest = srv.core.settings.completion_batch_size
    assert len(srv.core.cache.lru) == 2 and srv.inspection.exceeded_limits() == []
    srv.core.widest, srv.core.settings = most + 1, replace(srv.core.settings, max_size=1)
    assert [tuple(excess)[:3] for excess in srv.inspection.exceeded_limits()] == [
        ("entries", 2, 1), ("rows decoded", most + 1, most)]


def test_the_rows_of_a_chunk_begin_where_its_front_was_cut():
    chunk = filled(ChunkedKVCache(8), 1, 12)
    chunk.maybe_trim_front()
    feed(chunk, [13])
    [part] = content(server(model="K8").core, "slot", 0, tuple(range(13)), [chunk]).rows
    assert (chunk.start_position, part.rows[0].digest.tolist()) == (4, [*range(5, 14)])


@pytest.mark.parametrize(("model", "length", "windows"), [
    ("K8", 13, [6]), ("K8", 15, [8]), ("K8", 16, [1]), ("W8", 13, [8]), ("A", 13, [0]), ("K8 W8 A", 13, [6, 8, 0]),
])  # fmt: skip
def test_rows_are_those_that_the_next_token_reads(model, length, windows):
    """The next token of a chunk reads those since the beginning of its chunk."""
    srv = server(model=model, mode="none")
    caches = [filled(cache, 1, length) for cache in new_caches(srv.core)]
    found = content(srv.core, "slot", 0, tuple(range(length)), caches)
    assert [part.window for part in found.rows] == windows and found.resume == length
