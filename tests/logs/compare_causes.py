"""Comparison of named causes with the decisions that the generator knows."""

from __future__ import annotations

from typing import Iterator, Sequence

from tests.logs.cuts import Excerpt
from tests.logs.full_logs import CauseTruth, FullLog, TaskTruth
from tests.logs.judged import UNJUDGED, Due, Result, Said, contains, origins, tasks, without_truth

COMPARED = ("slot_by_lcp", "slot_sim", "ckpt_search", "pc_search", "pc_cand", "pc_load", "cache_lcp", "pc_info",
            "need_one")  # fmt: skip
"""Events whose lines show how much of a slot or an entry a prompt has in common."""
WARNINGS = ("warn", "error", "no_cache", "no_ckpt", "reuse_unsupported", "kv_full", "pc_too_big", "pc_load_failed",
            "trim_refused", "full_reprocess")  # fmt: skip
"""Events whose lines warn of a restriction or an error."""
FEW = 10  # a prompt lost its beginning if it shares less than one in so many tokens with the slot
REMOVED = tuple(f"checkpoint-{how}" for how in ("erased", "evicted", "superseded", "too-close", "not-created"))
"""Causes in earlier requests that concern a restore point."""
NEEDS_PREFIX = ("checkpoint-too-late",)
"""Causes whose deciding line does not show that the prompt shares more tokens with the slot than were reused."""
WITHOUT_LOSS = ("server-warning", "lost-prefix")
"""Causes that are named without a number of tokens."""


def why_cause_is_false(excerpt: Excerpt, said: Said) -> str:
    """Return why a named cause is false: its key must belong to a cause of the task whose deciding line is in the
    excerpt, and the statement must cite such a line."""
    key, truths = said["numbers"].get("cause"), tasks(excerpt, said)
    if key == "server-warning":
        return _why_warning_is_false(excerpt, said)
    if not truths:
        return without_truth(excerpt, said)
    if all(truth.causes is None for _, truth in truths):
        return UNJUDGED
    cited = {(id(excerpt.logs[one.log]), one.line) for one in origins(excerpt, said)}
    why = "no such cause"
    for log, truth in truths:
        for cause in [*accepted(log, truth), *(truth.causes or []), *truth.elsewhere, *truth.also]:
            if cause.key != key:
                continue
            if not any((id(log), line) in cited for line in cause.lines):
                why = "the deciding line is not among its lines"
                continue
            lost, losses = said["numbers"].get("lost"), cause.lost or _losses(truth)
            if lost is None and key in WITHOUT_LOSS:
                return ""
            if lost is not None and any(contains(lost, one) for one in losses):
                return ""
            why = f"lost is {sorted(losses)}"
    if why == "no such cause" and key in REMOVED and any(truth.is_wrong for _, truth in truths):
        return UNJUDGED
    if why == "no such cause":
        keys = sorted({cause.key for _, truth in truths for cause in [*(truth.causes or []), *truth.elsewhere]})
        why = f"no such cause, but {', '.join(keys) or 'none'}"
    return why


def _why_warning_is_false(excerpt: Excerpt, said: Said) -> str:
    """Return why a quoted warning is false: its lines must warn, and be of the task that it names, if any."""
    lines = [excerpt.source(one) for one in origins(excerpt, said)]
    if not any(line.ev in WARNINGS for line in lines):
        return "its lines are not warnings"
    named = said["task"] is None or any(line.task in (None, said["task"]) for line in lines)
    return "" if named else "its lines are of another task"


def _losses(truth: TaskTruth) -> set[int]:
    """Return the losses that may be stated with a cause: of the slot's prefix, of a charge, or of all charges."""
    return {truth.lost, *truth.numbers.get("lost", ()), *truth.charges, sum(truth.charges)} - {0}


def accepted(log: FullLog, truth: TaskTruth) -> Iterator[CauseTruth]:
    """Yield causes that lie in the client's change of the prompt. A line that compares the prompt with the contents of
    a slot must be cited. An edited prompt loses tokens only if the memory could not be cut at the edit."""
    lines = tuple(at for at, line in enumerate(log.lines) if truth.step in line.steps and line.ev in COMPARED)
    (n_tokens,) = truth.numbers.get("n_tokens") or (0,)
    cache_n = min(truth.numbers.get("cache_n") or (0,))
    for lcp, held in truth.compared:
        if lcp and lcp == n_tokens and (truth.was_cut or cache_n == n_tokens - 1):
            yield CauseTruth("identical-prompt", lines)
        if truth.was_cut and cache_n < lcp < min(n_tokens, held):
            yield CauseTruth("edited-prompt", lines)
        if lcp * FEW < min(n_tokens, held):
            yield CauseTruth("lost-prefix", lines)


def own_lines(log: FullLog, task: int) -> list[int]:
    """Return the lines that name a task. A cause is demanded only if its request is in the excerpt, too."""
    return [at for at, line in enumerate(log.lines) if line.task == task and line.ev]


def count_causes(excerpt: Excerpt, true: Sequence[Said], result: Result) -> None:
    """Count the requests with a deciding line in the excerpt, and those of them of which a true cause was named.

    The request's own decision counts, and every earlier decision that the ledger charges for tokens of the slot's
    common prefix and that a log may show. A restored checkpoint counts only beside a line that compares the prompt with
    the slot: alone it does not show that tokens were lost. Naming a cause without a loss, or a change of the prompt,
    does not count.
    """
    named = [said for said in true if said["what"] == "cause" and said["kind"] == "follows"]
    present = {(one.log, one.line) for begun in excerpt.origins for one in begun if one.whole}
    for at, log in enumerate(excerpt.logs):

        def here(causes: Sequence[CauseTruth], at: int = at) -> list[CauseTruth]:
            return [cause for cause in causes if any((at, line) in present for line in cause.lines)]

        for task, truth in log.tasks.items():
            if not any((at, line) in present for line in own_lines(log, task)):
                continue
            keys = {said["numbers"]["cause"] for said in named if _is_about(excerpt, said, task, truth)}
            due = sorted(here(truth.causes or []), key=lambda cause: not cause.own)
            is_compared = any((at, line) in present and log.lines[line].ev in (*COMPARED, "ckpt_check")
                              for line in own_lines(log, task))  # fmt: skip
            demanded = [cause for cause in due
                        if cause.shown or (cause.own and (is_compared or cause.key not in NEEDS_PREFIX))]  # fmt: skip
            if demanded:
                found = bool({cause.key for cause in due} & keys)
                result.due.append(Due(demanded[0].key, found, task, demanded[0].own))
            for cause in {(cause.key, cause.shown) for cause in due if not cause.own}:
                result.earlier.append((*cause, cause[0] in keys))
            result.apart += [(key, key in keys) for key in sorted({cause.key for cause in here(truth.elsewhere)})]


def _is_about(excerpt: Excerpt, said: Said, task: int, truth: TaskTruth) -> bool:
    """True if a statement is about this task of this log."""
    if said["task"] is not None and said["task"] != task:
        return False
    return any(one is truth for _, one in tasks(excerpt, said))
