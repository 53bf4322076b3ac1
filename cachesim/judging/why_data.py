"""The data of ``cachesim why``: the verdict about a request, its decisions, and the reasons for evaluated tokens."""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.base import prompt_of
from cachesim.engines.registry import engine_named
from cachesim.engines.rule import role_of
from cachesim.engines.rule_outcomes import Outcome, case_of
from cachesim.events import Aborted, Decided
from cachesim.judging.decided_text import decided_data
from cachesim.judging.deciding_rule import DecidingRule
from cachesim.judging.deciding_setting import DecidingSetting
from cachesim.judging.evidence import grade_of, predicted
from cachesim.judging.failure_chain import failure_data
from cachesim.judging.judged_run import Run
from cachesim.judging.recompute_reasons import reasons
from cachesim.judging.reproduce_command import flags_data
from cachesim.judging.run_data import request_data
from cachesim.judging.setting_text import settings_data
from cachesim.judging.unused_point import UnusedPoint, unused_data
from cachesim.judging.verdict_text import sentence
from cachesim.scenarios.real_builds import real_builds, seen_text
from cachesim.scenarios.server_settings import assumed_sizes


def answer_data(run: Run, number: int, is_compared: bool = False) -> dict[str, Any]:
    """Return the verdict about a request, its decisions, and the reason for each evaluated token: the data of
    ``cachesim why`` that need neither a search nor a further run. ``is_compared``: also those that tell equal outcomes
    of rule sets apart, with further runs. ``output_wrong``: the answer itself is wrong, not only the state it left
    behind; ``known_bug``: the file expects it to be wrong."""
    one, step = run.requests[number], run.scenario.steps[number]
    row = request_data(run, number, one)
    expected = run.scenario.expect.get(run.profile)
    same = ("cache_n", "best", "held", "equal_cold", "refused", "rung", "fault", "kind", "numbers", "output_wrong",
            "verdict", "kept", "restored", "loaded", "not_summed", "reason", "read_instead", "prompt_n", "status",
            "died", "client", "sizes", "uncounted", "draft_memory", "micro_batches")  # fmt: skip
    return {
        "scenario": run.scenario.id,
        "title": run.scenario.title,
        "why": run.scenario.why,
        "request_why": step.why,
        "real_builds": seen_text(real_builds(run.scenario.id)),
        "profile": run.profile,
        "flags": flags_data(run.profile, run.scenario.server, assumed_sizes(run.scenario)),
        "request": number,
        "text": step.text,
        "prompt": len(prompt_of(one.request, one.answer)),
        **{name: row[name] for name in same},
        "decided": None,
        "settings": None,
        "unused": None,
        "lost": [charge._asdict() for charge in one.ledger.charges],
        "computed": [reason._asdict() for reason in reasons(one, (), engine_named(run.scenario.engine).keeps)],
        "told": number in run.told,
        "known_bug": expected is not None and number in expected.broken,
        "failure": failure_data(run, number) if one.judged.equal_cold is False else None,
        "predicted": _predicted(run, number) if is_compared else None,
        "doubt": one.judged.answer.why if number in run.unsettled else "",
        "decisions": [said for event in run.events(number) if (said := _step(run.profile, event)) is not None],
    }


def with_search(
    data: dict[str, Any], run: Run, number: int, others: Sequence[tuple[str, int]], decided: DecidingRule | None,
    unused: list[UnusedPoint] | None, settings: DecidingSetting | None,
) -> dict[str, Any]:
    """Return all data of ``cachesim why``. ``data``: those of ``answer_data``; ``others``: (profile, cache_n) of the
    same request under all rule sets that answer correctly; ``decided``: the rule that decided its failure;
    ``settings``: those of the server that decided it; ``unused``: objects that it did not use."""
    found = reasons(run.requests[number], others, engine_named(run.scenario.engine).keeps)
    return {
        **data,
        "decided": decided_data(decided),
        "settings": settings_data(settings, run, decided),
        "unused": unused_data(unused),
        "computed": [reason._asdict() for reason in found],
        "predicted": _predicted(run, number) if data["predicted"] is None else data["predicted"],
    }


def _predicted(run: Run, number: int) -> list[dict[str, Any]]:
    """Return the results of a request that depend on outcomes that were only read."""
    return [found._asdict() for found in predicted(run, of=number) if found.request == number]


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
        says = f"the server stops: {event.text}"
        return {"rule": "", "role": None, "says": says, "dull": False, "value": None, "because": {}, "grade": None}
    return None


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: a number, text or list."""
    if isinstance(value, tuple | list):
        return [v if type(v) is int else _plain(v) for v in value]      # many are tokens
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
