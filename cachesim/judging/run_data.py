"""Judged runs as plain data: the output of ``--json`` and the source of the tables."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.engines.base import prompt_of
from cachesim.engines.point_kinds import CONVERSATION
from cachesim.engines.registry import engine_named
from cachesim.engines.rule import Role, role_of
from cachesim.events import Decided, Event, Lost
from cachesim.judging.evidence import predicted
from cachesim.judging.failure_chain import failure_data
from cachesim.judging.foreign_reads import sentence_of
from cachesim.judging.judged_run import Run
from cachesim.judging.judgement import Judgement
from cachesim.judging.memory_data import memory_data
from cachesim.judging.outcomes import client_digest
from cachesim.judging.recompute_reasons import reason, reused
from cachesim.judging.reproduce_command import flags_data
from cachesim.judging.request_events import group_of
from cachesim.judging.verdict_text import verdict_of, verdict_of_run
from cachesim.scenarios.schema import Lives, Step
from cachesim.scenarios.server_settings import assumed_sizes

SCHEMA = 3                   # version of the JSON form of runs: of `run`, `why` and `diff`
COUNTED_TWICE = "counted twice"     # the reply counts the last token as reused, although it was evaluated


def run_data(run: Run) -> dict[str, Any]:
    """Return the data of a run. Counts are tokens: ``kept`` in the slot, ``restored`` from a checkpoint, ``loaded``
    from the prompt cache or pool, ``computed`` = evaluated: in all the ``prompt``, else ``not_summed`` has the reason.
    ``holds`` is True, False or None (undecided); ``unsettled``: requests whose outcome depends on uninitialised
    values; ``refused``: requests that got an error as in a cold run; ``told``: refused requests whose status the
    file expects. ``reason`` explains the reused tokens; ``read_instead`` names what a wrong answer read in place of
    its own rows and states; ``predicted``: verdicts and charges that depend on an outcome not seen on a real
    server; ``failure``: the causes of the first wrong answer. ``titles``: of words; ``not_run``: requests at the
    end that were not run because of the ``limit``. ``lcp``: common prefix of the prompt and the ``slot_held``
    tokens in the slot, None = without a slot; ``slot_tokens``: tokens in the slot afterwards. ``flags``: the
    server's."""
    requests = [request_data(run, i, one) for i, one in enumerate(run.requests)]
    return {
        "scenario": run.scenario.id,
        "title": run.scenario.title,
        "why": run.scenario.why,
        "titles": dict(run.scenario.titles),
        "verdict": verdict_of_run(requests, run.not_run),
        "lives": [_life_data(run, life) for life in run.scenario.lives if not _is_proposal(run)],
        "model": run.scenario.model,
        "profile": run.profile,
        "mode": run.mode,
        "flags": flags_data(run.profile, run.scenario.server, assumed_sizes(run.scenario)),
        "holds": run.verdict.equal_cold,
        "not_run": run.not_run,
        "limit": run.limit,
        "broken": run.broken,
        "unsettled": run.unsettled,
        "refused": run.refused,
        "told": run.told,
        "as_expected": not run.wrong if run.profile in run.scenario.expect else None,
        "mismatches": [mismatch._asdict() for mismatch in run.wrong],
        "requests": requests,
        "failure": failure_data(run, run.broken[0]) if run.broken and run.reader else None,
        "lost": [charge._asdict() for one in run.requests for charge in one.ledger.charges],
        "armed": [armed for i, one in enumerate(run.requests) for armed in _armed(run, i, one)],
        "predicted": [one._asdict() for one in predicted(run)],
    }


def _life_data(run: Run, life: Lives) -> dict[str, Any]:
    """Return the versions that show a fault; ``last`` is the newest version if that one still shows it."""
    last = life.last or engine_named(run.scenario.engine).line[-1]
    return {**life._asdict(), "last": last, "in_newest": not life.last}


def _is_proposal(run: Run) -> bool:
    """True if the rule set belongs to no build of the main branch, whose versions ``lives`` states."""
    return run.profile in engine_named(run.scenario.engine).beside


def request_data(run: Run, i: int, judgement: Judgement) -> dict[str, Any]:
    """Return the data of a request of a run."""
    answer, step = judgement.answer, run.scenario.steps[i]
    slots, alone = engine_named(run.scenario.engine).manual.slots, len(group_of(run.scenario.steps, i)) == 1
    data = {
        "i": i,
        "text": step.prompt,
        "why": step.why,
        "how": _how(step),
        **_tokens(judgement),
        "cache_n": answer.cache_n,
        "prompt_n": answer.prompt_n,
        "tokens_cached": answer.tokens_cached,
        "slot_tokens": judgement.slot_tokens,
        "id_slot": answer.id_slot,
        "status": answer.status,
        **{name: getattr(answer, name) for name in ("error", "died", "cancelled", "under")},
        "completions": 1 + len(answer.children) if step.action is None else 0,
        "draft_n": answer.draft_n,
        "draft_n_accepted": answer.draft_n_accepted,
        "rule": answer.deciding,
        "reason": reason(judgement, slots, alone) if step.action is None else step.action.do,
        "lcp": judgement.slot.lcp if judgement.slot else None,
        "slot_held": judgement.slot.held if judgement.slot else None,
        **_stored(run, i, judgement),
        "window": list(judged.window) if (judged := judgement.judged).window else None,
        "stored_mib": stored_mib(run.events(i)),
        "shifts": [list(shift) for shift in answer.shifts],
        **_judged(run, i, judgement),
        "best": judgement.ledger.best,
        "held": judgement.ledger.held,
        "moved": judgement.ledger.moved,
        "wrong": judgement.ledger.wrong,
        **memory_data(judgement, run.events(i)),
    }
    return {**data, "verdict": verdict_of(data)}


def _tokens(judgement: Judgement) -> dict[str, Any]:
    """Return the tokens of the prompt by their origin."""
    came = reused(judgement.answer)
    return {
        "prompt": len(judgement.request.prompt),
        "kept": came.kept,
        "restored": came.restored,
        "loaded": came.loaded,
        "computed": judgement.answer.prompt_n,
        "not_summed": not_summed(judgement),
    }


def not_summed(judgement: Judgement) -> str:
    """Return why the tokens of a request that were kept, restored, loaded and evaluated are not as many as its prompt
    has, "" if they are."""
    answer, prompt = judgement.answer, len(judgement.request.prompt)
    done = answer.cache_n + answer.prompt_n
    if done == prompt:
        return ""
    if answer.died or answer.status != 200:
        return "died" if answer.died else "error"
    if answer.repeated_n:
        return COUNTED_TWICE
    if answer.cancelled or not answer.done:
        return "cancelled" if answer.cancelled else "not answered"
    if done == len(prompt_of(judgement.request, answer)):
        return "shortened" if done < prompt else "system prompt"
    return "begun again" if done > prompt else "unknown"


def first_evaluated(data: Mapping[str, Any]) -> int:
    """Return the number of prompt tokens before the first evaluated one, from the data of a request."""
    cached: int = data["cache_n"]
    return cached - 1 if data["not_summed"] == COUNTED_TWICE else cached


def _judged(run: Run, i: int, judgement: Judgement) -> dict[str, Any]:
    judged = judgement.judged
    return {
        "client": client_digest(judgement),
        "equal_cold": judged.equal_cold,
        "refused": judged.is_refused,
        "rung": judged.wrong.rung if judged.wrong else "",
        "output_wrong": judged.answer.equal_cold is False,
        "fault": judged.fault,
        "read_instead": [sentence_of(read) for read in run.reads.get(i, ())],
        "read_from": [[read.start, read.stop, read.request, read.theirs] for read in run.reads.get(i, ())],
        "kind": judged.doubt.kind,
        "numbers": dict(judged.doubt.numbers),
    }


def _stored(run: Run, i: int, judgement: Judgement) -> dict[str, Any]:
    """Return the checkpoints and prompt cache entries after request i, and the preemptions meanwhile."""
    return {
        "checkpoints": judgement.checkpoints,
        "checkpoint_spans": [list(span) for span in judgement.spans],
        "entries": judgement.entries,
        "entry_tokens": list(judgement.stored),
        "entries_consumed": _consumed(run, i),
        "preemptions": preemptions(run.events(i)),
    }


def _consumed(run: Run, i: int) -> int:
    """Return the number of prompt cache entries that a load removed during request i."""
    gone = (event for event in run.events(i) if isinstance(event, Lost) and event.key[0] == CONVERSATION)
    return sum(event.cause == "consumed" for event in gone)


def preemptions(events: Sequence[Event]) -> int:
    """Return how often running requests gave up their memory to others."""
    return sum(isinstance(event, Decided) and role_of(event.rule) is Role.PREEMPT for event in events)


def _how(step: Step) -> str:
    """Return "completion", the name of the action, or "together" for a request sent while the previous request was
    processed."""
    if step.action is not None:
        return step.action.do
    return "together" if step.together else "completion"


def _armed(run: Run, i: int, judgement: Judgement) -> list[dict[str, Any]]:
    """Return the stored objects that are corrupt after request i; ``holds`` is their actual content."""
    return [
        {"request": i, "kind": stored.kind, "owner": stored.owner, "tokens": stored.length, "fault": verdict.why,
         "fault_kind": verdict.kind, "numbers": dict(verdict.numbers), "holds": run.content(stored)}
        for stored, verdict in judgement.judged.armed
    ]


def stored_mib(events: Sequence[Event]) -> float | None:
    """Return the size of the prompt cache [MiB] at its last update, None without an update."""
    return next((one.cached_mib for one in reversed(events) if one.cached_mib is not None), None)
