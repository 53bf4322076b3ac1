"""Comparison of the importer's statements with the truth about an excerpt."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from tests.logs.cuts import Excerpt, Origin
from tests.logs.full_logs import CauseTruth, FullLog, LoggedLine, TaskTruth
from tests.logs.spelling import CACHE_KINDS, NAMES

Said = Mapping[str, Any]
"""A statement as in ``import --json``."""


class False_(NamedTuple):
    """A false statement, and why it is false."""

    why: str
    said: Said


@dataclass(slots=True)
class Result:
    """Result of an excerpt. ``due``: causes whose deciding line is in the excerpt: key, whether one was named, task."""

    false: list[False_] = field(default_factory=list)
    cache_lines: int = 0
    covered: int = 0
    silent: list[str] = field(default_factory=list)  # cache lines without a statement
    due: list[tuple[str, bool, int]] = field(default_factory=list)  # key, named, task
    apart: list[tuple[str, bool]] = field(default_factory=list)  # causes that are not demanded
    said: Counter[str] = field(default_factory=Counter)
    unjudged: int = 0


def compare(excerpt: Excerpt, statements: Sequence[Said]) -> Result:
    """Compare the statements about an excerpt with the truth."""
    result = Result()
    for said in statements:
        result.said[said["what"] if said["kind"] == "follows" else said["kind"]] += 1
        check = _read if said["kind"] == "read" else FOLLOWS.get(said["what"])
        why = "unknown kind of statement" if check is None else check(excerpt, said)
        if why == UNJUDGED:
            result.unjudged += 1
        elif why:
            result.false.append(False_(why, said))
    _cover(excerpt, statements, result)
    _count_causes(excerpt, statements, result)
    return result


UNJUDGED = "unjudged"
"""Verdict about a statement whose truth the generator does not know."""


def _origins(excerpt: Excerpt, said: Said) -> list[Origin]:
    """Return the lines of the full logs that a statement cites."""
    return [
        one for number in said["lines"] if 0 < number <= len(excerpt.origins) for one in excerpt.origins[number - 1]
    ]


def _read(excerpt: Excerpt, said: Said) -> str:
    """Return why a read statement is false, "" if it is true."""
    if len(said["lines"]) != 1:
        return "a read statement cites one line"
    cited = _origins(excerpt, said)
    if not cited:
        return "no line begins there"
    found = [_misread(excerpt.source(one), said) for one in cited]
    return "" if "" in found else found[0]


def _misread(line: LoggedLine, said: Said) -> str:
    kind, names = NAMES.get(line.ev, (line.ev, {}))
    known = {names.get(name, name): value for name, value in line.fields.items()}
    if line.ev not in ("", "warn", "error") and said["what"] != kind:
        return f"the line is {kind!r}"
    if said["slot"] is not None and line.slot is not None and said["slot"] != line.slot:
        return f"the slot is {line.slot}"
    if said["task"] is not None and said["task"] != line.task:
        return f"the task is {line.task}"
    for name, value in said["numbers"].items():
        if name in known:
            if isinstance(value, str) or float(value) != float(known[name]):
                return f"{name} is {known[name]}"
        elif not isinstance(value, bool) and not _prints(line.text, value):
            return f"{name} = {value} is not in the line"
    return ""


def _prints(text: str, value: Any) -> bool:
    """Return whether a line contains a number or a word outside the fields of its event."""
    if isinstance(value, str):
        return re.search(rf"(?<![\w.]){re.escape(value)}", text) is not None
    return any(float(word) == value for word in re.findall(r"-?\d+(?:\.\d+)?", text))


def _tasks(excerpt: Excerpt, said: Said) -> list[tuple[FullLog, TaskTruth]]:
    """Return the truths about the task of a statement: by its id, else by the lines that it cites."""
    cited = _origins(excerpt, said)
    logs = {one.log for one in cited} or {0}
    if said["task"] is not None:
        return [(excerpt.logs[at], excerpt.logs[at].tasks[said["task"]]) for at in sorted(logs)
                if said["task"] in excerpt.logs[at].tasks]  # fmt: skip
    found: dict[int, tuple[FullLog, TaskTruth]] = {}
    for one in cited:
        log, line = excerpt.logs[one.log], excerpt.source(one)
        for truth in log.tasks.values():
            if truth.step in line.steps:
                found[id(truth)] = log, truth
    return list(found.values())


def _without_truth(excerpt: Excerpt, said: Said) -> str:
    """Return the verdict about a statement on a task without a truth: a request that got no answer is not judged."""
    cited = _origins(excerpt, said)
    of_task = [line for one in cited for line in excerpt.logs[one.log].lines if line.ev and line.task == said["task"]]
    known = of_task if said["task"] is not None else any(excerpt.source(one).ev for one in cited)
    return UNJUDGED if known else "no such task"


def contains(claimed: Any, value: int) -> bool:
    """Return whether a number, or a range with open ends None, contains a value."""
    if isinstance(claimed, list | tuple):
        low, high = claimed
        return (low is None or low <= value) and (high is None or value <= high)
    return not isinstance(claimed, bool) and claimed == value


def _request(excerpt: Excerpt, said: Said) -> str:
    truths = _tasks(excerpt, said)
    if not truths:
        return _without_truth(excerpt, said)
    wrong = [_wrong_number(truth, said["numbers"]) for _, truth in truths]
    if "" in wrong:
        return ""
    return UNJUDGED if UNJUDGED in wrong else wrong[0]


def _wrong_number(truth: TaskTruth, numbers: Mapping[str, Any]) -> str:
    for name, claimed in numbers.items():
        if name not in truth.numbers:
            return UNJUDGED if name in NUMBERS else f"unknown number {name}"
        if not any(contains(claimed, value) for value in truth.numbers[name]):
            return f"{name} is {' or '.join(map(str, sorted(truth.numbers[name])))}"
    return ""


NUMBERS = ("n_tokens", "cache_n", "prompt_n", "predicted_n", "lcp", "held", "end", "lost")


def _logs(excerpt: Excerpt, said: Said) -> list[FullLog]:
    """Return the full logs that a statement cites; all if it cites no line."""
    return [excerpt.logs[at] for at in sorted({one.log for one in _origins(excerpt, said)})] or list(excerpt.logs)


def _build(excerpt: Excerpt, said: Said) -> str:
    logs = _logs(excerpt, said)
    if any(contains(said["numbers"]["build"], log.build) or not log.build for log in logs):
        return ""
    return f"the build is {logs[0].build}"


def _option(excerpt: Excerpt, said: Said) -> str:
    for name, claimed in said["numbers"].items():
        values = [log.options[name] for log in _logs(excerpt, said) if name in log.options]
        if not values:
            return UNJUDGED
        if not any(value == claimed or (isinstance(claimed, list) and contains(claimed, value)) for value in values):
            return f"{name} is {values[0]}"
    return ""


def _memory(excerpt: Excerpt, said: Said) -> str:
    logs = _logs(excerpt, said)
    return "" if any(said["numbers"].get("cut") in log.cuts for log in logs) else f"it allows {sorted(logs[0].cuts)}"


def _contradiction(excerpt: Excerpt, said: Said) -> str:
    return "" if len(excerpt.logs) > 1 and excerpt.cut == "mixed" else "the numbers are those of one run"


def _cause(excerpt: Excerpt, said: Said) -> str:
    """Return why a named cause is false: its key must belong to a cause of the task whose deciding line is in the
    excerpt, and the statement must cite such a line."""
    key, truths = said["numbers"].get("cause"), _tasks(excerpt, said)
    if not truths:
        return _without_truth(excerpt, said)
    if all(truth.causes is None for _, truth in truths):
        return UNJUDGED
    cited = {(id(excerpt.logs[one.log]), one.line) for one in _origins(excerpt, said)}
    why = "no such cause"
    for log, truth in truths:
        for cause in [*accepted(log, truth), *(truth.causes or []), *truth.elsewhere]:
            if cause.key != key:
                continue
            if not any((id(log), line) in cited for line in cause.lines):
                why = "the deciding line is not among its lines"
                continue
            lost = said["numbers"].get("lost")
            if lost is None or any(contains(lost, one) for one in _losses(truth)):
                return ""
            why = f"lost is {sorted(_losses(truth))}"
    if why == "no such cause":
        keys = sorted({cause.key for _, truth in truths for cause in [*(truth.causes or []), *truth.elsewhere]})
        why = f"no such cause, but {', '.join(keys) or 'none'}"
    return why


def _losses(truth: TaskTruth) -> set[int]:
    """Return the losses that may be stated with a cause: of the slot's prefix, of a charge, or of all charges."""
    return {truth.lost, *truth.numbers.get("lost", ()), *truth.charges, sum(truth.charges)}


def accepted(log: FullLog, truth: TaskTruth) -> Iterator[CauseTruth]:
    """Yield causes that lie in the client's change of the prompt or are quoted from the server. Every line of the
    task may show the first; a warning must be cited."""
    own = tuple(at for at, line in enumerate(log.lines) if truth.step in line.steps)
    numbers = truth.numbers
    n_tokens, lcps, helds = max(numbers.get("n_tokens", {0})), numbers.get("lcp", {0}), numbers.get("held", {0})
    if n_tokens and n_tokens in lcps:
        yield CauseTruth("identical-prompt", own)
    if any(lcp < min(n_tokens, max(helds)) for lcp in lcps):
        yield CauseTruth("edited-prompt", own)
        yield CauseTruth("lost-prefix", own)
    warnings = tuple(at for at, line in enumerate(log.lines) if line.ev in WARNINGS)
    yield CauseTruth("server-warning", warnings)
    for key, evs in (("cache-disabled", ("no_cache", "no_ckpt")), ("context-shift", ("ctx_shift",))):
        yield CauseTruth(key, tuple(at for at, line in enumerate(log.lines) if line.ev in evs))
    yield CauseTruth("chunks-moved", tuple(at for at in own if log.lines[at].ev == "reuse_chunk"))


def own_lines(log: FullLog, task: int) -> list[int]:
    """Return the lines that name a task. A cause is demanded only if its request is in the excerpt, too."""
    return [at for at, line in enumerate(log.lines) if line.task == task and line.ev]


WARNINGS = ("warn", "error", "no_cache", "no_ckpt", "reuse_unsupported", "kv_full", "pc_too_big", "pc_load_failed")
FOLLOWS = {"request": _request, "build": _build, "option": _option, "memory": _memory, "cause": _cause,
           "contradiction": _contradiction}  # fmt: skip


def _cover(excerpt: Excerpt, statements: Sequence[Said], result: Result) -> None:
    """Count the complete lines about caches, and those with a statement of their own."""
    kinds: dict[int, set[str]] = {}
    for said in statements:
        for number in said["lines"]:
            kinds.setdefault(number, set()).add(said["what"])
    for number, origins in enumerate(excerpt.origins, 1):
        for one in origins:
            line = excerpt.source(one)
            if line.ev not in CACHE_KINDS or not one.whole:
                continue
            result.cache_lines += 1
            if NAMES.get(line.ev, (line.ev, {}))[0] in kinds.get(number, ()):
                result.covered += 1
            else:
                result.silent.append(line.text)


def _count_causes(excerpt: Excerpt, statements: Sequence[Said], result: Result) -> None:
    """Count the requests whose cause is in the excerpt, and those of them whose cause was named.

    The decision within the request counts. If its build does not log it, an earlier decision counts that the ledger
    charges. Where both are in the excerpt, the earlier is counted apart: was it named, too?
    """
    named = [said for said in statements if said["what"] == "cause" and said["kind"] == "follows"]
    present = {(one.log, one.line) for origins in excerpt.origins for one in origins if one.whole}
    for at, log in enumerate(excerpt.logs):

        def here(causes: Sequence[CauseTruth], at: int = at) -> list[CauseTruth]:
            return [cause for cause in causes if any((at, line) in present for line in cause.lines)]

        for task, truth in log.tasks.items():
            said_keys = {said["numbers"].get("cause") for said in named if _about(excerpt, said, task, truth)}
            own = [cause for cause in truth.causes or [] if cause.own]
            earlier = here([cause for cause in truth.causes or [] if not cause.own])
            shown = any((at, line) in present for line in own_lines(log, task))
            due = here(own) if own else earlier if shown else []
            if due:
                keys = {cause.key for cause in [*due, *earlier]} | {"identical-prompt"}  # false for another prompt
                result.due.append((due[0].key, bool(keys & said_keys), task))
            if due and own:
                result.apart += [(f"earlier decision: {cause.key}", cause.key in said_keys) for cause in earlier]
            if shown:
                result.apart += [
                    (f"another text: {cause.key}", cause.key in said_keys) for cause in here(truth.elsewhere)
                ]


def _about(excerpt: Excerpt, said: Said, task: int, truth: TaskTruth) -> bool:
    """Return whether a statement is about this task of this log."""
    if said["task"] is not None and said["task"] != task:
        return False
    return any(one is truth for _, one in _tasks(excerpt, said))
