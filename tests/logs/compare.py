"""Comparison of the importer's statements with the truth about an excerpt."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from tests.logs.compare_causes import count_causes, why_cause_is_false
from tests.logs.cuts import Excerpt
from tests.logs.full_logs import FullLog, LoggedLine, TaskTruth
from tests.logs.judged import UNJUDGED, False_, Result, Said, contains, origins, tasks, without_truth
from tests.logs.spelling import CACHE_KINDS, NAMES


def compare(excerpt: Excerpt, statements: Sequence[Said]) -> Result:
    """Compare the statements about an excerpt with the truth."""
    result = Result()
    true: list[Said] = []
    for said in statements:
        result.said[said["what"] if said["kind"] == "follows" else said["kind"]] += 1
        check = _read if said["kind"] == "read" else FOLLOWS.get(said["what"])
        why = "unknown kind of statement" if check is None else check(excerpt, said)
        if why == UNJUDGED:
            result.unjudged += 1
        elif why:
            result.false.append(False_(why, said))
        else:
            true.append(said)
    _cover(excerpt, statements, result)
    count_causes(excerpt, true, result)
    return result


def _read(excerpt: Excerpt, said: Said) -> str:
    """Return why a read statement is false, "" if it is true."""
    if len(said["lines"]) != 1:
        return "a read statement cites one line"
    cited = origins(excerpt, said)
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
            nan = isinstance(value, str) and known[name] != known[name] and _prints(line.text, value)
            if not nan and (isinstance(value, str) or float(value) != float(known[name])):
                return f"{name} is {known[name]}"
        elif not isinstance(value, bool) and not _prints(line.text, value):
            return f"{name} = {value} is not in the line"
    return ""


def _prints(text: str, value: Any) -> bool:
    """True if a line contains a number or a word outside the fields of its event."""
    if isinstance(value, str):
        return re.search(rf"(?<![\w.]){re.escape(value)}", text) is not None
    return any(float(word) == value for word in re.findall(r"-?\d+(?:\.\d+)?", text))


def _request(excerpt: Excerpt, said: Said) -> str:
    truths = tasks(excerpt, said)
    if not truths:
        return without_truth(excerpt, said)
    cited = [excerpt.source(one) for one in origins(excerpt, said)]
    if said["task"] is None and all(line.ev == "error" and _prints(line.text, *said["numbers"].values())
                                    for line in cited):  # fmt: skip
        return ""  # a refused request, which has no truth
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


AUTOMATIC = -1  # value of an option that the server decides itself
NUMBERS = ("n_tokens", "cache_n", "prompt_n", "predicted_n", "lcp", "held", "end", "lost")


def _logs(excerpt: Excerpt, said: Said) -> list[FullLog]:
    """Return the full logs that a statement cites; all if it cites no line."""
    return [excerpt.logs[at] for at in sorted({one.log for one in origins(excerpt, said)})] or list(excerpt.logs)


def _build(excerpt: Excerpt, said: Said) -> str:
    logs = _logs(excerpt, said)
    if any(contains(said["numbers"]["build"], log.build) or not log.build for log in logs):
        return ""
    return f"the build is {logs[0].build}"


def _option(excerpt: Excerpt, said: Said) -> str:
    for name, claimed in said["numbers"].items():
        values = [log.options[name] for log in _logs(excerpt, said) if name in log.options]
        if not values or AUTOMATIC in values:
            return UNJUDGED
        if not any(value == claimed or (isinstance(claimed, list) and contains(claimed, value)) for value in values):
            return f"{name} is {values[0]}"
    return ""


def _memory(excerpt: Excerpt, said: Said) -> str:
    logs = _logs(excerpt, said)
    return "" if any(said["numbers"].get("cut") in log.cuts for log in logs) else f"it allows {sorted(logs[0].cuts)}"


def _contradiction(excerpt: Excerpt, said: Said) -> str:
    return "" if len(excerpt.logs) > 1 and excerpt.cut == "mixed" else "the numbers are those of one run"


def _total(excerpt: Excerpt, said: Said) -> str:
    cited = [excerpt.source(one) for one in origins(excerpt, said)]
    if not any(line.ev in ("pc_load", "pc_evict", "pc_evict_tokens") for line in cited):
        return "no line about an entry that was loaded or evicted"
    kept = any("24143" in log.profile for log in _logs(excerpt, said))
    return "the entry was kept" if kept and "and removed" in said["says"] else ""


FOLLOWS = {"request": _request, "build": _build, "option": _option, "memory": _memory, "cause": why_cause_is_false,
           "contradiction": _contradiction, "total": _total}  # fmt: skip


def _cover(excerpt: Excerpt, statements: Sequence[Said], result: Result) -> None:
    """Count the complete lines about caches, and those with a statement of their own."""
    kinds: dict[int, set[str]] = {}
    for said in statements:
        for number in said["lines"]:
            kinds.setdefault(number, set()).add(said["what"])
    for number, begun in enumerate(excerpt.origins, 1):
        for one in begun:
            line = excerpt.source(one)
            if line.ev not in CACHE_KINDS or not one.whole:
                continue
            result.cache_lines += 1
            if NAMES.get(line.ev, (line.ev, {}))[0] in kinds.get(number, ()):
                result.covered += 1
            else:
                result.silent.append(line.text)
