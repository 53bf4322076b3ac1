"""Common prefixes of prompts with the texts of other requests, from the comparisons that a log prints."""

from __future__ import annotations

from cachesim.tools.server_logs.rebuild.compared_texts import compared_texts
from tests.unit.tools.server_logs.records import logged, read_line, tied_lines


def compared(*requests):
    """Return (number of the text, common tokens) for each request whose prompt the log compares with a text."""
    number = {id(request): at for at, request in enumerate(requests)}
    return {number[key]: (number[id(found.text)], found.lcp) for key, found in compared_texts(requests).items()}


def turn(slot, end, lcp=None, others=(), entries=(), **more):
    """Return a request that leaves ``end`` tokens in its slot. ``others``: common tokens by slot; ``entries``: by the
    length of an entry of the prompt cache."""
    lines = [read_line("slot_sim", slot=at, lcp=common) for at, common in others]
    listed = [read_line("pc_cand", slot=None, n_tokens=size, lcp=common) for size, common in entries]
    return logged(slot, end=end, lcp=lcp, tied=tied_lines(others=lines, cache=listed), **more)


def test_a_prompt_is_compared_with_what_other_slots_and_the_prompt_cache_hold():
    first, second = turn(0, 90), turn(1, 70)
    assert compared(first, second) == {}
    assert compared(first, turn(1, 70, others=[(0, 30)])) == {1: (0, 30)}
    assert compared(first, second, turn(2, 99, entries=[(90, 30), (70, 40)])) == {2: (1, 40)}
    assert compared(first, turn(1, 90), turn(2, 99, entries=[(90, 30)])) == {}             # one of two texts


def test_a_comparison_of_later_turns_shows_where_the_first_ones_differ():
    """Two conversations take turns; each prompt continues what its slot holds. Their second prompts share 30 tokens,
    which the first ones then share, too."""
    talks = [turn(0, 90), turn(1, 70), turn(0, 200, lcp=90), turn(1, 180, lcp=70, others=[(0, 30)])]
    assert compared(*talks) == {1: (0, 30)}
    assert compared(*talks[:3], turn(1, 180, lcp=20, others=[(0, 30)])) == {3: (0, 30)}


def test_a_loaded_entry_is_what_a_prompt_continues():
    talks = [turn(0, 90), turn(0, 70), turn(0, 200, lcp=90, held=90, is_loaded=True, entries=[(70, 30)])]
    assert compared(*talks) == {1: (0, 30)}
