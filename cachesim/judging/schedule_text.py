"""Sentences about the steps of a scheduler, from the data of ``schedule_data``."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import counted
from cachesim.events.scheduling import LimitKind

Data = Mapping[str, Any]
WORDS = (("prompt_tokens", "prompt"), ("answer_tokens", "answer"), ("draft_tokens", "draft"))
HELD = frozenset({LimitKind.MEMORY, LimitKind.WHOLE_PROMPT, LimitKind.WATERMARK, LimitKind.REQUESTS,
                  LimitKind.NOT_TRIED, LimitKind.STATE_IN_STEP})  # fmt: skip
"""Limits whose ``behind`` names the requests that have what is missing."""


class NumberRange(NamedTuple):
    """The smallest and the largest of numbers, None = there are none."""

    least: int | None
    most: int | None

    def __str__(self) -> str:
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"


def number_range(numbers: Iterable[int | None]) -> NumberRange:
    """Return the range of the known numbers."""
    known = [number for number in numbers if number is not None]
    return NumberRange(min(known), max(known)) if known else NumberRange(None, None)


def _option(limit: Data) -> str:
    value = limit["option_value"]
    return limit["option"] if value is True else f"{limit['option']} {value}"


def _missing(limit: Data, needed: NumberRange, free: NumberRange, why: str = "") -> str:
    unit = limit["unit"]
    if needed.least is None:
        return f"{_units(free, unit)} free" if free.least is not None else f"too few {unit} free"
    return f"{_units(needed, unit)} needed{why}, {free} free"


def _units(number: NumberRange, unit: str) -> str:
    """Return a number with its unit, which is given in the plural."""
    return f"{number} {unit.removesuffix('s') if number == (1, 1) else unit}"


LIMITS: Mapping[str, Callable[[Data, NumberRange, NumberRange], str]] = {
    LimitKind.TOKENS: lambda one, needed, free: _option(one),
    LimitKind.PROMPT: lambda one, needed, free: _option(one),
    LimitKind.REQUESTS: lambda one, needed, free: _option(one),
    LimitKind.MEMORY: lambda one, needed, free: f"{_missing(one, needed, free)} ({_option(one)})",
    LimitKind.WHOLE_PROMPT: lambda one, needed, free: f"{_missing(one, needed, free, ' for the whole prompt')} "
                                                      f"({one['option']})",
    LimitKind.WATERMARK: lambda one, needed, free: f"{_missing(one, needed, free, ' with the watermark')} "
                                                   f"({_option(one)})",
    LimitKind.STATE_END: lambda one, needed, free: f"the chunk ends where a state is kept ({_option(one)})",
    LimitKind.STATE_IN_STEP: lambda one, needed, free: "the state that it continues from is computed in this step",
    LimitKind.IMAGE: lambda one, needed, free: f"the encoder has no room for the image ({_option(one)})",
    LimitKind.LOOKAHEAD: lambda one, needed, free: f"the drafter reads tokens ahead ({_option(one)})",
    LimitKind.DRAFTS: lambda one, needed, free: f"{_missing(one, needed, free, ' with drafts')} ({_option(one)})",
    LimitKind.LENGTH: lambda one, needed, free: _option(one),
    LimitKind.LOAD: lambda one, needed, free: "its tokens are being loaded",
    LimitKind.TRANSFER: lambda one, needed, free: "a part that it could load is being stored or loaded",
    LimitKind.IN_FLIGHT: lambda one, needed, free: "a step with its tokens is not processed",
    LimitKind.PREEMPTION: lambda one, needed, free: "a step that takes a request's memory starts none",
    LimitKind.ORDER: lambda one, needed, free: f"behind request {_numbers(one['behind'])} ({_option(one)})",
    LimitKind.PROMPTS_FIRST: lambda one, needed, free: "the step evaluates prompts only",
    LimitKind.NOT_TRIED: lambda one, needed, free: f"not tried until a request leaves ({_option(one)})",
    LimitKind.SHARE: lambda one, needed, free: f"room for shorter prompts ({_option(one)})",
}  # fmt: skip
"""Text of a limit by its kind, from the limit and the needed and free numbers."""


def limit_text(limit: Data, needed: NumberRange | None = None, free: NumberRange | None = None) -> str:
    """Return a limit in words. ``needed``, ``free``: their numbers in several steps, None = those of the limit."""
    needed = needed or number_range([limit.get("needed")])
    free = free or number_range([limit.get("free")])
    return LIMITS[limit["limit_kind"]](limit, needed, free)


def _numbers(numbers: Sequence[int]) -> str:
    """Return numbers with ranges: ``0, 2-5``."""
    parts = list[str]()
    for _, group in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" if len(run) > 2 else f"{run[0]}, {run[1]}")
    return ", ".join(parts)


class EqualSteps(NamedTuple):
    """Steps that follow each other and differ in positions, and in needed and free numbers, only."""

    steps: Sequence[Data]

    @property
    def name(self) -> str:
        """First and last number."""
        first = self.steps[0]["step"]
        last = self.steps[-1]["step"]
        return str(first) if first == last else f"{first}-{last}"


def equal_steps(steps: Sequence[Data]) -> list[EqualSteps]:
    """Return the steps, those together that follow each other and are equal for a reader."""
    return [EqualSteps(list(group)) for _, group in groupby(steps, key=_shown)]


def _shown(step: Data) -> Any:
    """Return what a row of the table shows of a step, without positions and numbers of the memory."""
    runs = [(one["request"], tokens_text(one), *map(_shown_limit, one["cut_by"]))
            for one in step["runs_in_step"]]  # fmt: skip
    waits = [(one["request"], _shown_limit(one)) for one in step["waits_in_step"]]
    return step["step_kind"], runs, waits, [one["request"] for one in step["preempted_in_step"]]


def _shown_limit(limit: Data) -> tuple[Any, ...]:
    behind = limit["behind"] if limit["limit_kind"] == LimitKind.ORDER else ()
    return limit["limit_kind"], limit["option"], tuple(behind)


def runs_text(step: Data) -> str:
    """Return what a step evaluates: ``0: 32 prompt; 1, 2: 1 answer``."""
    groups: dict[str, list[int]] = {}
    for run in step["runs_in_step"]:
        groups.setdefault(tokens_text(run), []).append(run["request"])
    return "; ".join(f"{_numbers(requests)}: {text}" for text, requests in groups.items())


def tokens_text(run: Data) -> str:
    """Return tokens by their kind: ``32 prompt``, ``1 answer + 3 draft``."""
    parts = [f"{run[name]:,} {word}" for name, word in WORDS
             if run[name]]  # fmt: skip
    return " + ".join(parts) or "0"


def limits_text(same: EqualSteps, preemption: str) -> str:
    """Return what limits equal steps: cut requests, waiting requests, and those that gave up their memory."""
    return "; ".join(_limits(same, preemption))


def _limits(same: EqualSteps, preemption: str) -> Iterator[str]:
    taken = [one["request"] for one in same.steps[0]["preempted_in_step"]]
    groups: dict[str, list[int]] = {}
    for request, what, limits in _found(same):
        if request in taken and what == "waits":
            behind = limits[0]["behind"]
            what = f"{preemption} for {_numbers(behind)}" if behind else preemption
        ranges = [number_range(one[name] for one in limits) for name in ("needed", "free")]
        groups.setdefault(f"{what}: {limit_text(limits[0], *ranges)}", []).append(request)
    for text, requests in groups.items():
        if len(requests) > 1 and text.startswith("waits"):
            text = f"wait{text.removeprefix('waits')}"
        yield f"{_numbers(requests)} {text}"


def _found(same: EqualSteps) -> Iterator[tuple[int, str, list[Data]]]:
    """Yield the limits of each request: its number, "cut" or "waits", and the limit in each step."""
    first = same.steps[0]
    for at, run in enumerate(first["runs_in_step"]):
        for place in range(len(run["cut_by"])):
            yield run["request"], "cut", [step["runs_in_step"][at]["cut_by"][place] for step in same.steps]
    for at, wait in enumerate(first["waits_in_step"]):
        yield wait["request"], "waits", [step["waits_in_step"][at] for step in same.steps]


def summary(schedule: Data) -> str:
    """Return the number of steps and tokens, and who waited and gave up memory how often."""
    steps = schedule["scheduled"]
    requests = schedule["by_request"]
    parts = [counted(len(steps), "step"), counted(sum(step["step_tokens"] for step in steps), "token")]
    waiting = [one for one in requests if one["waited"]]
    if waiting:
        waited = sum(one["waited"] for one in waiting)
        parts.append(f"{counted(len(waiting), 'request')} waited {counted(waited, 'step')}")
    taken = sum(one["preemptions"] for one in requests)
    if taken:
        parts.append(f"{schedule['preemption_word']} {counted(taken, 'time')}")
    return ", ".join(parts)


def wait_text(wait: Data) -> str:
    """Return for how many steps a request waited, for what, and for whom."""
    limit = {**wait, "needed": None, "free": None}
    text = f"{counted(wait['waited'], 'step')}: {_brief(limit)}"
    behind = wait["behind"]
    return f"{text}; {_numbers(behind)} before it" if behind and wait["limit_kind"] in HELD else text


def _brief(limit: Data) -> str:
    """Return a limit without numbers of the memory."""
    if limit["limit_kind"] in (LimitKind.MEMORY, LimitKind.WHOLE_PROMPT, LimitKind.WATERMARK):
        whole = " for the whole prompt" if limit["limit_kind"] == LimitKind.WHOLE_PROMPT else ""
        return f"too few {limit['unit']} free{whole} ({_option(limit)})"
    return limit_text(limit)
