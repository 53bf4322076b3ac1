"""Requests of a log whose lines are prefill batches, which name no request.

A batch with one sequence, while nothing runs and nothing waits, is a request or a chunk of its prompt. A further chunk
has no cached tokens and comes before any other line of the scheduler. Servers that print the tokens that are due after
a batch show whether its prompt goes on; for others a batch that may be as long as a chunk leaves that open.
Source: SGLang 0.3.6 to 0.5.23 srt/managers/schedule_policy.py PrefillAdder, add_chunked_req.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import TiedRequest

BATCH = "prefill_batch"
_STARTS = frozenset({"start_limits", "start_engine"})
KINDS = frozenset({BATCH, "decode_batch", "retracted", "flushed", *_STARTS})
_RANK = re.compile(r"\b(DP|PP)(\d+)")
PAGES: tuple[int, ...] = (256, 128, 64, 32, 16)      # tokens of pages that attention backends use, beside 1
SHORTEST_CHUNK = 128         # tokens of a chunk, at least
CHUNK_UNIT = 8               # tokens: the size of a chunk is a multiple


@dataclass(slots=True)
class _Scheduler:
    """State of the lines of one scheduler. ``open``: the request whose prompt goes on, or may; ``is_certain``: a line
    shows that it goes on; ``may_continue``: the next batch may be the rest of a prompt whose beginning is unknown;
    ``back``: retracted requests that are not admitted again."""

    open: TiedRequest | None = None
    is_certain: bool = False
    may_continue: bool = True
    back: int = 0

    def close(self) -> None:
        """Note a line that comes only after the last chunk of a prompt."""
        if self.open is not None:
            self.open.is_cut &= self.is_certain
            self.open.is_over = True
        self.open = None
        self.may_continue = False


class BatchTies:
    """Requests that prefill batches show one by one. ``add`` ties a line and returns the request that the line begins,
    if any."""

    def __init__(self) -> None:
        self._pages = PAGES                                      # pages [tokens] that all batches are multiples of
        self._page: int | None = None                            # printed tokens of a page, None = not printed
        self._chunk: int | None = None                           # printed size of a chunk, None = not printed
        self._longest = 0                                        # tokens of the longest batch so far
        self._schedulers: dict[str, _Scheduler] = {}

    @property
    def page(self) -> int:
        """Longest page [tokens] in whose multiples the batches so far can have been printed."""
        if self._page is not None:
            return self._page
        return max(self._pages, default=1)

    def add(self, line: ReadLine) -> TiedRequest | None:
        """Tie a line; return the request that it begins, None if it begins none."""
        if line.kind in _STARTS:
            self._start(line)
            return None
        ranks = dict(_RANK.findall(line.head))
        if ranks.get("PP", "0") != "0":                          # a later stage repeats the lines of the first one
            return None
        scheduler = self._schedulers.setdefault(ranks.get("DP", ""), _Scheduler())
        if line.kind == BATCH:
            return self._batch(scheduler, line)
        if line.kind == "retracted":
            scheduler.back += line.number_of("retracted") or 1
        scheduler.close()
        return None

    def _start(self, line: ReadLine) -> None:
        """Read the sizes that a server prints when it starts: its first prompts have their beginnings."""
        chunk = line.read.numbers.get("chunk")
        self._chunk = chunk if isinstance(chunk, int) else self._chunk
        page = line.number_of("page")
        if page:
            self._pages, self._page = (page,), page
        for rank in ("", *map(str, range(64))):
            self._schedulers.setdefault(rank, _Scheduler(may_continue=False))

    def _batch(self, scheduler: _Scheduler, line: ReadLine) -> TiedRequest | None:
        """Tie a prefill batch."""
        names = ("prompt_n", "cache_n", "new_seq", "running", "queued")
        evaluated, cached, sequences, running, waiting = (line.number_of(name) for name in names)
        if evaluated is None or cached is None or sequences is None:
            scheduler.open, scheduler.may_continue = None, True
            return None
        self._pages = tuple(page for page in self._pages if evaluated % page == 0)
        if self._page is not None and not self._pages:           # this server prints tokens, not pages
            self._page = 1
        due = line.number_of("pending") if waiting == 0 else None
        goes_on = due > 0 if due is not None else self._may_be_chunk(evaluated)
        self._longest = max(self._longest, evaluated)
        is_back, scheduler.back = scheduler.back > 0, max(0, scheduler.back - sequences)
        if (sequences, running, waiting) != (1, 0, 0) or is_back:
            scheduler.close()
            scheduler.may_continue = goes_on
            return None
        if scheduler.open is not None and cached == 0:
            self._continue(scheduler, line, goes_on=goes_on)
            return None
        may_continue = scheduler.may_continue and cached == 0
        scheduler.close()
        request = TiedRequest(None, None, [line.without("cache_n") if may_continue else line])
        request.is_cut = may_continue or goes_on
        request.is_over = not goes_on
        if goes_on:
            scheduler.open = request
            scheduler.is_certain = due is not None or may_continue
        return request

    def _continue(self, scheduler: _Scheduler, line: ReadLine, goes_on: bool) -> None:
        """Add a further chunk to a prompt. Without the tokens that are due, it may be the prompt of another request:
        then neither is known."""
        request = scheduler.open
        if request is not None and scheduler.is_certain:
            request.add(line)
            is_beginning_known = request.lines[0].number_of("cache_n") is not None
            request.is_cut = goes_on or not is_beginning_known
            request.is_over = not goes_on
            scheduler.open = request if goes_on else None
        else:
            scheduler.open, scheduler.may_continue = None, goes_on

    def _may_be_chunk(self, evaluated: int) -> bool:
        """True if a batch may end within a prompt: a chunk is as long as its limit, without the last part of a page."""
        if self._chunk is not None:
            return self._chunk > 0 and self._chunk - PAGES[0] < evaluated
        is_longest = evaluated > self._longest - PAGES[0]
        return evaluated >= SHORTEST_CHUNK and evaluated % CHUNK_UNIT == 0 and is_longest
