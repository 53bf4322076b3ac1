"""Which task of a server's log belongs to which of the requests that were sent at the same time?

A request is known by the length of its prompt, the slot it asked for and what came back: slot, tokens, tokens in the
slot at the end. Each task belongs to one request only, so the requests are looked at together. Further completions are
tasks of their own and stay with the task that is launched behind them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from cachesim.engines.llama_cpp.log_events import DRAFT, NEXT_TOKEN, Entry, numbers_of, read_event

Cost = tuple[int, int]


class SentTask(NamedTuple):
    """What is known of a request: tokens of its prompt, those that came back, and, where it was answered, its slot and
    the tokens that the slot held at the end (``None`` = not known). ``asked``: the slot that it asked for."""

    n_prompt: int
    tokens: Sequence[int] = ()
    slot: int | None = None
    end: int | None = None
    asked: int | None = None


@dataclass(slots=True)
class ServerTask:
    """What the log says of a task. ``tokens`` are the generated ones; ``drafts`` pairs of the tokens that the slot held
    and the tokens that were drafted then, ``end`` the tokens in the slot at its release."""

    slot: int | None = None
    n_prompt: int | None = None
    end: int | None = None
    tokens: list[int] = field(default_factory=list)
    drafts: list[tuple[int, int]] = field(default_factory=list)
    child: bool = False


def read_tasks(said: Iterable[Entry]) -> dict[int, ServerTask]:
    """The tasks of a log by their number there, further completions included."""
    found: dict[int, ServerTask] = {}
    for entry in said:
        if entry.task is not None:
            _read(found, entry, entry.task)
    return found


def _read(found: dict[int, ServerTask], entry: Entry, number: int) -> None:
    event = read_event(entry) or {}
    kind = event.get("ev")
    if kind == "launch":
        found[number] = ServerTask(entry.slot, child=bool(event["is_child"]))
    task = found.get(number)
    if task is None:
        return
    if kind == "new_prompt":
        task.n_prompt = event["n_tokens"]
    elif kind == "release":
        task.end = event["n_tokens"]
    elif (token := numbers_of(NEXT_TOKEN, entry.text)) is not None:
        task.tokens.append(token["token"])
    elif (draft := numbers_of(DRAFT, entry.text)) is not None:
        task.drafts.append((draft["n_tokens"], draft["drafted"]))


def assign(sent: Sequence[SentTask], tasks: Mapping[int, ServerTask]) -> list[int | None]:
    """The task of each request: of all ways the one that leaves the fewest requests without any, of those the one with
    the fewest oddities, the first of those."""
    free = [number for number, task in sorted(tasks.items()) if not task.child]
    return _assign(list(sent), free, tasks)[1]


def _assign(sent: list[SentTask], free: list[int], tasks: Mapping[int, ServerTask]) -> tuple[Cost, list[int | None]]:
    """The best way and what is wrong with it: requests without a task, and oddities."""
    if not sent:
        return (0, 0), []
    best: tuple[Cost, list[int | None]] | None = None
    fitting = [one for one in free if _fits(sent[0], tasks[one])]
    for number in sorted(fitting, key=lambda one: _odd(sent[0], tasks[one])):
        odd = _odd(sent[0], tasks[number])
        if best is not None and (0, odd) >= best[0]:
            break
        (without, more), way = _assign(sent[1:], [one for one in free if one != number], tasks)
        if best is None or (without, more + odd) < best[0]:
            best = (without, more + odd), [number, *way]
    if best is None or best[0][0] > 0:
        (without, odd), way = _assign(sent[1:], free, tasks)
        if best is None or (without + 1, odd) < best[0]:
            best = (without + 1, odd), [None, *way]
    return best


def _odd(sent: SentTask, task: ServerTask) -> int:
    """What speaks against a task that fits: it ended with another number of tokens, has another slot than was asked
    for, or ended before it could have said what came back."""
    ended = task.end is not None and sent.end is None and task.end < sent.n_prompt + len(sent.tokens) - 1
    return (sent.end is not None and sent.end != task.end) + (sent.asked not in (None, task.slot)) + ended


def _fits(sent: SentTask, task: ServerTask) -> bool:
    if task.n_prompt not in (None, sent.n_prompt) or (sent.slot is not None and sent.slot != task.slot):
        return False
    return all(a == b for a, b in zip(sent.tokens, task.tokens, strict=False))


def came_to_its_end(task: ServerTask, n_prompt: int, n_predict: int) -> bool:
    """Did a request generate all its tokens, in a slot that in the end did not hold its prompt and these? A
    conversation was loaded over it (D2)."""
    return len(task.tokens) == n_predict and task.end not in (None, n_prompt + n_predict - 1)


def details(task: ServerTask, number: int | None, answered: bool) -> dict[str, Any]:
    """What a recording says of a request beside its response: the number of its task in the events of the step (None =
    it is the only one), the drafts, and the generated tokens where no answer holds them (not ``answered``)."""
    out: dict[str, Any] = {} if number is None else {"task": number}
    if task.drafts:
        out["drafts"] = [list(draft) for draft in task.drafts]
    if not answered and task.tokens:
        out["generated"] = list(task.tokens)
    return out
