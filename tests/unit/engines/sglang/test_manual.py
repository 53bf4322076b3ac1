"""What a search draws for SGLang: each option with its chance, from its values."""

from __future__ import annotations

import pytest

from cachesim.engines.capabilities import DrawnServer
from cachesim.engines.sglang.manual import MANUAL, draw, draw_fields


class FixedDraws:
    """Draws the element with this index (or the last), and True for each chance of at least ``least`` percent."""

    def __init__(self, least, place=0):
        self.least, self.place = least, place

    def chance(self, percent):
        return percent >= self.least

    def one(self, values):
        return values[min(self.place, len(values) - 1)]

    def below(self, n):
        return n - 1


def features(drawn):
    """Return the names of what was drawn by chance."""
    server = drawn.server
    found = {"serial": server["disable_overlap_schedule"], "tight": server["new_token_ratio"] == 0.0,
             "path": "mamba_max_states_per_path" in server, "drafts": "speculative_algorithm" in server,
             "host": "enable_hierarchical_cache" in server}  # fmt: skip
    return " ".join(name for name, has in found.items() if has)


@pytest.mark.parametrize(("model", "least", "found"), [
    ("A", 41, ""), ("A", 40, "host"), ("A", 31, "host"), ("AA", 31, "host"), ("W8 A", 31, ""),
    ("A", 30, "tight path drafts host"), ("W8 A", 26, "tight path drafts"), ("GA", 26, "tight path drafts"),
    ("W8 A", 25, "serial tight path drafts host"), ("GA", 25, "serial tight path drafts host"),
])  # fmt: skip
def test_an_option_is_drawn_with_its_chance(model, least, found):
    assert features(draw(FixedDraws(least), model)) == found


FIRST = {"page_size": 1, "max_total_tokens": 484, "chunked_prefill_size": 2048, "max_running_requests": 8,
         "schedule_policy": "fcfs", "radix_eviction_policy": "lru", "state_grid": 1,
         "mamba_radix_cache_strategy": "auto", "disable_overlap_schedule": False, "mamba_track_interval": 8,
         "max_mamba_cache_size": 64, "swa_eviction_interval": 1, "swa_full_tokens_ratio": 1.0,
         "new_token_ratio": 0.7}  # fmt: skip
TIGHT = {**FIRST, "max_total_tokens": 88, "new_token_ratio": 0.0, "mamba_max_states_per_path": 2,
         "speculative_algorithm": "EAGLE", "draft_window": 0}  # fmt: skip
LAST = {"page_size": 8, "max_total_tokens": 2048, "chunked_prefill_size": 16, "max_running_requests": 1,
        "schedule_policy": "fcfs", "radix_eviction_policy": "slru", "state_grid": 16,
        "mamba_radix_cache_strategy": "auto", "disable_overlap_schedule": False, "mamba_track_interval": 256,
        "max_mamba_cache_size": 30, "swa_eviction_interval": 128, "swa_full_tokens_ratio": 0.6,
        "new_token_ratio": 0.3}  # fmt: skip


@pytest.mark.parametrize(("model", "least", "place", "server", "edges", "most"), [
    ("A", 101, 0, FIRST, (1, 1, 2, 2048, 2049), 242), ("W8 A", 26, 0, TIGHT, (1, 1, 2, 2048, 2049), 32),
    ("A", 101, 9, LAST, (1, 8, 16, 16, 17), 400),
    ("A", 0, 9, {**LAST, "max_total_tokens": 120, "disable_overlap_schedule": True, "swa_full_tokens_ratio": 1.0,
                 "new_token_ratio": 0.0, "mamba_max_states_per_path": 2, "speculative_algorithm": "NGRAM",
                 "draft_window": 12, "enable_hierarchical_cache": True, "hicache_ratio": 0.5,
                 "hicache_write_policy": "write_back"}, (1, 8, 16, 16, 17), 60),
])  # fmt: skip
def test_the_first_and_the_last_of_all_values(model, least, place, server, edges, most):
    """A tight pool has long answers, and no window pool that is smaller."""
    answers = (8, 16, 24, 36) if server["new_token_ratio"] == 0.0 else DrawnServer("sglang", model, {}, (), 0).answers
    assert draw(FixedDraws(least, place), model) == DrawnServer("sglang", model, server, edges, most, answers=answers)


@pytest.mark.parametrize(("model", "place", "strategy", "page", "serial"), [
    ("GA", 0, "auto", 1, False), ("GA", 2, "extra_buffer", 4, False), ("GA", 3, "extra_buffer_lazy", 8, False),
    ("GA", 4, "no_buffer", 1, True), ("CA", 0, "auto", 1, False), ("CA", 9, "no_buffer", 1, True),
    ("W8 A", 9, "auto", 8, False),
])  # fmt: skip
def test_only_states_have_a_source_and_some_sources_pages_of_a_token(model, place, strategy, page, serial):
    found = draw(FixedDraws(101, place), model).server
    assert (found["mamba_radix_cache_strategy"], found["page_size"], found["disable_overlap_schedule"]) == (
        strategy, page, serial)


def test_a_lazy_source_of_states_always_overlaps():
    assert [draw(FixedDraws(0, place), "GA").server["disable_overlap_schedule"] for place in (2, 3)] == [True, False]


@pytest.mark.parametrize(("server", "fields"), [({}, {}), ({"speculative_algorithm": ""}, {}),
                                                ({"speculative_algorithm": "NGRAM"}, {"draft_else": 3})])  # fmt: skip
def test_drafts_are_drawn_for_a_server_with_drafts(server, fields):
    assert draw_fields(FixedDraws(0), server) == fields
    assert MANUAL.draw is draw and MANUAL.draw_fields is draw_fields
