"""Causes of re-evaluated tokens, as the generator knows them: from the recompute ledger and the events of the run.

A request that evaluates tokens of the slot's common prefix again does so because of a decision in the request itself
(a restore, a reset, a refused removal), and often because of an earlier decision (an erased checkpoint). Both are true,
so either may be named; each has the lines that log it. Where the ledger charges several decisions, any of them may be
named. Tokens that the slot did not share, but something else had (an evicted entry, an overwritten slot), are kept
apart: whether the log shows them depends on texts that it does not contain.
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.judging.recompute_ledger import Charge
from cachesim.scenarios.schema import Scenario
from tests.logs.full_logs import CauseTruth, FullLog, LoggedLine, Played, TaskTruth
from tests.logs.lost_points import LostPoint

OWN = (
    ("no-checkpoint", ("full_reprocess",)),
    ("checkpoint-too-late", ("ckpt_restore",)),
    ("restore-failed", ("pc_load_failed", "ckpt_restore_failed")),
    ("trim-refused", ("trim_refused",)),
    ("slot-cleared", ("slot_clear",)),
    ("identical-prompt", ("need_one",)),
)
"""Causes in the request itself: the key, and the events that log the decision."""


class Charged(NamedTuple):
    """Charges with this event, this restore point and this beginning of the rule's id mean this key. ``evs``: the
    events that log the decision in the request that it happened in."""

    event: str
    kind: str
    rule: str
    key: str
    evs: tuple[str, ...]


CHARGED = (
    Charged("erased", "checkpoint", "", "checkpoint-erased", ("ckpt_invalidate",)),
    Charged("erased", "slot", "", "checkpoint-erased", ("ckpt_invalidate",)),
    Charged("erased", "slot", "", "no-checkpoint", ("full_reprocess",)),
    Charged("evicted", "checkpoint", "LC-CKPT-SPACING", "checkpoint-too-close", ("ckpt_too_close",)),
    Charged("evicted", "checkpoint", "LC-CKPT-REPLACE", "checkpoint-superseded", ("ckpt_supersede",)),
    Charged("evicted", "checkpoint", "", "checkpoint-evicted", ("ckpt_evict",)),
    Charged("erased", "checkpoint", "LC-CKPT-SPACING", "checkpoint-too-close", ("ckpt_too_close",)),
    Charged("overwritten", "checkpoint", "LC-CKPT-REPLACE", "checkpoint-superseded", ("ckpt_supersede",)),
    Charged("cleared", "", "", "slot-cleared", ("slot_clear", "trim_refused", "full_reprocess")),
    Charged("cleared", "", "", "slot-purged", ("slot_purge",)),
    Charged("evicted", "entry", "", "entry-evicted", ("pc_evict", "pc_evict_tokens")),
    Charged("evicted", "entry", "", "entry-obsolete", ("pc_obsolete",)),
    Charged("consumed", "entry", "", "entry-consumed", ("pc_load",)),
    Charged("overwritten", "slot", "", "slot-overwritten", ("slot_by_lru", "slot_by_lcp", "slot_by_id", "pc_load")),
    Charged(
        "truncated", "slot", "", "slot-overwritten", ("slot_by_lru", "slot_by_lcp", "slot_by_id", "full_reprocess")
    ),
    Charged("truncated", "slot", "", "context-shift", ("ctx_shift",)),
    Charged("not chosen", "entry", "", "entry-not-found", ("pc_search",)),
    Charged("not chosen", "entry", "", "restore-failed", ("pc_load_failed",)),
    Charged("advanced", "", "", "checkpoint-not-created", ("do_ckpt",)),
    Charged("never captured", "", "", "checkpoint-not-created", ("no_ckpt",)),
)


def add_causes(log: FullLog, played: Played, scenario: Scenario) -> None:
    """Store the causes of every task of a log, with the indices of the lines that log them."""
    for task, truth in log.tasks.items():
        judged = played.observer.found.get(truth.step)
        if judged is None or "cache_n" not in truth.numbers:
            continue
        slot = judged.answer.id_slot
        own = [
            CauseTruth(key, found, True)
            for key, evs in OWN
            if (found := tuple(at for at in _lines(log, evs, task, truth.step) if log.lines[at].slot in (None, slot)))
        ]
        truth.causes, truth.elsewhere = own if truth.lost else [], []
        truth.also = [] if truth.lost else [cause._replace(lost=frozenset({0})) for cause in own]
        truth.is_wrong = truth.step in played.observer.points.unknown
        at = judged.ledger.n_past
        shared = at + truth.lost
        for charge in reversed(judged.ledger.charges):  # from the beginning of the prompt
            reach = at + charge.tokens
            for cause in _charged(log, charge, reach, truth):
                cause = cause._replace(shown=reach <= shared and cause.key.startswith("checkpoint-"))
                (truth.causes if truth.lost and at < shared else truth.elsewhere).append(cause)
            at = reach
        for point in played.observer.points.lost_points.get(truth.step, ()):
            lost = frozenset({point.reach - judged.ledger.n_past})
            truth.also += [cause._replace(lost=lost) for cause in _charged(log, point, point.reach, truth)]


def _charged(log: FullLog, charge: Charge | LostPoint, reach: int, truth: TaskTruth) -> list[CauseTruth]:
    """Return the keys of the loss of a restore point after ``reach`` tokens, with the lines of the request in which the
    decision fell. Lines about another checkpoint do not log it."""
    out = []
    for row in CHARGED:
        if charge.event == row.event and charge.kind.startswith(row.kind) and charge.rule.startswith(row.rule):
            step = truth.step if charge.at < 0 else charge.at
            if lines := tuple(at for at in _lines(log, row.evs, None, step) if _concerns(log.lines[at], reach)):
                out.append(CauseTruth(row.key, lines))
    return out


def _concerns(line: LoggedLine, reach: int) -> bool:
    """True if a line is about a restore point after ``reach`` tokens, or prints no position."""
    end = line.fields.get("n_tokens", line.fields.get("pos_max", reach - 1) + 1)
    return line.ev not in POSITIONED or reach <= end <= reach + 1


POSITIONED = ("ckpt_invalidate", "ckpt_evict", "ckpt_too_close", "ckpt_supersede", "do_ckpt")
"""Events whose lines print the restore point that they are about."""


def _lines(log: FullLog, evs: tuple[str, ...], task: int | None, step: int) -> list[int]:
    """Return the lines of these events in a request: those of its ``task``, if given, and those without a task."""

    def of_request(line: LoggedLine) -> bool:
        return step in line.steps and (None in (task, line.task) or line.task == task)

    return [
        place
        for place, line in enumerate(log.lines)
        if line.ev in evs and (line.ev == "no_ckpt" or of_request(line)) and line.fields.get("yes") is not True
    ]  # a checkpoint that was created explains nothing
