"""Fields of a logged request, from lines whose kinds and numbers are given."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.facts.logged_requests import (
    TOGETHER,
    LoggedRequest,
    logged_request,
    overlapping,
)
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.facts.request_numbers import DerivedNumbers
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest


def line(number, kind, **numbers):
    return ReadLine(number, ParsedLine(Line(kind, kind), 1, 7, numbers), kind)


def request(*lines, slot=1, task=7, ranges=(), **more):
    numbers = {name: ProvenRange(*value) for name, value in dict(ranges).items()}
    return logged_request(DerivedNumbers(TiedRequest(slot, task, list(lines), **more), numbers))


def test_numbers_that_are_exact_are_fields():
    names = ("n_tokens", "cache_n", "prompt_n", "predicted_n", "lcp", "held", "end")
    exact = request(line(3, "launch"), ranges={name: (number, number) for number, name in enumerate(names, 5)})
    assert [getattr(exact, name) for name in names] == [5, 6, 7, 8, 9, 10, 11]
    ranged = request(line(3, "launch"), ranges={name: (1, 2) for name in names})
    assert [getattr(ranged, name) for name in names] == [None] * 7 and ranged.numbers["lcp"] == ProvenRange(1, 2)


def test_a_request_without_further_lines_has_nothing_else():
    found = request(line(3, "batch"), slot=None, task=None)
    assert (found.slot, found.task, found.lines, found.is_slot_known, found.is_whole, found.is_named) == (
        0, None, (3, 3), False, False, True)  # fmt: skip
    assert not any((found.truncated, found.full, found.is_refused, found.is_cancelled, found.is_loaded, found.chosen))
    assert (found.f_sim, found.f_keep, found.n_keep, found.seen, found.restored, found.restored_end) == (
        None, None, 0, 0, None, None)  # fmt: skip
    assert [*found.created, *found.erased, *found.checked, *found.shifts, *found.chunks, *found.spans] == []


def test_a_request_has_its_slot_and_its_lines():
    found = request(line(3, "batch"), slot=4)
    assert (found.slot, found.task, found.is_slot_known) == (4, 7, True)
    assert [one.number for one in found.tied.lines] == [3]


def test_the_lines_of_a_request_end_with_its_release():
    assert request(line(3, "launch"), line(9, "release"), line(12, "cancel")).lines == (3, 9)
    assert request(line(4, "batch"), line(3, "launch"), line(12, "batch")).lines == (3, 12)


@pytest.mark.parametrize(("kinds", "is_whole", "is_named"), [
    (("launch",), True, True), (("new_prompt",), True, True), (("fetch",), True, False), (("in_cache",), True, True),
    (("reused",), True, True), (("batch", "in_cache"), True, True),
    (("batch", "progress_of"), False, False), (("usage",), False, False),
])  # fmt: skip
def test_a_request_is_whole_with_its_beginning_and_named_unless_its_lines_are_of_mlx(kinds, is_whole, is_named):
    found = request(*(line(number, kind) for number, kind in enumerate(kinds, 1)))
    assert (found.is_whole, found.is_named) == (is_whole, is_named)


def test_the_choice_of_the_slot_has_its_shares():
    found = request(line(3, "launch"), choice=line(2, "slot_by_lcp", f_sim=0.5, f_keep=1))
    assert (found.chosen, found.f_sim, found.f_keep) == ("lcp", 0.5, 1.0)
    for share, read in ((1.0, 1.0), (0, 0.0), (1.1, None), (-0.1, None), ("x", None)):
        assert request(line(3, "launch"), choice=line(2, "slot_by_lru", f_sim=share)).f_sim == read


def test_each_kind_of_line_sets_its_flag():
    flags = {"ctx_shift": "truncated", "full_reprocess": "full", "trim_failed": "full", "too_long": "is_refused"}
    for kind, name in flags.items():
        found = request(line(3, kind))
        assert [each for each in ("truncated", "full", "is_refused") if getattr(found, each)] == [name]
    assert request(line(3, "release", truncated=1)).truncated and not request(line(3, "release", truncated=0)).truncated
    assert request(line(3, "launch"), cache=[line(2, "pc_load")]).is_loaded
    kept = [request(*(line(3, "new_prompt", **one) for one in printed)).n_keep
            for printed in ([{"n_keep": -1}], [{}, {"n_keep": 3}, {"n_keep": 4}], [{"n_keep": 2.5}])]  # fmt: skip
    assert kept == [-1, 3, 0]
    assert [request(line(3, kind, pos_min=5)).pos_min for kind in ("n_past", "prefix", "batch")] == [5, 5, None]


@pytest.mark.parametrize(("lines", "ranges", "is_cancelled"), [
    ((), {"end": (5, 5), "n_tokens": (6, 6)}, True), ((), {"end": (5, 6), "n_tokens": (6, 9)}, False),
    ((), {"end": (5, 5)}, False), (("cancel",), {"end": (5, 5)}, True), (("cancel",), {}, False),
    (("cancel",), {"end": (5, None)}, False), (("cancel",), {"end": (9, 9), "n_tokens": (6, 6)}, False),
    (("cancel",), {"end": (9, 9), "n_tokens": (6, 9)}, True),
    *(((kind,), {"end": (5, 5), "n_tokens": (6, 6)}, False) for kind in ("prompt_time", "eval_time", "ctx_shift")),
])  # fmt: skip
def test_a_client_hung_up_if_the_slot_held_less_than_the_prompt(lines, ranges, is_cancelled):
    found = request(line(3, "launch"), *(line(number, kind) for number, kind in enumerate(lines, 4)), ranges=ranges)
    assert found.is_cancelled is is_cancelled


def test_lines_about_checkpoints_are_lists():
    found = request(
        line(3, "ckpt_create", pos_min=1, pos_max=8, n_tokens=9), line(4, "ckpt_create", pos_max=19),
        line(5, "ckpt_too_close", pos_max=29, n_tokens=31), line(6, "ckpt_check", pos_min=2, pos_max=39, thold=30),
        line(7, "ckpt_check", pos_min=2, thold=30), line(8, "ckpt_restore", pos_max=49, n_tokens=48, n_past=47),
        line(9, "ckpt_invalidate", pos_max=59), line(10, "ctx_shift", n_keep=4, n_discard=6),
        line(11, "reuse_chunk", c0=5, c1=7, p0=3), line(12, "reuse_chunk", c0=8, c1=9, p0=6))  # fmt: skip
    assert (found.created, found.erased, found.spans) == ((9, 20), (31,), ((1, 8),))
    assert (found.checked, found.restored, found.restored_end) == (((2, 39, 30),), 47, 48)
    assert (found.shifts, found.chunks, found.chunk_start, found.seen) == (((4, 6),), ((5, 7), (8, 9)), 3, 60)
    short = request(line(3, "ckpt_restore", pos_max=49))
    assert (short.restored, short.restored_end) == (50, 50) and request(line(3, "ckpt_restore")).restored is None


def test_ranges_and_values_of_a_request():
    found = request(line(3, "launch"), ranges={"lcp": (3, 5), "held": (3, None), "end": (7, 7)})
    assert (found.range_of("lcp"), found.range_of("held"), found.range_of("x")) == (ProvenRange(3, 5), None, None)
    assert [found.least(name) for name in ("lcp", "held", "end", "cache_n")] == [3, 3, 7, 0]
    assert [found.may_be("lcp", value) for value in (2, 3, 5, 6, None)] == [False, True, True, False, None]
    assert [found.may_be("end", value) for value in (7, 8)] == [True, False] and found.may_be("held", 3) is None


def spans(*lines):
    return [[one.lines for one in group] for group in overlapping([LoggedRequest(lines=each) for each in lines])]


def test_requests_whose_lines_overlap_are_a_group():
    assert spans((1, 5), (5, 6), (7, 9), (8, 20), (10, 11), (21, 22)) == [
        [(1, 5), (5, 6)], [(7, 9), (8, 20), (10, 11)], [(21, 22)]]
    assert spans((1, 20), (2, 4), (6, 8)) == [[(1, 20), (2, 4), (6, 8)]]     # the first overlaps both others
    assert spans() == [] and spans((1, 2)) == [[(1, 2)]]
    assert [len(group) for group in spans(*[(1, 99)] * (TOGETHER + 2))] == [TOGETHER, 2]
