"""Request fields that a search draws for a server with slots."""

import pytest

from cachesim.engines.shared.drawn_requests import context_parts, draw_fields, slot_count


class Drawing:
    """Chances that all come true or all fail; numbers are the largest possible."""

    def __init__(self, is_true):
        self.is_true, self.asked = is_true, []

    def chance(self, percent):
        self.asked.append(percent)
        return self.is_true

    def below(self, n):
        return n - 1

    def between(self, low, high):
        return high


@pytest.mark.parametrize(("server", "slots", "parts"), [
    ({}, 1, 1), ({"parallel": 4}, 4, 4), ({"parallel": 4, "kv_unified": True}, 4, 1), ({"parallel": -1}, -1, 1),
    ({"parallel": 2, "kv_unified": False}, 2, 2),
])  # fmt: skip
def test_slots_share_a_unified_context(server, slots, parts):
    assert (slot_count(server), context_parts(server)) == (slots, parts)


@pytest.mark.parametrize(("server", "completions", "fields"), [
    ({}, True, {"cache_prompt": False}), ({"parallel": 3}, False, {"cache_prompt": False, "id_slot": 2}),
    ({"parallel": 3}, True, {"cache_prompt": False, "id_slot": 2, "n_cmpl": 3}),
    ({"spec_type": "draft"}, False, {"cache_prompt": False, "drafts": ((16, 16), (16, 16))}),
    ({"spec_type": "draft", "spec_draft_n_max": 3}, False, {"cache_prompt": False, "drafts": ((3, 3), (3, 3))}),
])  # fmt: skip
def test_fields_are_drawn_that_the_server_can_have(server, completions, fields):
    assert draw_fields(Drawing(True), server, completions) == fields
    assert completions or draw_fields(Drawing(True), server) == fields


def test_without_luck_only_the_drafts_of_a_server_that_drafts_are_drawn():
    drawing = Drawing(False)
    assert draw_fields(drawing, {"parallel": 2}, True) == {} and drawing.asked == [4, 30, 5]
    assert [*draw_fields(drawing, {"parallel": 2, "spec_type": "draft"})] == ["drafts"]
