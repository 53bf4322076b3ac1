"""The yardstick finds planted faults: false statements, and causes whose deciding line is not in the excerpt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.logs.compare import compare
from tests.logs.cuts import Excerpt, Origin
from tests.logs.full_logs import CauseTruth, FullLog, LoggedLine, TaskTruth
from tests.logs.judged import Due, Result, contains

LINES = (
    LoggedLine(
        "slot launch_slot_: id  0 | task 7 | processing task, is_child = 0",
        "launch",
        {"is_child": 0},
        0,
        7,
        range(1, 2),
    ),
    LoggedLine(
        "slot update_slots: id  0 | task 7 | forcing full prompt re-processing due to lack of cache data",
        "full_reprocess",
        {},
        0,
        7,
        range(1, 2),
    ),
    LoggedLine(
        "slot update_slots: id  0 | task 7 | n_tokens = 0, memory_seq_rm [0, end)",
        "batch",
        {"n_tokens": 0, "p0": 0},
        0,
        7,
        range(1, 2),
    ),
)
TRUTH = TaskTruth(
    1, {"n_tokens": frozenset({90}), "cache_n": frozenset({0}), "prompt_n": frozenset({90}), "lcp": frozenset({50}),
        "held": frozenset({50}), "lost": frozenset({50})},
    50, [CauseTruth("no-checkpoint", (1,), True)],
)  # fmt: skip
LOG = FullLog(
    "planted", "llama_cpp", "llama_cpp@b9473", 9473, list(LINES), {7: TRUTH}, {"parallel": 2}, frozenset({"none"})
)


def excerpt(*kept: int) -> Excerpt:
    """Return an excerpt with these lines of the log."""
    found = Excerpt("window", [LOG])
    for at in kept:
        found.add(LINES[at].text, Origin(0, at))
    return found


def said(
    what: str, lines: list[int], numbers: dict[str, Any], kind: str = "follows", task: int | None = 7
) -> dict[str, Any]:
    """Return a statement about the task."""
    return {"kind": kind, "what": what, "lines": lines, "slot": 0, "task": task, "numbers": numbers, "says": ""}


TRUE = (
    said("batch", [3], {"n_tokens": 0, "p0": 0}, "read"),
    said("request", [2, 3], {"cache_n": 0}),
    said("request", [2, 3], {"n_tokens": [80, None]}),
    said("cause", [2], {"cause": "no-checkpoint", "lost": 50}),
    said("build", [3], {"build": [None, 10573]}),
    said("option", [1], {"parallel": 2}, task=None),
    said("memory", [2], {"cut": "none"}, task=None),
)
FALSE = (
    said("batch", [3], {"n_tokens": 0, "p0": 1}, "read"),  # a wrong number
    said("batch", [3], {"n_tokens": 0, "p0": 0}, "read", task=8),  # a wrong task
    said("batch", [2], {"n_tokens": 0, "p0": 0}, "read"),  # a wrong line
    said("launch", [3], {}, "read"),  # a wrong kind
    said("batch", [3], {"n_tokens": 0, "p0": 0, "n_swa": 128}, "read"),  # a number that was not printed
    said("request", [2, 3], {"cache_n": 1}),
    said("request", [2, 3], {"n_tokens": [None, 89]}),
    said("request", [2, 3], {"lost": True}),
    said("request", [2, 3], {"cache_n": 0}, task=9),  # a task that the log does not have
    said("request", [2, 3], {"colour": 1}),
    said("cause", [2], {"cause": "checkpoint-evicted", "lost": 50}),
    said("cause", [3], {"cause": "no-checkpoint", "lost": 50}),  # does not cite the deciding line
    said("cause", [2], {"cause": "no-checkpoint", "lost": 49}),
    said("build", [3], {"build": [9474, None]}),
    said("option", [1], {"parallel": 4}, task=None),
    said("memory", [2], {"cut": "any"}, task=None),
    said("memory", [2], {"cut": "window"}, task=None),
    said("contradiction", [2, 3], {}, task=None),
    said("guess", [2], {}),
)


@pytest.mark.parametrize("claim", TRUE, ids=lambda claim: f"{claim['what']}-{claim['numbers']}")
def test_true_statements_pass(claim):
    assert compare(excerpt(0, 1, 2), [claim]).false == []


@pytest.mark.parametrize(
    "claim", FALSE, ids=lambda claim: f"{claim['what']}-{claim['lines']}-{claim['task']}-{claim['numbers']}"
)
def test_false_statements_are_found(claim):
    assert len(compare(excerpt(0, 1, 2), [claim]).false) == 1


def test_a_cause_without_its_line_is_found():
    claim = said("cause", [1, 2], {"cause": "no-checkpoint", "lost": 50})
    assert len(compare(excerpt(0, 2), [claim]).false) == 1


def due(*kept: int, statements: tuple[dict[str, Any], ...] = ()) -> Result:
    return compare(excerpt(*kept), statements)


def test_a_cause_is_due_only_if_its_line_is_there():
    assert due(0, 2).due == []
    assert due(0, 1).due == [Due("no-checkpoint", False, 7)]
    named = said("cause", [2], {"cause": "no-checkpoint", "lost": 50})
    assert due(0, 1, statements=(named,)).due == [Due("no-checkpoint", True, 7)]


def test_a_cause_of_another_task_counts_as_missed():
    assert due(0, 1, statements=(said("cause", [2], {"cause": "no-checkpoint"}, task=9),)).due[0][1] is False


def test_lines_without_a_statement_are_counted():
    result = due(0, 1, 2, statements=(said("batch", [3], {"p0": 0}, "read"), said("launch", [2], {}, "read")))
    assert (result.cache_lines, result.covered) == (3, 1)


def test_a_line_that_is_cut_off_needs_no_statement():
    cut = excerpt(0, 1)
    cut.origins[1] = [Origin(0, 1, whole=False)]
    assert due(0, 1).cache_lines == 2 and compare(cut, []).cache_lines == 1 and compare(cut, []).due == []


@pytest.mark.parametrize("claimed, value, holds", [
    (5, 5, True), (5, 6, False), ([5, None], 6, True), ([5, None], 4, False), ([None, 5], 6, False), ([4, 6], 5, True),
    (True, 1, False),
])  # fmt: skip
def test_ranges(claimed, value, holds):
    assert contains(claimed, value) is holds


EDIT = LoggedLine(
    "slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, f_sim_best = 0.556 (> 0.1 thold), f_keep = "
    "0.833", "slot_by_lcp", {"f_sim": 0.556, "f_keep": 0.833, "thold": 0.1}, 0, None, range(1, 2),
)  # fmt: skip
EVICTED = LoggedLine(
    "slot create_check: id  0 | task 5 | erasing old context checkpoint (pos_min = 39, pos_max = 39, n_tokens = 40, x)",
    "ckpt_evict", {"pos_min": 39, "pos_max": 39, "n_tokens": 40}, 0, 5, range(1),
)  # fmt: skip


def edited(*kept: int, was_cut: bool = True, held: int = 60) -> Excerpt:
    """Return an excerpt of a log in which the prompt leaves the slot's contents, and a checkpoint was evicted before:
    lines 0 to 2 as in ``LINES``, then the comparison and the eviction."""
    truth = replace(
        TRUTH, compared=frozenset({(50, held)}), was_cut=was_cut,
        causes=[*(TRUTH.causes or []), CauseTruth("checkpoint-evicted", (4,), lost=frozenset({40}), shown=True)],
    )  # fmt: skip
    log = replace(LOG, lines=[*LINES, EDIT, EVICTED], tasks={7: truth})
    found = Excerpt("window", [log])
    for at in kept:
        found.add(log.lines[at].text, Origin(0, at))
    return found


EDITED = said("cause", [2, 4], {"cause": "edited-prompt", "lost": 50})


def test_an_edited_prompt_is_a_cause_only_if_a_line_shows_the_edit_and_the_memory_was_cut():
    assert compare(edited(0, 1, 2, 3), [EDITED]).false == []
    assert len(compare(edited(0, 1, 2, 3), [said("cause", [2], {"cause": "edited-prompt", "lost": 50})]).false) == 1
    assert len(compare(edited(0, 1, 2, 3, was_cut=False), [EDITED]).false) == 1
    assert len(compare(edited(0, 1, 2, 3, held=50), [EDITED]).false) == 1


def test_a_lost_prefix_is_a_cause_only_if_hardly_anything_is_shared():
    lost = said("cause", [4], {"cause": "lost-prefix"})
    assert len(compare(edited(0, 1, 2, 3), [lost]).false) == 1


@pytest.mark.parametrize("lines, numbers, false", [
    ([5], {"cause": "checkpoint-evicted", "lost": 40}, 0),
    ([5], {"cause": "checkpoint-evicted", "lost": 50}, 1),           # not the tokens of that checkpoint
    ([2], {"cause": "checkpoint-evicted", "lost": 40}, 1),           # does not cite the deciding line
    ([5], {"cause": "checkpoint-erased", "lost": 40}, 1),            # another decision
    ([5], {"cause": "checkpoint-evicted"}, 1),                       # without a number
    ([4], {"cause": "cache-disabled", "lost": 50}, 1), ([4], {"cause": "context-shift", "lost": 50}, 1),
])  # fmt: skip
def test_an_earlier_decision_is_a_cause_of_its_own_tokens(lines, numbers, false):
    assert len(compare(edited(0, 1, 2, 3, 4), [said("cause", lines, numbers)]).false) == false


def test_an_earlier_decision_is_due_if_its_line_is_there():
    found = compare(edited(0, 2, 4), [])
    assert found.due == [Due("checkpoint-evicted", False, 7, False)]
    assert found.earlier == [("checkpoint-evicted", True, False)]
    named = said("cause", [3], {"cause": "checkpoint-evicted", "lost": 40})
    assert compare(edited(0, 2, 4), [named]).due[0].named
    assert compare(edited(0, 2), []).due == [] and compare(edited(4), []).due == []


def test_a_false_statement_names_no_cause():
    wrong = said("cause", [2], {"cause": "no-checkpoint", "lost": 49})
    assert compare(edited(0, 1), [wrong]).due == [Due("no-checkpoint", False, 7)]


def test_only_a_warning_can_be_quoted():
    quote = said("cause", [2], {"cause": "server-warning"})
    assert compare(edited(0, 1, 2), [quote]).false == []
    assert len(compare(edited(0, 1, 2), [{**quote, "lines": [3]}]).false) == 1
    assert len(compare(edited(0, 1, 2), [{**quote, "task": 8}]).false) == 1
