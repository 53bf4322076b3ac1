"""Truth of each request of a recording, from the client's tokens, the replies, and the ends in the log."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Sequence

from cachesim.base.tokens import common_prefix
from tests.logs.slow_logs.recorded_server import Asked

LAUNCH = re.compile(r"id +(\d+) \| task +(\d+) \| processing task, is_child")
RELEASE = re.compile(r"id +\d+ \| task +(\d+) \| stop processing: n_tokens = +(\d+)")
PROGRESS = re.compile(r"id +\d+ \| task +(\d+) \| prompt processing, n_tokens")
PROMPT_TIME = re.compile(r"id +\d+ \| task +(\d+) \| prompt eval time = +([\d.]+) ms / +(\d+) tokens")


@dataclass(slots=True)
class LoggedTask:
    """A task in the log."""

    task: int
    slot: int
    end: int = -1                   # tokens in the slot when it was released
    progress_lines: int = 0
    prompt_time: tuple[str, int] | None = None


@dataclass(slots=True)
class _Memory:
    """What the recording knows about the slots while it walks through the requests."""

    slots: dict[int, list[int]] = field(default_factory=dict)           # tokens of each slot
    earlier: list[tuple[list[int], list[int]]] = field(default_factory=list)  # prompts, with and without answers


def logged_tasks(text: str) -> list[LoggedTask]:
    """Return the tasks of a log in the order of their start."""
    tasks: dict[int, LoggedTask] = {}
    for line in text.splitlines():
        if found := LAUNCH.search(line):
            tasks[int(found[2])] = LoggedTask(task=int(found[2]), slot=int(found[1]))
        elif found := RELEASE.search(line):
            tasks[int(found[1])].end = int(found[2])
        elif found := PROGRESS.search(line):
            tasks[int(found[1])].progress_lines += 1
        elif found := PROMPT_TIME.search(line):
            tasks[int(found[1])].prompt_time = found[2], int(found[3])
    return list(tasks.values())


def matched(groups: Sequence[Sequence[Asked]], tasks: Sequence[LoggedTask]) -> list[tuple[Asked, LoggedTask]]:
    """Return the requests with their tasks in the order of their start. Raise ValueError if they do not fit."""
    pairs: list[tuple[Asked, LoggedTask]] = []
    rest = list(tasks)
    for group in groups:
        launched, rest = rest[: len(group)], rest[len(group) :]
        for task in launched:
            fitting = [asked for asked in group if len(group) == 1 or _is_reply(asked, task)]
            if len(fitting) != 1:
                raise ValueError(f"task {task.task} fits {len(fitting)} requests")
            pairs.append((fitting[0], task))
    if rest or len({id(asked) for asked, _ in pairs}) != sum(map(len, groups)):
        raise ValueError("the log has other requests than the client")
    return pairs


def _is_reply(asked: Asked, task: LoggedTask) -> bool:
    if asked.reply is None or task.prompt_time is None:
        return False
    timings = asked.reply["timings"]
    return (f"{timings['prompt_ms']:.2f}", timings["prompt_n"]) == task.prompt_time


def truths(pairs: Sequence[tuple[Asked, LoggedTask]]) -> list[dict[str, Any]]:
    """Return the truth of each request; the format is that of the recorded logs in tests/logs/slow_logs/sample."""
    memory = _Memory()
    found = []
    for number, (asked, task) in enumerate(pairs, 1):
        truth = _of_client(number, asked, task)
        truth |= _of_memory(memory, asked, task, truth["reused"])
        found.append(truth)
        memory.slots[task.slot] = _tokens_at_end(asked, task)
        memory.earlier.append((asked.prompt, [*asked.prompt, *asked.answer]))
    return found


def _of_client(number: int, asked: Asked, task: LoggedTask) -> dict[str, Any]:
    timings = asked.reply["timings"] if asked.reply else {}
    if not timings and task.prompt_time:                    # answered completely, although its client hung up
        evaluated = task.prompt_time[1]
        timings = {"cache_n": len(asked.prompt) - evaluated, "prompt_n": evaluated}
    return {
        "conversation": asked.conversation,
        "what": asked.what,
        "prompt": len(asked.prompt),
        "sent_s": asked.sent_s,
        "request": number,
        "status": asked.status,
        "cancelled": asked.cancelled,
        "slot": task.slot,
        "reused": timings.get("cache_n"),
        "evaluated": timings.get("prompt_n"),
        "generated": timings.get("predicted_n"),
        "prompt_ms": timings.get("prompt_ms"),
        "generate_ms": timings.get("predicted_ms"),
        "truncated": asked.reply["truncated"] if asked.reply else None,
        "task": task.task,
        "progress_lines": task.progress_lines,
        "end": task.end,
        "context_shifts": 0,
    }


def _of_memory(memory: _Memory, asked: Asked, task: LoggedTask, reused: int | None) -> dict[str, Any]:
    held = memory.slots.get(task.slot)
    common_slot = common_prefix(held or [], asked.prompt)
    commons = [common_prefix(everything, asked.prompt) for _, everything in memory.earlier]
    best = max(commons, default=0)
    again = {}
    if reused is not None:
        usable = len(asked.prompt) - 1
        again["again_slot"] = max(0, min(common_slot, usable) - reused)
        again["again_best"] = max(0, min(best, usable) - reused)
    previous = {str(at): common_prefix(prompt, asked.prompt) for at, (prompt, _) in enumerate(memory.earlier, 1)}
    return {
        "slot_held": None if held is None else len(held),
        "common_slot": common_slot,
        "common_best": best,
        "common_best_request": len(commons) - commons[::-1].index(best) if best else None,
        "common_previous_prompts": {at: common for at, common in previous.items() if common},
        **again,
    }


def _tokens_at_end(asked: Asked, task: LoggedTask) -> list[int]:
    """Return the tokens of the slot when it was released; an unknown token is negative."""
    known = [*asked.prompt, *asked.answer][: task.end]
    return [*known, *range(-1, len(known) - task.end - 1, -1)]
