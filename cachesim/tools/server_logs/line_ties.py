"""Lines of a log that belong to the same request.

Lines belong together if they name the same slot and the same task. A line that names neither belongs to a request only
where a server prints nothing else in between: timings below their heading, the selection of a slot before its launch,
and the lines from a new prompt to its first batch. Servers of 2023 name the task only at its launch: the lines of the
slot follow in a fixed order, and timings belong to the only request since all slots were idle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Sequence

from cachesim.tools.server_logs.read_lines import ReadLine
from cachesim.tools.server_logs.timing_headings import TIMES

CHOICES = frozenset({"slot_by_lcp", "slot_by_lru", "slot_by_id"})
STARTS = frozenset({"launch", "new_prompt"})
_ADAPTERS = frozenset({"lora_clear", "lora_keep", "alora_start", "alora_absent"})
"""Lines between the selection of a slot and its launch, after those of the prompt cache."""
_ONCE = frozenset({"launch", "new_prompt", "prefix", "n_past", "ckpt_restore", "full_reprocess", "prompt_time",
                   "eval_time", "release", "in_cache", "prompt_done"})  # fmt: skip
_LATE = frozenset({"ckpt_create", "ckpt_evict", "release", "drafts"})
_ORDER = ("launch", "new_prompt", "prefix", "n_past", "ckpt_check", "ckpt_restore", "ckpt_invalidate", "batch")
"""Lines from the start of a prompt to its first batch, in the order in which servers print them."""
_PHASE = {kind: number for number, kind in enumerate(_ORDER)} | {
    "full_reprocess": 5, "need_one": 6, "reuse_chunk": 3, "reuse_result": 3, "reuse_unsupported": 3, "trim_failed": 7}
_IN_SLOT = {"launch": 0, "in_cache": 1, "batch": 2, "ctx_shift": 3, "release": 4}
"""Lines of a slot without their task, in the order in which servers of 2023 print them."""
_SPELLED = frozenset({"slot_by_lcp", "launch", "new_prompt", "batch", "pc_search", "pc_load"})
"""Kinds of lines that a build prints with one spelling."""
_UPDATES = ("update_slots:", "operator():")
"""Names of the function that prints new prompts and batches, in old and new builds."""
_FAILURES = frozenset({"kv_full", "pc_load_failed"})
"""Lines after which a request whose start is not in the excerpt may have other tokens in its slot than it shows."""
BEGINS = frozenset({"server", "version", "start_cache", "start_ckpt", "no_cache", "no_ckpt", "memory"})
"""Lines that a server prints when it starts."""


@dataclass(slots=True)
class TiedRequest:
    """Lines of a request. ``choice`` selected its slot; ``cache`` are the lines about the prompt cache and adapters
    between the choice and the launch; ``similar`` are those about similarities before the choice. ``doubtful``: two
    requests have this slot and task, or the tokens in the slot may be those of another prompt."""

    slot: int | None
    task: int | None
    lines: list[ReadLine] = field(default_factory=list)
    choice: ReadLine | None = None
    cache: list[ReadLine] = field(default_factory=list)
    similar: list[ReadLine] = field(default_factory=list)
    doubtful: bool = False

    def of(self, *kinds: str) -> list[ReadLine]:
        """Return the lines of these kinds."""
        return [line for line in self.lines if line.kind in kinds]

    def of_cache(self, kind: str) -> list[ReadLine]:
        """Return the lines of this kind between the choice and the launch."""
        return [line for line in self.cache if line.kind == kind]

    @property
    def start(self) -> ReadLine | None:
        """Line with which the request starts, None if it is not in the excerpt."""
        return next((line for line in self.lines if line.kind in STARTS), None)


class _Pending(NamedTuple):
    """Slot selection that waits for its launch."""

    slot: int | None
    choice: ReadLine | None
    similar: list[ReadLine]
    cache: list[ReadLine]


def tie_lines(lines: Sequence[ReadLine]) -> list[TiedRequest]:
    """Return the requests of a log with their lines, in the order of their first lines. If the lines are those of
    several builds, a choice may be that of another server than the launch after it, and belongs to no request."""
    found = _Ties(any(line.kind == "launch" for line in lines), _are_of_several_builds(lines)).tied(lines)
    for request in found:
        request.doubtful |= _are_of_several_builds(request.lines)
    return found


def _are_of_several_builds(lines: Sequence[ReadLine]) -> bool:
    """Return whether no build prints all of these lines: because of a spelling, or because the update of the slots has
    two names."""
    since = max((line.read.line.since for line in lines), default=0)
    until = min((line.read.line.until for line in lines if line.read.line.until), default=since + 1)
    spellings = {(line.kind, line.read.line.template) for line in lines if line.kind in _SPELLED}
    names = {name for line in lines if line.kind in _SPELLED for name in _UPDATES if name in line.head}
    return since >= until or len(spellings) > len({kind for kind, _ in spellings}) or len(names) > 1


def _whole_timings(lines: Sequence[ReadLine]) -> set[int]:
    """Return the numbers of the timings below a heading whose token counts add up, so that no line of another request
    stands among them."""
    found: set[int] = set()
    for first, second, third in zip(lines, lines[1:], lines[2:], strict=False):
        if (first.kind, second.kind, third.kind) == ("prompt_time", "eval_time", "total_time"):
            counts = first.number_of("prompt_n"), second.number_of("predicted_n"), third.number_of("total")
            same = first.heading is not None and first.heading == second.heading == third.heading
            if same and None not in counts and (counts[0] or 0) + (counts[1] or 0) == counts[2]:
                found |= {first.number, second.number, third.number}
    return found


def _are_released_first(request: TiedRequest, line: ReadLine) -> bool:
    """Return whether a line may be a timing that follows the release, as in servers that print n_past with it."""
    first = "n_past" in request.of("release")[0].read.line.template
    return first and line.kind in TIMES and request.lines[-1].kind in {"release", *TIMES}


def _is_child(request: TiedRequest) -> bool:
    """Return whether a request is a further completion of another request's prompt."""
    return any(line.read.numbers.get("is_child") for line in request.of("launch"))


def _have_equal_shares(pending: _Pending) -> bool:
    """Return whether the search in the prompt cache repeats the shares of the choice, as a single server prints it."""
    words = {} if pending.choice is None else pending.choice.read.words
    found = (line.read.words for line in pending.cache if line.kind == "pc_search")
    return all(words.get(name, again[name]) == again[name] for again in found for name in ("f_keep", "f_sim"))


class _Ties:
    """State of the pass over the lines."""

    def __init__(self, launches: bool, mixed: bool) -> None:
        self.start, self.mixed = "launch" if launches else "new_prompt", mixed
        self.requests: list[TiedRequest] = []
        self.open: dict[tuple[int, int], TiedRequest] = {}
        self.pending = _Pending(None, None, [], [])
        self.block: TiedRequest | None = None
        self.in_slot: dict[int, TiedRequest] = {}                # slot -> request of its lines without a task
        self.since_idle: list[TiedRequest] | None = None         # launched since all slots were idle, None = unknown
        self.latest: dict[int, TiedRequest] = {}                 # slot -> request of the last line with its task
        self.failed = False                                      # a failure since all slots were idle
        self.replaced: set[int] = set()                          # ids of requests whose slot was selected meanwhile

    def tied(self, lines: Sequence[ReadLine]) -> list[TiedRequest]:
        """Return the requests of these lines."""
        timed = _whole_timings(lines)
        for line in lines:
            where = line.heading if line.heading and line.number in timed else (line.slot, line.task)
            block, self.block = self.block, None
            self.failed = (self.failed or line.kind in _FAILURES) and line.kind != "idle"
            if line.kind in _FAILURES:                           # a child has the tokens of its parent's slot
                self.replaced |= {id(one) for one in self.in_slot.values() if _is_child(one)}
            if line.kind == "idle":
                self.in_slot, self.since_idle = {}, []
            if line.kind in BEGINS:
                self.open, self.pending, self.in_slot, self.since_idle = {}, _Pending(None, None, [], []), {}, None
            elif where[0] is not None and where[1] is not None:
                self._take_prefix(block, self.open.get((where[0], where[1])), line)
                self._add((where[0], where[1]), line)
            elif where[0] is not None and "{slot}" in line.read.line.template and line.kind in _IN_SLOT:
                self._add_in_slot(where[0], line)
            elif line.read.line.template.startswith("print_timings: "):
                if self.since_idle is not None and len(self.since_idle) == 1:
                    self.since_idle[0].lines.append(line)
            elif line.kind in CHOICES | _ADAPTERS or line.kind == "slot_sim" or line.kind.startswith("pc_"):
                self._choose(line)
            elif where == (None, None) and line.kind in _PHASE:
                self._extend(block, line)
            elif where == (None, None) and line.kind in ("reused", "too_long"):
                self.requests.append(TiedRequest(None, None, [line]))
        return self.requests

    def _add(self, key: tuple[int, int], line: ReadLine) -> None:
        """Add a line that names its request."""
        request = self.open.get(key)
        if request is not None:
            request.doubtful |= id(request) in self.replaced and line.kind not in _LATE - {"release"}
            over = bool(request.of("release"))
            again = line.kind in _ONCE and bool(request.of(line.kind))
            early = line.kind in STARTS and not again and any(held.kind not in STARTS for held in request.lines)
            if again and over and line.kind in STARTS:
                request = None                                   # the server was started again
            elif again or early or (over and line.kind not in _LATE and not _are_released_first(request, line)):
                request.doubtful = True
        if request is None:
            request = self.open[key] = TiedRequest(*key, doubtful=self.failed and line.kind not in STARTS)
            self.requests.append(request)
        request.lines.append(line)
        self.latest[key[0]] = request
        if line.kind == "launch":
            self.in_slot[key[0]] = request
            if self.since_idle is not None:
                self.since_idle.append(request)
        if line.read.numbers.get("is_child"):
            return
        begins = line.kind == self.start and len(request.lines) == 1
        if begins and self.pending.slot in (None, key[0]) and not self.mixed and _have_equal_shares(self.pending):
            request.choice, request.cache = self.pending.choice, self.pending.cache
            request.similar = [held for held in self.pending.similar if held.slot == key[0]]
        self.pending = _Pending(None, None, [], [])

    def _add_in_slot(self, slot: int, line: ReadLine) -> None:
        """Add a line without a task to the last request of its slot, or to a new one if the line cannot follow."""
        request, phase = self.in_slot.get(slot), _IN_SLOT[line.kind]
        last = None if request is None else max(_IN_SLOT.get(held.kind, 0) for held in request.lines)
        if request is None or last is None or last > phase or (last == phase and line.kind != "ctx_shift"):
            request = self.in_slot[slot] = TiedRequest(slot, None)
            self.requests.append(request)
        request.lines.append(line)

    def _take_prefix(self, block: TiedRequest | None, request: TiedRequest | None, line: ReadLine) -> None:
        """Add the common prefix, printed without slot and task, to the launched request whose next line agrees."""
        if block is None or [held.kind for held in block.lines] != ["prefix"]:
            return
        if request is None or request.start is None or any(_PHASE.get(held.kind, 0) > 1 for held in request.lines):
            return
        prefix = block.lines[0]
        n_past, names = prefix.number_of("n_past"), {"batch": ("p0",), "n_past": ("n_past",)}.get(line.kind, ())
        same = n_past is not None and n_past == prefix.number_of("n_past_prompt")
        same = same and (line.kind == "need_one" or n_past == line.number_of(*names))
        if same and (line.kind != "n_past" or line.number_of("held") == prefix.number_of("held")):
            request.lines.append(self.requests.pop().lines[0])

    def _choose(self, line: ReadLine) -> None:
        """Keep a line that a server prints before a launch."""
        pending = self.pending
        by_id = pending.choice is not None and pending.choice.kind == "slot_by_id" and pending.slot == line.slot
        if line.kind == "slot_sim" and by_id and not pending.cache:
            pending.similar.append(line)                         # compared after its selection
        elif line.kind == "slot_sim":
            fresh = pending.choice is None and not pending.cache
            self.pending = _Pending(None, None, [*(pending.similar if fresh else []), line], [])
        elif line.kind in CHOICES:
            slot = line.slot if line.slot is not None else line.number_of("slot_arg")
            running = self.latest.get(slot) if slot is not None else None
            self.replaced |= {id(running)} if running is not None and not running.of("release") else set()
            similar = pending.similar if pending.choice is None and not pending.cache else []
            self.pending = _Pending(slot, line, similar, [])
        else:
            pending.cache.append(line)

    def _extend(self, block: TiedRequest | None, line: ReadLine) -> None:
        """Add a line without slot and task to the prompt that the line before it belongs to."""
        if block is not None:
            last = block.lines[-1].kind
            again = line.kind in _ONCE and bool(block.of(line.kind))
            if not again and _PHASE[line.kind] >= _PHASE[last] and last != "batch":
                block.lines.append(line)
                self.block = block
                return
        self.block = TiedRequest(None, None, [line])
        self.requests.append(self.block)
