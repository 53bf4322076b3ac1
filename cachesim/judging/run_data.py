"""A judged run as plain data: what ``--json`` prints, and what the tables are made from."""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.base import prompt_of
from cachesim.engines.registry import engine_named
from cachesim.engines.rule import role_of
from cachesim.engines.shared.rule_outcomes import Outcome, case_of
from cachesim.events import Aborted, Decided, Event, Lost, PcState
from cachesim.judging.evidence import grade_of, predicted
from cachesim.judging.failure_chain import failure_data
from cachesim.judging.foreign_reads import sentence_of
from cachesim.judging.judged_run import Run
from cachesim.judging.judgement import Judgement
from cachesim.judging.recompute_reasons import reason, reasons, reused
from cachesim.judging.reproduce_command import flags_data
from cachesim.judging.verdict_text import sentence, verdict_of, verdict_of_run
from cachesim.scenarios.schema import Step


def run_data(run: Run) -> dict[str, Any]:
    """One run. Counts are tokens; ``kept`` stayed in the slot, ``restored`` came back from a checkpoint or, ``loaded``
    of them, from the prompt cache, ``computed`` were evaluated; ``holds`` is True, False or None (undecided);
    ``unsettled`` are the requests whose outcome depends on uninitialised values, ``refused`` those that got an error as
    a cold run does, ``told`` the refused ones whose file expects it. ``verdict`` is what reports say of a request and
    of the run, ``reason`` how it came to its reused tokens, ``read_instead`` what a wrong answer read in place of its
    own rows and states; ``predicted`` the verdicts and charges that depend on an outcome which no real server was seen
    to have; ``failure`` how the first wrong one came about. ``lcp``: of the prompt with the ``slot_held``
    tokens that were in the slot, None = no slot. ``flags`` are those of the server."""
    requests = [request_data(run, i, one) for i, one in enumerate(run.requests)]
    return {
        "scenario": run.scenario.id,
        "title": run.scenario.title,
        "why": run.scenario.why,
        "verdict": verdict_of_run(requests),
        "lives": [one._asdict() for one in run.scenario.lives],
        "model": run.scenario.model,
        "profile": run.profile,
        "mode": run.mode,
        "flags": flags_data(run.profile, run.scenario.server),
        "holds": run.verdict.holds,
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


def request_data(run: Run, i: int, one: Judgement) -> dict[str, Any]:
    """One request of a run."""
    answer, step, came = one.answer, run.scenario.steps[i], reused(one.answer)
    data = {
        "i": i,
        "text": step.prompt,
        "why": step.why,
        "how": _how(step),
        "prompt": len(one.request.prompt),
        "kept": came.kept,
        "restored": came.restored + came.loaded,
        "loaded": came.loaded,
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
        "reason": reason(one) if step.action is None else step.action.do,
        "lcp": one.slot.lcp if one.slot else None,
        "slot_held": one.slot.held if one.slot else None,
        **_stored(run, i, one),
        "window": list(judged.window) if (judged := one.judged).window else None,
        "stored_mib": stored_mib(run.events(i)),
        "shifts": [list(one) for one in answer.shifts],
        **_judged(run, i, one),
        "best": one.ledger.best,
        "held": one.ledger.held,
        "moved": one.ledger.moved,
        "wrong": one.ledger.wrong,
    }
    return {**data, "verdict": verdict_of(data)}


def _judged(run: Run, i: int, one: Judgement) -> dict[str, Any]:
    judged = one.judged
    return {
        "equal_cold": judged.equal_cold,
        "refused": judged.refused,
        "rung": judged.wrong.rung if judged.wrong else "",
        "output_wrong": judged.answer.holds is False,
        "fault": judged.fault,
        "read_instead": [sentence_of(read) for read in run.reads.get(i, ())],
        "read_from": [[read.start, read.stop, read.request, read.theirs] for read in run.reads.get(i, ())],
        "kind": judged.doubt.kind,
        "numbers": dict(judged.doubt.numbers),
    }


def _stored(run: Run, i: int, one: Judgement) -> dict[str, Any]:
    """Checkpoints and prompt cache entries after request i."""
    return {
        "checkpoints": one.checkpoints,
        "checkpoint_spans": [list(span) for span in one.spans],
        "entries": one.entries,
        "entry_tokens": list(one.stored),
        "entries_consumed": _consumed(run, i),
    }


def _consumed(run: Run, i: int) -> int:
    """Entries of the prompt cache that a load removed during request i."""
    gone = (event for event in run.events(i) if isinstance(event, Lost) and event.key[0] == "entry")
    return sum(event.cause == "consumed" for event in gone)


def _how(step: Step) -> str:
    """"completion", the name of the action, or "together" for a request sent while the one before was at work."""
    if step.action is not None:
        return step.action.do
    return "together" if step.together else "completion"


def _armed(run: Run, i: int, one: Judgement) -> list[dict[str, Any]]:
    """Stored objects that are not what the engine believes, after request i; ``holds`` is what is in them instead."""
    return [
        {"request": i, "kind": stored.kind, "owner": stored.owner, "tokens": stored.resume, "fault": verdict.why,
         "fault_kind": verdict.kind, "numbers": dict(verdict.numbers), "holds": run.content(stored)}
        for stored, verdict in one.judged.armed
    ]


def stored_mib(events: Sequence[Event]) -> float | None:
    """Size of the prompt cache as its last update says it, None where there was none."""
    return next((one.mib for one in reversed(events) if isinstance(one, PcState)), None)


# Everything about one request of a judged run, as data: what `why` prints.

def why_data(run: Run, number: int, others: Sequence[tuple[str, int]] = ()) -> dict[str, Any]:
    """The verdict about one request, its decisions, and why each token was evaluated, as data. ``others`` are (profile,
    cache_n) of the same request under all rule sets whose answer was right; ``output_wrong``: it is the answer that is
    wrong, not only what it left behind; ``known_bug``: the file expects it to be wrong."""
    one, step = run.requests[number], run.scenario.steps[number]
    data = request_data(run, number, one)
    expected = run.scenario.expect.get(run.profile)
    same = ("cache_n", "best", "held", "equal_cold", "refused", "rung", "fault", "kind", "numbers", "output_wrong",
            "verdict", "kept", "restored", "loaded", "reason", "read_instead", "prompt_n", "status",
            "died")  # fmt: skip
    return {
        "scenario": run.scenario.id,
        "title": run.scenario.title,
        "why": run.scenario.why,
        "request_why": step.why,
        "profile": run.profile,
        "flags": flags_data(run.profile, run.scenario.server),
        "request": number,
        "text": step.text,
        "prompt": len(prompt_of(one.request, one.answer)),
        **{name: data[name] for name in same},
        "lost": [charge._asdict() for charge in one.ledger.charges],
        "computed": [reason._asdict() for reason in reasons(one, others, engine_named(run.scenario.engine).keeps)],
        "told": number in run.told,
        "known_bug": expected is not None and number in expected.broken,
        "failure": failure_data(run, number) if one.judged.equal_cold is False else None,
        "predicted": [found._asdict() for found in predicted(run) if found.request == number],
        "doubt": one.judged.answer.why if number in run.unsettled else "",
        "decisions": [said for event in run.events(number) if (said := _step(run.profile, event)) is not None],
    }


def _step(profile: str, event: Any) -> dict[str, Any] | None:
    if isinstance(event, Decided):
        outcome = Outcome(event.rule, event.case or case_of(event.value))
        text = sentence(event.rule, event.value, event.because, every=True)
        dull = not sentence(event.rule, event.value, event.because)
        because = {k: _plain(v) for k, v in event.because.items()}
        return {"rule": event.rule, "role": role_of(event.rule), "says": text, "dull": dull,
                "value": _plain(event.value), "because": because,
                "grade": grade_of(profile.partition("@")[0], outcome)}
    if isinstance(event, Aborted):
        says = f"the server process ends: {event.text}"
        return {"rule": "", "role": None, "says": says, "dull": False, "value": None, "because": {}, "grade": None}
    return None


def _plain(value: Any) -> Any:
    """A number, text or list that JSON can hold."""
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
