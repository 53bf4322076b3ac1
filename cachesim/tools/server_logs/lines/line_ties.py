"""Lines of a log that belong to the same request.

Lines belong together if they name the same slot and the same task. A line that names neither belongs to a request only
where a server prints nothing else in between: timings below their heading, the selection of a slot before its launch,
and the lines from a new prompt to its first batch. Servers of 2023 name the task only at its launch: the lines of the
slot follow in a fixed order, and timings belong to the only request since all slots were idle.
"""

from __future__ import annotations

from typing import Iterable

from cachesim.tools.server_logs.lines.batch_ties import BATCH, BatchTies
from cachesim.tools.server_logs.lines.batch_ties import KINDS as BATCHES
from cachesim.tools.server_logs.lines.kept_prompt_ties import KINDS as KEPT_PROMPT
from cachesim.tools.server_logs.lines.kept_prompt_ties import KeptPromptTies
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import (
    BEGINS,
    CHOICES,
    STARTS,
    WHOLE,
    PendingChoice,
    PossibleBuilds,
    TiedRequest,
)
from cachesim.tools.server_logs.lines.timing_headings import TIMES, SlotTask, are_whole_timings
from cachesim.tools.server_logs.lines.unnamed_ties import KINDS as UNNAMED
from cachesim.tools.server_logs.lines.unnamed_ties import UnnamedTies
from cachesim.tools.server_logs.lines.word_ties import KINDS as WORDS
from cachesim.tools.server_logs.lines.word_ties import WordTies

_ADAPTERS = frozenset({"lora_clear", "lora_keep", "alora_start", "alora_absent"})
"""Lines between the selection of a slot and its launch, after those of the prompt cache."""
_ONCE = frozenset({"launch", "new_prompt", "prefix", "n_past", "ckpt_restore", "full_reprocess", "prompt_time",
                   "eval_time", "release", "in_cache", "prompt_done"})  # fmt: skip
_LATE = frozenset({"ckpt_create", "ckpt_evict", "release", "drafts"})
_SECOND_STREAM = frozenset({*TIMES, "full_reprocess", "n_past", "ckpt_check", "ckpt_restore", "ckpt_invalidate"})
_ORDER = ("launch", "new_prompt", "prefix", "n_past", "ckpt_check", "ckpt_restore", "ckpt_invalidate", "batch")
"""Lines from the start of a prompt to its first batch, in the order in which servers print them."""
_PHASE = {kind: number for number, kind in enumerate(_ORDER)} | {
    "full_reprocess": 5, "need_one": 6, "reuse_chunk": 3, "reuse_result": 3, "reuse_unsupported": 3, "trim_failed": 7}
_BEGUN = frozenset(kind for kind, phase in _PHASE.items() if phase > 1)
"""Lines after a new prompt and before its evaluation."""
_IN_SLOT = {"launch": 0, "in_cache": 1, "batch": 2, "ctx_shift": 3, "release": 4}
"""Lines of a slot without their task, in the order in which servers of 2023 print them."""
_FAILURES = frozenset({"kv_full", "pc_load_failed"})
"""Lines after which a request whose start is not in the excerpt may have other tokens in its slot than it shows."""
_COMPARED = frozenset({"slot_sim", "slot_skip_empty"})
"""Lines about each idle slot before the selection of one."""
_OF_OTHERS = frozenset({"slot_skip_busy"})
"""Lines that name a request which they are not about: the server chooses a slot for another one."""
KEPT = 64                    # slots whose latest requests are kept


def _are_released_first(request: TiedRequest, line: ReadLine) -> bool:
    """True if a line may be a timing that follows the release, as in servers that print n_past with it."""
    release = request.of("release")[0].read
    if "n_cache_tokens" in release.numbers:                      # ik_llama.cpp has two output streams
        return line.kind in _SECOND_STREAM
    first = "n_past" in release.line.template
    return first and line.kind in TIMES and request.lines[-1].kind in {"release", *TIMES}


def _is_child(request: TiedRequest) -> bool:
    """True if a request is a further completion of another request's prompt."""
    return any(line.read.numbers.get("is_child") for line in request.of("launch"))


def _contradicts(prefix: ReadLine, line: ReadLine) -> bool:
    """True if a line of a request shows that a common prefix is that of another request."""
    if line.kind == "n_past":
        return line.number_of("held") != prefix.number_of("held")
    most = max(prefix.number_of("n_past") or 0, prefix.number_of("n_past_prompt") or 0)
    return line.kind == "batch" and (line.number_of("p0") or 0) > most


_AHEAD = 3                   # lines that are read before the first of them is tied


class LineTies:
    """Pass over the lines of a server run, in their order. ``requests`` are those found so far; a caller that reads an
    endless log removes the requests that it has reported with ``forget``."""

    def __init__(self) -> None:
        self.requests: list[TiedRequest] = []
        self.batches = BatchTies()
        unnamed, kept, words = UnnamedTies(), KeptPromptTies(), WordTies()
        # kind of line -> ties of requests whose lines name neither slot nor task
        self._nameless = {kind: add for kinds, add in (
            (UNNAMED, unnamed.add), (KEPT_PROMPT, kept.add), (WORDS, words.add), (BATCHES, self.batches.add),
        ) for kind in kinds}  # fmt: skip
        self._ahead: list[ReadLine] = []
        self._builds = PossibleBuilds()
        self._timed: set[int] = set()                            # lines of timings below a heading that add up
        self._has_launches = self._has_begun = self._has_no_cache = False
        self._is_new = False                                     # the start of the server is in the log
        self._is_failed = False                                  # since the last line that reports idle slots
        self._open: dict[tuple[int, int], TiedRequest] = {}
        self._pending = PendingChoice(None, None, [], [])
        self._are_idle_saved = False                             # since the last choice: its request is launched
        self._block: TiedRequest | None = None
        self._in_slot: dict[int, TiedRequest] = {}
        self._since_idle: list[TiedRequest] | None = None
        self._latest: dict[int, TiedRequest] = {}                # slot -> its latest request
        self._replaced: set[int] = set()                         # ids of requests whose slot was selected meanwhile
        self._selected: set[int] = set()                         # slots selected by id since their last request
        self._maybe_busy: set[int] = set()                       # those in which an unknown request may have run then

    def add(self, line: ReadLine) -> None:
        """Take the next line."""
        self._builds.add(line)
        self._has_launches |= line.kind == "launch"
        self._has_no_cache |= line.kind == "no_cache"
        self._ahead.append(line)
        if len(self._ahead) >= _AHEAD:
            self._take(self._ahead.pop(0))

    def flush(self) -> None:
        """Tie the lines that wait for later ones."""
        while self._ahead:
            self._take(self._ahead.pop(0))

    def finished(self) -> list[TiedRequest]:
        """Return the requests of all lines."""
        self.flush()
        self._adopt()
        for request in self.requests:
            self.check(request)
        return self.requests

    def _adopt(self) -> None:
        """Add the common prefix, printed without slot and task, to the only request of a log."""
        named = [one for one in self.requests if one.slot is not None]
        blocks = [one for one in self.requests if one.slot is None]
        if len(named) != 1 or len(blocks) != 1 or [line.kind for line in blocks[0].lines] != ["prefix"]:
            return
        (request,), (prefix,) = named, blocks[0].lines
        before = [line for line in request.lines if line.number < prefix.number]
        after = request.lines[len(before) :]
        if any(line.kind not in STARTS for line in before) or any(line.kind in STARTS for line in after):
            return
        if after and not _contradicts(prefix, after[0]):
            request.lines = []
            for line in (*before, prefix, *after):
                request.add(line)
            self.requests.remove(blocks[0])

    def check(self, request: TiedRequest) -> None:
        """Drop what may belong to another request: if the lines are those of several builds, a choice may be that of
        another server than the launch after it."""
        request.is_doubtful |= PossibleBuilds(request.lines).are_several
        start = request.start
        if request.of(BATCH):
            request.page = self.batches.page
        if self._builds.are_several or (self._has_launches and start is not None and start.kind != "launch"):
            request.choice = None
            request.cache = []
            request.similar = []
            request.others = []

    def forget(self, requests: Iterable[TiedRequest]) -> None:
        """Drop requests that get no more lines."""
        gone = {id(request) for request in requests}
        self.requests = [request for request in self.requests if id(request) not in gone]
        self._replaced -= gone
        for slots in (self._in_slot, self._latest):
            for slot in [slot for slot, request in slots.items() if id(request) in gone and len(slots) > KEPT]:
                del slots[slot]
        self._open = {key: request for key, request in self._open.items() if id(request) not in gone}

    def _take(self, line: ReadLine) -> None:
        """Tie a line; the next lines are ahead."""
        if line.kind == TIMES[0] and are_whole_timings(following := [line, *self._ahead]):
            self._timed = {one.number for one in following}
        headed = line.heading is not None and (line.number in self._timed or self._waits_for(line.heading, line))
        where = line.heading if line.heading is not None and headed else (line.slot, line.task)
        block, self._block = self._block, None
        self._is_failed = (self._is_failed or line.kind in _FAILURES) and line.kind != "idle"
        if line.kind in _FAILURES:                               # a child has the tokens of its parent's slot
            self._replaced |= {id(one) for one in self._in_slot.values() if _is_child(one)}
        if line.kind == "idle":
            self._in_slot, self._since_idle = {}, []
        if line.kind in _OF_OTHERS or (line.kind == "slot_by_id" and self._is_running(where)):
            return
        if line.kind in BEGINS:
            self._begin()
        elif line.kind == "cancel" or (line.kind == "too_long" and line.number_of("id_task") is not None):
            self._add_to_task(line)
        elif line.kind in CHOICES | _COMPARED and where[0] is not None:
            self._choose(line)                                   # builds of 2024 name the task that the slot had before
        elif where[0] is not None and where[1] is not None:
            self._take_prefix(block, self._open.get((where[0], where[1])), line)
            self._add((where[0], where[1]), line)
        elif where[0] is not None and "{slot}" in line.read.line.template and line.kind in _IN_SLOT:
            self._add_in_slot(where[0], line)
        elif line.read.line.template.startswith("print_timings: "):
            if self._since_idle is not None and len(self._since_idle) == 1:
                self._since_idle[0].add(line)
        elif line.kind == "idle_save" and line.slot is not None:
            self._are_idle_saved = True
        elif line.kind in CHOICES | _ADAPTERS | _COMPARED or line.kind.startswith("pc_"):
            self._choose(line)
        elif where == (None, None) and line.kind in _PHASE:
            self._extend(block, line)
        elif where == (None, None) and line.kind in WHOLE:
            request = TiedRequest(None, None)
            request.add(line)
            self.requests.append(request)
        elif line.kind in self._nameless:
            begun = self._nameless[line.kind](line)
            self.requests += [] if begun is None else [begun]

    def _is_running(self, where: tuple[int | None, int | None]) -> bool:
        """True if slot and task are those of a request that is not released."""
        request = None if where[0] is None or where[1] is None else self._open.get((where[0], where[1]))
        return request is not None and not request.of("release")

    def _waits_for(self, key: SlotTask, line: ReadLine) -> bool:
        """True if a released request of ik_llama.cpp lacks a line of its timings: it has two output streams."""
        request = self._open.get(key)
        if request is None or request.of(line.kind):
            return False
        return any("n_cache_tokens" in one.read.numbers for one in request.of("release"))

    def _begin(self) -> None:
        """Take a line that a server prints when it starts."""
        self._open = {}
        self._pending = PendingChoice(None, None, [], [])
        self._in_slot = {}
        self._since_idle = None
        self._is_new = not self._has_begun
        self._selected = set()
        self._maybe_busy = set()

    def _add_to_task(self, line: ReadLine) -> None:
        """Add a line about a task whose client hung up, or that is refused, to its request."""
        task = line.number_of("id_task")
        for request in [one for (_, known), one in self._open.items() if known == task and not one.of("release")]:
            request.add(line)

    def _add(self, key: tuple[int, int], line: ReadLine) -> None:
        """Add a line that names its request."""
        request = self._open.get(key)
        if request is not None:
            request.is_doubtful |= id(request) in self._replaced and line.kind not in _LATE - {"release"}
            over = bool(request.of("release"))
            again = line.kind in _ONCE and bool(request.of(line.kind))
            early = line.kind in STARTS and not again and any(held.kind not in STARTS for held in request.lines)
            if again and over and line.kind in STARTS:
                request = None                                   # the server was started again
            elif again or early or (over and line.kind not in _LATE and not _are_released_first(request, line)):
                request.is_doubtful = True
        if request is None:
            is_replaced = self._is_failed or key[0] in self._maybe_busy
            request = self._open[key] = TiedRequest(*key, is_doubtful=is_replaced and line.kind not in STARTS)
            self._selected.discard(key[0])
            self._maybe_busy.discard(key[0])
            request.is_uncached = key[1] == 0 or (self._is_new and not self._has_begun) or self._has_no_cache
            self._has_begun = True
            self.requests.append(request)
        request.add(line)
        self._latest[key[0]] = request
        if line.kind == "launch":
            self._in_slot[key[0]] = request
            if self._since_idle is not None:
                self._since_idle.append(request)
        if line.read.numbers.get("is_child"):
            return
        begins = line.kind in STARTS and len(request.lines) == 1
        if begins and self._pending.slot in (None, key[0]) and self._pending.has_equal_shares:
            request.choice, request.cache = self._pending.choice, self._pending.cache
            request.similar = [held for held in self._pending.similar if held.slot == key[0]]
            request.others = [held for held in self._pending.similar if held.slot != key[0]]
        self._pending = PendingChoice(None, None, [], [])

    def _add_in_slot(self, slot: int, line: ReadLine) -> None:
        """Add a line without a task to the last request of its slot, or to a new one if the line cannot follow."""
        request, phase = self._in_slot.get(slot), _IN_SLOT[line.kind]
        last = None if request is None else max(_IN_SLOT.get(held.kind, 0) for held in request.lines)
        if request is None or last is None or last > phase or (last == phase and line.kind != "ctx_shift"):
            request = self._in_slot[slot] = TiedRequest(slot, None)
            self.requests.append(request)
        request.add(line)

    def _take_prefix(self, block: TiedRequest | None, request: TiedRequest | None, line: ReadLine) -> None:
        """Add the common prefix, printed without slot and task, to the launched request whose next line agrees."""
        if block is None or [held.kind for held in block.lines] != ["prefix"]:
            return
        if request is None or request.start is None or any(held.kind in _BEGUN for held in request.lines):
            return
        prefix = block.lines[0]
        n_past, names = prefix.number_of("n_past"), {"batch": ("p0",), "n_past": ("n_past",)}.get(line.kind, ())
        same = n_past is not None and n_past == prefix.number_of("n_past_prompt")
        same = same and (line.kind == "need_one" or n_past == line.number_of(*names))
        same = same and (line.kind != "n_past" or line.number_of("held") == prefix.number_of("held"))
        if same or (self._is_alone(request, prefix) and not _contradicts(prefix, line)):
            request.add(self.requests.pop().lines[0])

    def _is_alone(self, request: TiedRequest, prefix: ReadLine) -> bool:
        """True if a request was launched just before a line without slot and task, and no other is running."""
        running = [one for one in self._open.values() if one is not request and not one.of("release")]
        start = request.lines[-1]
        return start.kind == "launch" and start.number + 1 == prefix.number and not running

    def _choose(self, line: ReadLine) -> None:
        """Keep a line that a server prints before a launch."""
        pending = self._pending
        self._are_idle_saved &= line.kind not in CHOICES | _COMPARED
        by_id = pending.choice is not None and pending.choice.kind == "slot_by_id" and pending.slot == line.slot
        if line.kind in _COMPARED and by_id and not pending.cache:
            pending.similar.append(line)                         # compared after its selection
        elif line.kind in _COMPARED:
            fresh = pending.choice is None and not pending.cache
            self._pending = PendingChoice(None, None, [*(pending.similar if fresh else []), line], [])
        elif line.kind in CHOICES:
            slot = line.slot if line.slot is not None else line.number_of("slot_arg")
            running = self._latest.get(slot) if slot is not None else None
            self._replaced |= {id(running)} if running is not None and not running.of("release") else set()
            if slot is not None and line.kind == "slot_by_id":   # by id a server selects a slot that is busy, too
                self._maybe_busy |= {slot} if running is None or slot in self._selected else set()
                self._selected.add(slot)
            similar = pending.similar if pending.choice is None and not pending.cache else []
            self._pending = PendingChoice(slot, line, similar, [])
        elif not self._are_idle_saved:
            pending.cache.append(line)

    def _extend(self, block: TiedRequest | None, line: ReadLine) -> None:
        """Add a line without slot and task to the prompt that the line before it belongs to."""
        if block is not None:
            last = block.lines[-1].kind
            again = line.kind in _ONCE and bool(block.of(line.kind))
            if not again and _PHASE[line.kind] >= _PHASE[last] and last != "batch":
                block.add(line)
                self._block = block
                return
        self._block = TiedRequest(None, None, [line])
        self.requests.append(self._block)
