"""Comparison of a report with the truth about a recorded log, and with what the lines of the excerpt determine."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Iterator, Mapping, Sequence

from cachesim.engines.llama_cpp.flags import Options
from tests.logs.slow_logs.determined import Determined, Range
from tests.logs.slow_logs.recorded_log import RECORDED_BUILD, RecordedLog, Truth
from tests.logs.slow_logs.report_claims import Claim, Headline, Report, read_headline
from tests.logs.slow_logs.true_causes import (
    UNJUDGED,
    compared_prefixes,
    losses,
    why_cause_is_false,
    why_change_is_false,
)

COUNTS = ("reused", "evaluated")
NUMBERS = {"prompt": "prompt", "reused": "reused", "evaluated": "evaluated", "generated": "generated", "end": "end"}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TRACE_FLAG = "-lv 4"
TRACE_LINES = ("memory_seq_rm", "created context checkpoint", "checking sim", "cache state:")


@dataclass(frozen=True, slots=True)
class FalseClaim:
    """A false statement with the truth about it."""

    part: str
    task: int | None
    stated: str
    true: str

    def __str__(self) -> str:
        about = "" if self.task is None else f" task {self.task}"
        return f"{self.part}{about}: {self.stated}; true: {self.true}"


@dataclass(slots=True)
class Result:
    """Result for a log or an excerpt. ``shares``: counted numbers: "counts", "counts determined", "counts stated" (of
    those determined), "causes determined", "causes stated", and the same for the whole log."""

    false: list[FalseClaim] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    shares: Counter[str] = field(default_factory=Counter)
    unjudged: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    outcome: str = ""
    has_lengths: bool = False


def compare(log: RecordedLog, lines: Sequence[str], report: Report, found: Mapping[int, Determined]) -> Result:
    """Compare a report with the truth. ``found``: what the lines determine."""
    result = Result(outcome=report.outcome)
    seen: set[tuple[int | None, str]] = set()
    for claim in dict.fromkeys(_comparable(claim) for claim in report.claims):
        if claim.part == "contradiction" and (claim.task, claim.name) in seen:
            continue                            # counted once for each number of a request
        seen |= {(claim.task, claim.name)} if claim.part == "contradiction" else set()
        why = _why_misread(lines, claim) if claim.part == "read" else _why_false(log, claim)
        if why == UNJUDGED:
            result.unjudged[f"{claim.part} {claim.name}"] += 1
        elif why:
            result.false.append(FalseClaim(claim.part, claim.task, claim.text or _stated(claim), why))
    result.false += _false_sentences(log, lines, report, found)
    result.inner += _contradictions(report)
    _count(log, report, found, result)
    return result


def _comparable(claim: Claim) -> Claim:
    """Return a claim whose value can be hashed."""
    value = claim.value
    hashable = tuple(value) if isinstance(value, list) else (tuple(value[0]), value[1]) if isinstance(value, tuple) \
        and len(value) == 2 and isinstance(value[0], list) else value  # fmt: skip
    return Claim(claim.part, claim.name, claim.low, claim.high, claim.task, hashable, claim.text)


def _stated(claim: Claim) -> str:
    return f"{claim.name} = {claim.low}" if claim.is_exact else f"{claim.name} = {claim.low} to {claim.high}"


def _why_false(log: RecordedLog, claim: Claim) -> str:
    """Return the truth that a claim contradicts, "" if it is true."""
    if claim.part == "contradiction":
        return "the lines are of one server, and agree"
    if claim.part == "option":
        return _why_option_is_false(log, claim)
    if claim.part == "build":
        return "" if _contains(claim.value, log.build) else f"the build is {log.build}"
    if claim.part == "memory":
        return "" if log.memory == "attention" or claim.value != "any" else f"the memory is {log.memory}"
    if claim.part == "sum":
        return _why_sum_is_false(log, claim)
    truth = log.requests.get(claim.task) if claim.task is not None else None
    if claim.part == "cause":
        return why_cause_is_false(log, truth, claim)
    if truth is None:
        return f"the log has no task {claim.task}" if claim.task is not None else UNJUDGED
    if claim.part == "loss":
        return _why_loss_is_false(log, truth, claim)
    if claim.part == "client change":
        return why_change_is_false(log, truth, claim.name)
    return _why_number_is_false(log, truth, claim)


def _why_misread(lines: Sequence[str], claim: Claim) -> str:
    """Return why a read statement is false: its numbers must stand in its lines."""
    numbers, printed = claim.value
    if not all(0 < number <= len(lines) for number in numbers):
        return f"the excerpt has {len(lines)} lines"
    text = " ".join(lines[number - 1] for number in numbers)
    found = {float(word) for word in NUMBER.findall(text)}
    missing = [value for value in printed if value not in found]
    return f"not in the line: {', '.join(map(str, missing))}" if missing else ""


def _contains(value: object, true: int) -> bool:
    if isinstance(value, list | tuple):
        low, high = value
        return (low is None or low <= true) and (high is None or true <= high)
    return value == true


def _why_option_is_false(log: RecordedLog, claim: Claim) -> str:
    if claim.name not in log.options:
        return UNJUDGED
    true = log.options[claim.name]
    if (claim.name == "checkpoint_min_step" and true < 0) or (claim.name == "parallel" and true < 0):
        return UNJUDGED                         # the server chose it
    if log.build != RECORDED_BUILD and true == getattr(Options(), claim.name):
        return UNJUDGED                         # builds have other defaults
    same = claim.value == true or (isinstance(claim.value, tuple) and not isinstance(true, str) and _contains(
        claim.value, true))  # fmt: skip
    return "" if same else f"{claim.name} is {true}"


def _why_sum_is_false(log: RecordedLog, claim: Claim) -> str:
    tasks, is_assumed = claim.value
    if any(task not in log.requests or log.requests[task]["reused"] is None for task in tasks):
        return UNJUDGED
    truths = [log.requests[task] for task in tasks]
    if claim.name == "lost":
        if is_assumed:
            return UNJUDGED
        low = sum(min(losses(log, truth)) for truth in truths)
        high = sum(max(losses(log, truth)) for truth in truths)
    else:
        low = high = sum(truth["prompt" if claim.name == "tokens" else "evaluated"] for truth in truths)
    return "" if claim.low is not None and low <= claim.low <= high else f"the sum is {low} to {high}"


def _why_loss_is_false(log: RecordedLog, truth: Truth, claim: Claim) -> str:
    """Return why a request does not belong to those that evaluated tokens again, or from position 0."""
    if claim.value or truth["reused"] is None:
        return UNJUDGED
    if max(losses(log, truth)) == 0:
        return "no token was evaluated again"
    return f"reused is {truth['reused']}" if claim.name != "again" and truth["reused"] else ""


def _why_number_is_false(log: RecordedLog, truth: Truth, claim: Claim) -> str:
    """Return why a number of a request is false. A cancelled request has bounds instead of counts."""
    if claim.name in NUMBERS:
        true = truth[NUMBERS[claim.name]]
        if true is None:
            return _why_cancelled_is_false(truth, claim)
        return "" if claim.contains(true) else f"{claim.name} is {true}"
    if claim.name == "lost":
        if truth["reused"] is None:
            return UNJUDGED
        values = losses(log, truth)
    else:
        values = {pair[claim.name == "held"] for pair in compared_prefixes(log, truth)}
    return "" if any(map(claim.contains, values)) else f"{claim.name} is {' or '.join(map(str, sorted(values)))}"


def _why_cancelled_is_false(truth: Truth, claim: Claim) -> str:
    """Return why a count of a cancelled request is false: what is in the slot bounds it."""
    in_slot = min(truth["end"], truth["prompt"])
    bounds = {
        "reused": Range(0, min(in_slot, truth["prompt"] - 1)),
        "evaluated": Range(0, in_slot),
        "generated": Range(0, max(0, truth["end"] - truth["prompt"]) + 1),
    }[claim.name]
    low, high = claim.low or 0, bounds.high if claim.high is None else claim.high
    is_possible = low <= bounds.high and high >= bounds.low
    return "" if is_possible else f"{claim.name} is {bounds.low} to {bounds.high} (cancelled)"


def _false_sentences(
    log: RecordedLog, lines: Sequence[str], report: Report, found: Mapping[int, Determined]
) -> Iterator[FalseClaim]:
    """Yield false statements of the headline, and advice to log lines that the log has."""
    headline = read_headline(report.headline)
    if headline is None:
        yield FalseClaim("headline", None, report.headline, "this form is unknown to the comparison")
    else:
        yield from _false_headline(log, headline, report.headline, found)
    for sentence in report.missing:
        if TRACE_FLAG in sentence and any(kind in line for line in lines for kind in TRACE_LINES):
            yield FalseClaim("missing", None, sentence, f"the log has lines of {TRACE_FLAG}")


def _false_headline(
    log: RecordedLog, headline: Headline, text: str, found: Mapping[int, Determined]
) -> Iterator[FalseClaim]:
    present = [truth for truth in log.completed if truth["task"] in found and found[truth["task"]].is_complete]
    prompts = sum(truth["prompt"] for truth in log.requests.values())
    if headline.tokens is not None and headline.tokens > prompts:
        yield FalseClaim("headline", None, text, f"the prompts have {prompts} tokens")
    least = sum(min(losses(log, truth)) for truth in present)
    if headline.most is not None and least > headline.most:
        yield FalseClaim("headline", None, text, f"{least} tokens were evaluated again")
    if headline.again is None:
        return
    most = sum(max(losses(log, truth)) for truth in log.completed)
    if headline.again > most:
        yield FalseClaim("headline", None, text, f"{most} tokens were evaluated again")
    if headline.again == 0 and least:
        yield FalseClaim("headline", None, text, f"{least} tokens were evaluated again")
    affected = sum(1 for truth in log.completed if max(losses(log, truth)))
    if headline.requests > affected:
        yield FalseClaim("headline", None, text, f"{affected} requests evaluated tokens again")


def _contradictions(report: Report) -> Iterator[str]:
    """Yield contradictions inside a report: headline, table, simulated requests and sums."""
    ranges: dict[tuple[int | None, str], Claim] = {}
    for claim in report.claims:
        if claim.part in ("table", "simulated"):
            other = ranges.setdefault((claim.task, claim.name), claim)
            if not _overlap(claim, other):
                yield f"task {claim.task}: {_stated(other)} ({other.part}), {_stated(claim)} ({claim.part})"
    headline = read_headline(report.headline)
    if headline is None:
        return
    table = [claim for claim in report.claims if claim.part == "table"]
    lost = {claim.task: claim.low or 0 for claim in report.claims if claim.part == "cause" and claim.low}
    lost |= {claim.task: claim.low or 0 for claim in table if claim.name == "lost"}
    if headline.again is not None and headline.requests and headline.again != sum(lost.values()):
        yield f"headline: {headline.again} tokens again, table: {sum(lost.values())}"
    sums = {claim.name: claim for claim in report.claims if claim.part == "sum"}
    if report.outcome == "accepted" and headline.again == 0 and "lost" in sums and (sums["lost"].low or 0) > 0:
        yield f"headline: no tokens again, simulated: {sums['lost'].low}"
    simulated = sums["lost"].low or 0 if "lost" in sums and report.outcome == "accepted" else 0
    if headline.most is not None and simulated > headline.most:
        yield f"headline: at most {headline.most} tokens again, simulated: {simulated}"
    exact = {(claim.task, claim.name): claim.low or 0 for claim in table if claim.is_exact}
    tasks = [task for task, name in exact if name == "prompt" and (task, "evaluated") in exact]
    if headline.tokens is not None and headline.tokens != sum(exact[task, "prompt"] for task in tasks):
        yield f"headline: {headline.tokens} prompt tokens, table: {sum(exact[task, 'prompt'] for task in tasks)}"


def _overlap(claim: Claim, further: Claim) -> bool:
    low = max(claim.low or 0, further.low or 0)
    highs = [one.high for one in (claim, further) if one.high is not None]
    return not highs or low <= min(highs)


def _count(log: RecordedLog, report: Report, found: Mapping[int, Determined], result: Result) -> None:
    """Count what the lines determine, and what of it the report states."""
    exact = {(claim.task, claim.name): claim for claim in report.claims if claim.part == "table" and claim.is_exact}
    ranges = {(claim.task, claim.name): claim for claim in report.claims if claim.part == "table"}
    causes = {claim.task for claim in report.claims if claim.part == "cause" and not _why_false(log, claim)}
    lost = {claim.task for claim in report.claims if claim.part in ("table", "cause") and claim.low
            and (claim.name == "lost" or claim.part == "cause")}  # fmt: skip
    for truth in log.completed:
        task = truth["task"]
        request = found.get(task)
        for name in COUNTS:
            result.shares["counts"] += request is not None
            if request is None:
                continue
            span: Range = getattr(request, name)
            if span.is_exact:
                result.shares["counts determined"] += 1
                result.shares["counts stated"] += (task, name) in exact
                if (task, name) not in exact:
                    stated = _stated(ranges[task, name]) if (task, name) in ranges else "nothing"
                    result.missed.append(f"task {task}: {name} = {span.low} is determined, stated: {stated}")
            result.shares["counts stated in all"] += (task, name) in exact
        if request is not None and request.cause:
            result.shares["causes determined"] += 1
            result.shares["causes stated"] += task in causes
            if task not in causes:
                result.missed.append(f"task {task}: cause {request.cause} is determined")
        if request is not None and request.is_loss:
            result.shares["losses determined"] += 1
            result.shares["losses stated"] += task in lost
        result.has_lengths |= request is not None and request.prompt.is_exact and request.reused.is_exact
