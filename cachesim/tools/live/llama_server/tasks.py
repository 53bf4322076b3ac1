"""Assignment of tasks in a server's log to concurrent requests.

A request is identified by the length of its prompt, its requested slot and its answer: slot, tokens, tokens in the slot
at the end. Each task belongs to exactly one request, so all requests are assigned together. Further completions have
their own tasks, which belong to the task that is launched after them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from cachesim.base.http_client import HttpReply
from cachesim.engines.llama_cpp.log_events import DRAFT, NEXT_TOKEN, Entry, numbers_of, read_event

Cost = tuple[int, int]


class SentTask(NamedTuple):
    """Known facts of a request: length of its prompt, received tokens, and, if it was answered, its slot and the number
    of tokens in the slot at the end (``None`` = unknown). ``asked``: the requested slot."""

    n_prompt: int
    tokens: Sequence[int] = ()
    slot: int | None = None
    end: int | None = None
    asked: int | None = None


@dataclass(slots=True)
class ServerTask:
    """Log data of a task. ``tokens``: generated tokens; ``drafts``: pairs of the tokens in the slot and the tokens
    drafted at that time; ``end``: tokens in the slot at its release."""

    slot: int | None = None
    n_prompt: int | None = None
    end: int | None = None
    tokens: list[int] = field(default_factory=list)
    drafts: list[tuple[int, int]] = field(default_factory=list)
    child: bool = False


def read_tasks(said: Iterable[Entry]) -> dict[int, ServerTask]:
    """Return the tasks of a log by their number, including further completions."""
    found: dict[int, ServerTask] = {}
    for entry in said:
        if entry.task is not None:
            _read(found, entry, entry.task)
    return found


def _read(found: dict[int, ServerTask], entry: Entry, number: int) -> None:
    event = read_event(entry) or {}
    kind = event.get("ev")
    if kind == "launch":
        found[number] = ServerTask(entry.slot, child=bool(event.get("is_child", False)))
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
    """Return the task of each request. Minimises first the requests without a task, then the contradictions."""
    free = [number for number, task in sorted(tasks.items()) if not task.child]
    return _assign(list(sent), free, tasks)[1]


def _assign(sent: list[SentTask], free: list[int], tasks: Mapping[int, ServerTask]) -> tuple[Cost, list[int | None]]:
    """Return the best assignment with its cost: requests without a task, and contradictions."""
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
    """Count the contradictions of a task that fits: another number of tokens at the end, another slot than requested,
    or an end before it could have generated the received tokens."""
    contradictions = (
        sent.end is not None and sent.end != task.end,
        sent.asked not in (None, task.slot),
        task.end is not None and sent.end is None and task.end < sent.n_prompt + len(sent.tokens) - 1,
    )
    return contradictions.count(True)


def _fits(sent: SentTask, task: ServerTask) -> bool:
    if task.n_prompt not in (None, sent.n_prompt) or (sent.slot is not None and sent.slot != task.slot):
        return False
    if sent.n_prompt == NO_TASK:
        return False
    return all(a == b for a, b in zip(sent.tokens, task.tokens, strict=False))


def came_to_its_end(task: ServerTask, n_prompt: int, n_predict: int) -> bool:
    """True if a request generated all its tokens, but the slot did not hold its prompt and these tokens in the end: a
    conversation was loaded over it (D2)."""
    return len(task.tokens) == n_predict and task.end not in (None, n_prompt + n_predict - 1)


UNLAUNCHED = ("Cannot run multiple aLoRAs", "Prompt contains invalid tokens")
"""Parts of the replies to requests that are refused before their task is launched."""
NO_TASK = -1                # length of a prompt that no task has


def sent_task(member: Mapping[str, Any], reply: Any) -> SentTask:
    """Return the known facts of a member; ``reply``: an HttpReply, the tokens received before a disconnect, or None."""
    request = member["request"]
    n_prompt = len(request.get("prompt", ()))
    if isinstance(reply, HttpReply):
        body = reply.body[0] if isinstance(reply.body, list) and reply.body else reply.body
        if reply.status != 200 or member["op"] != "completion":
            return SentTask(NO_TASK if any(text in str(body) for text in UNLAUNCHED) else n_prompt)
        return SentTask(n_prompt, body["tokens"], body["id_slot"], body["tokens_cached"])
    mixed = int(request.get("n_cmpl", 1)) > 1            # a stream of several completions mixes their tokens
    asked = int(request.get("id_slot", -1))
    return SentTask(n_prompt, (reply or [])[:1] if mixed else reply or (), asked=asked if asked >= 0 else None)


def refused_tasks(said: Iterable[Entry], sent: Iterable[SentTask]) -> int:
    """Return the number of tasks that were refused at their launch and whose client had disconnected before."""
    texts = ("failed to launch slot with task", "failed to launch slot with parent task")
    return sum(entry.text.startswith(texts) for entry in said) - sum(one.n_prompt == NO_TASK for one in sent)


def lost_tokens(member: Mapping[str, Any], reply: Any, task: ServerTask) -> bool:
    """True if some generated tokens were neither received by a disconnected client nor left in the slot."""
    request = member["request"]
    one = "cancel_after" in request and not isinstance(reply, HttpReply) and int(request.get("n_cmpl", 1)) == 1
    return one and came_to_its_end(task, len(request["prompt"]), int(request.get("n_predict", -1)))


def details(task: ServerTask, number: int | None, answered: bool) -> dict[str, Any]:
    """Return the fields of a recorded request beside its response: its task number in the events (None = the only
    task), the drafts, and the generated tokens if the answer lacks them (not ``answered``)."""
    out: dict[str, Any] = {} if number is None else {"task": number}
    if task.drafts:
        out["drafts"] = [list(draft) for draft in task.drafts]
    if not answered and task.tokens:
        out["generated"] = list(task.tokens)
    return out
