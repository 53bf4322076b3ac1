"""Everything about one request of a judged run, as data: what `why` prints."""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.base import prompt_of
from cachesim.engines.rule import role_of
from cachesim.engines.shared.outcomes import Outcome, case_of
from cachesim.events import Aborted, Decided
from cachesim.judging.evidence import grade_of
from cachesim.judging.evidence_of_run import predicted
from cachesim.judging.failure_chain import failure_data
from cachesim.judging.flags_line import flags_data
from cachesim.judging.judged_run import Run
from cachesim.judging.recompute_reasons import reasons
from cachesim.judging.run_data import request_data
from cachesim.judging.sentences import sentence


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
        "lost": [charge._asdict() for charge in one.account.charges],
        "computed": [reason._asdict() for reason in reasons(one, others)],
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
