"""A judged run as plain data: what ``--json`` prints, and what the tables are made from."""

from __future__ import annotations

from typing import Any

from cachesim.scenarios.schema import Step
from cachesim.verdicts.judged_run import Run
from cachesim.verdicts.request_judgement import Judgement


def run_data(run: Run) -> dict[str, Any]:
    """One run. Counts are tokens; ``kept`` stayed in the slot, ``restored`` came back from a checkpoint or the prompt
    cache, ``computed`` were evaluated; ``holds`` is True, False or None (undecided); ``unsettled`` are the requests
    whose outcome depends on numbers that nobody wrote, ``refused`` those that got an error as a cold run does, ``told``
    the refused ones whose file expects it."""
    return {
        "scenario": run.scenario.id,
        "title": run.scenario.title,
        "lives": [one._asdict() for one in run.scenario.lives],
        "model": run.scenario.model,
        "profile": run.profile,
        "mode": run.mode,
        "holds": run.verdict.holds,
        "broken": run.broken,
        "unsettled": run.unsettled,
        "refused": run.refused,
        "told": run.told,
        "as_expected": not run.wrong if run.profile in run.scenario.expect else None,
        "mismatches": [mismatch._asdict() for mismatch in run.wrong],
        "requests": [_request(run, i, one) for i, one in enumerate(run.requests)],
        "lost": [charge._asdict() for one in run.requests for charge in one.account.charges],
        "armed": [armed for i, one in enumerate(run.requests) for armed in _armed(i, one)],
    }


def _request(run: Run, i: int, one: Judgement) -> dict[str, Any]:
    answer, judged, step = one.answer, one.judged, run.scenario.steps[i]
    return {
        "i": i,
        "text": step.prompt,
        "why": step.why,
        "how": _how(step),
        "prompt": len(one.request.prompt),
        "kept": 0 if answer.restored else answer.cache_n,
        "restored": answer.cache_n if answer.restored else 0,
        "computed": answer.prompt_n,
        "cache_n": answer.cache_n,
        "prompt_n": answer.prompt_n,
        "tokens_cached": answer.tokens_cached,
        "id_slot": answer.id_slot,
        "status": answer.status,
        "error": answer.error,
        "died": answer.died,
        "cancelled": answer.cancelled,
        "completions": 1 + len(answer.children) if step.action is None else 0,
        "draft_n": answer.draft_n,
        "draft_n_accepted": answer.draft_n_accepted,
        "rule": answer.deciding,
        "checkpoints": one.checkpoints,
        "entries": one.entries,
        "equal_cold": judged.equal_cold,
        "refused": judged.refused,
        "rung": judged.wrong.rung if judged.wrong else "",
        "fault": judged.fault,
        "kind": judged.doubt.kind,
        "numbers": dict(judged.doubt.numbers),
        "best": one.account.best,
        "held": one.account.held,
        "moved": one.account.moved,
        "wrong": one.account.wrong,
    }


def _how(step: Step) -> str:
    """"completion", the name of the action, or "together" for a request sent while the one before was at work."""
    if step.action is not None:
        return step.action.do
    return "together" if step.together else "completion"


def _armed(i: int, one: Judgement) -> list[dict[str, Any]]:
    """Stored objects that are not what the engine believes, after request i."""
    return [
        {"request": i, "kind": stored.kind, "owner": stored.owner, "tokens": stored.resume, "fault": verdict.why,
         "fault_kind": verdict.kind, "numbers": dict(verdict.numbers)}
        for stored, verdict in one.judged.armed
    ]
