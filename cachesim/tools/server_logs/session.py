"""What happened on the server whose log this is? Requests in the order of their start, with what the log says of each.

A number that the log does not say is None. Nothing is guessed here; `rebuild` does that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Sequence

from cachesim.base.limits import LOG_REQUESTS
from cachesim.engines.shared.log_grammar import LogGrammar, Number, Read
from cachesim.tools.server_logs.line_prefixes import message
from cachesim.tools.server_logs.recognise import read_by

TOGETHER = 12                # requests that are taken to overlap, at most


@dataclass(slots=True)
class Logged:
    """One request as the log has it. Counts and positions are tokens."""

    slot: int                                                    # its slot
    task: int | None = None                                      # its task, None = not printed
    lines: tuple[int, int] = (0, 0)                              # its first and last line, from 1
    chosen: str = ""  # how its slot was selected: "lcp", "lru", "id" or "" (not printed)
    f_sim: float | None = None                                   # similarity of the slot, as printed
    f_keep: float | None = None                                  # share of the slot that is kept, as printed
    held: int | None = None                                      # tokens in the slot before it
    lcp: int | None = None                                       # common prefix with them
    n_tokens: int | None = None                                  # tokens of its prompt
    cache_n: int | None = None                                   # prompt tokens reused
    prompt_n: int | None = None                                  # prompt tokens evaluated
    predicted_n: int | None = None                               # tokens generated
    end: int | None = None                                       # tokens in the slot after it
    truncated: bool = False                                      # the prompt was shortened, or the context shifted
    pos_min: int | None = None                                   # first position in the memory, as printed
    restored: int | None = None                                  # n_past behind a restored checkpoint
    full: bool = False                                           # the server says that it evaluates everything again
    refused: bool = False                                        # the server refused it
    loaded: bool = False                                         # an entry of the prompt cache was loaded for it
    created: list[int] = field(default_factory=list)             # tokens of the checkpoints made during it
    # checkpoints that were compared: pos_min, pos_max, threshold
    checked: list[tuple[int, int, float]] = field(default_factory=list)
    shifts: list[tuple[int, int]] = field(default_factory=list)  # context shifts: n_keep, n_discard
    chunks: list[tuple[int, int]] = field(default_factory=list)  # pieces of the slot that were moved, from and to
    spans: list[tuple[int, int]] = field(default_factory=list)   # (pos_min, pos_max) of its checkpoints
    share: tuple[int, float] | None = None                       # tokens evaluated, and their share as printed
    prefix_end: int | None = None  # common prefix, where the log gives it without the slot's length
    begun: bool = False                                          # evaluation has begun
    seen: int = 0                                                # the slot held at least so many tokens
    guessed: bool = False                                        # its length is the least that it can be
    whole: bool = False                                          # its beginning and end are in the log
    named: bool = True                                               # its lines name slot and task
    done: int = -1                                                   # tokens evaluated when the log last said it

    @property
    def least(self) -> int:
        """The fewest tokens that its prompt can have, after what was evaluated of it; 0 = nothing is known."""
        seen = [*self.created, self.cache_n or 0, self.restored or 0, self.lcp or 0, self.prefix_end or 0,
                self.share[0] if self.share else 0, *(int(thold) for _, _, thold in self.checked)]
        if self.end is not None and self.predicted_n is None and not self.truncated:
            return max(1, self.end)
        return max(seen) + 1 if max(seen) or self.whole or self.full else 0

    def settle(self) -> None:
        """Fill in what follows from the rest."""
        if self.n_tokens is None and self.cache_n is not None and self.prompt_n is not None:
            self.n_tokens = self.cache_n + self.prompt_n
        known = self.n_tokens is None and self.end is not None and self.predicted_n is not None
        if known and (self.shifts or not self.truncated):
            assert self.end is not None and self.predicted_n is not None
            gone = sum(discarded for _, discarded in self.shifts)
            self.n_tokens = self.end + gone - self.predicted_n + (1 if self.predicted_n else 0)
        if self.n_tokens is None and self.share is not None:
            self.n_tokens = _whole(*self.share)
        if self.cache_n is None and self.n_tokens is not None and self.prompt_n is not None:
            reused = self.n_tokens - self.prompt_n
            self.cache_n = reused if reused >= 0 else None      # b11063 counts some tokens twice beside drafts
        if self.n_tokens is None and self.least and self.named:
            self.n_tokens, self.guessed = self.least, True
        if self.prompt_n is None and self.n_tokens is not None and self.cache_n is not None:
            self.prompt_n = self.n_tokens - self.cache_n


def _whole(done: int, share: float) -> int | None:
    """The one length of which ``done`` tokens print as this share, with six decimals; None if several do."""
    if share <= 0 or not done:
        return None
    low, high = done / (share + 5e-7), done / max(share - 5e-7, 1e-9)
    return round(done / share) if int(high) - int(low) == 1 or int(low) == int(high) == low else None


@dataclass(slots=True)
class LogSession:
    """A log of one server: its requests, what it says of itself (``facts``), how many lines were read and recognised,
    how often each kind of line occurs; ``beyond``: requests behind those that are kept."""

    engine: str
    requests: list[Logged] = field(default_factory=list)
    facts: dict[str, Number | str] = field(default_factory=dict)
    lines: int = 0
    recognised: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    since: int = 0               # oldest build that prints every line that was seen, 0 = not known
    beyond: int = 0
    until: int = 0               # oldest build known not to print one of them any more


def overlapping(requests: Sequence[Logged]) -> Iterator[list[Logged]]:
    """Requests that were in work at the same time, by their lines in the log."""
    group: list[Logged] = []
    end = 0
    for one in requests:
        if group and (one.lines[0] > end or len(group) == TOGETHER):
            yield group
            group, end = [], 0
        group.append(one)
        end = max(end, one.lines[1])
    if group:
        yield group


class LogState:
    """The state in which a line is understood: who is working in which slot, whose lines follow without a name."""

    def __init__(self, session: LogSession, grammar: LogGrammar) -> None:
        self.session, self.grammar = session, grammar
        self.open: dict[int, Logged] = {}                 # slot -> the request in it
        self.closed: dict[int, Logged] = {}               # slot -> the request that has left it
        self.ends: dict[int, int] = {}                    # slot -> tokens that it was left with
        self.choice: dict[int, dict[str, Any]] = {}       # slot -> how it was selected for the request to come
        self.speaking: int | None = None                  # slot of the last line that named one
        self.candidates: list[Read] = []                  # entries of the prompt cache that were listed last
        self.unnamed: list[Logged] = []                   # requests in work whose lines name no slot
        self.reply: dict[str, int] | None = None          # numbers of the answer whose lines are read, None = of none
        self.timing: tuple[int, int] | None = None        # slot and task whose timings follow without a name

    def line(self, number: int, text: str) -> None:
        self.session.lines = number
        said = message(text)
        if said.slot is not None and said.slot >= 0:
            self.speaking = said.slot
        if said.function.startswith("print_timing"):
            self.timing = None if said.slot is None or said.task is None else (said.slot, said.task)
        read = read_by(self.grammar, said)
        if read is None:
            return
        self.session.recognised += 1
        kind = read.line.ev
        if read.slot is not None:
            self.speaking = read.slot
        self.session.kinds[kind] = self.session.kinds.get(kind, 0) + 1
        self.session.since = max(self.session.since, read.line.since)
        if read.line.until:
            self.session.until = min(self.session.until or read.line.until, read.line.until)
        if (heard := HEARD.get(kind)) is not None:
            heard(self, read, number)

    def of(self, read: Read, number: int, begins: bool = False, late: bool = False) -> Logged | None:
        """The request that a line is about; a new one if its task is new, or if none is open in its slot. ``late``:
        old builds print it behind the request's end."""
        slot = read.slot if read.slot is not None else self.speaking
        if slot is None:
            if not begins:
                return None
            slot = 0
        one = self.open.get(slot)
        before = self.closed.get(slot)
        if before is not None and read.task is not None and read.task == before.task:
            return before                      # a line that another thread wrote, after the request's end
        if late and one is None and before is not None and read.task in (None, before.task):
            return before
        other = one is not None and None not in (one.task, read.task) and one.task != read.task
        if one is None or other or (begins and one.end is not None):
            one = self._new(slot, read.task, number, begins)
        one.task = read.task if one.task is None else one.task
        one.lines = one.lines[0], number
        return one

    def timed(self, read: Read, number: int) -> Logged | None:
        """Return the request that timings are about: that of the line above them, if it names one. Other lines can
        stand in between."""
        if read.slot is not None or self.timing is None:
            return self.of(read, number, late=True)
        slot, task = self.timing
        return next((one for one in (self.open.get(slot), self.closed.get(slot)) if one and one.task == task), None)

    def _new(self, slot: int, task: int | None, number: int, begins: bool) -> Logged:
        one = Logged(slot, task, (number, number), held=self.ends.get(slot), whole=begins)
        for name, found in self.choice.pop(slot, {}).items():
            setattr(one, name, found)
        self.choice = {other: found for other, found in self.choice.items() if "chosen" in found}
        self.open[slot] = one
        return self.begin(one)

    def begin(self, one: Logged) -> Logged:
        """Enter a new request, or count it only."""
        if len(self.session.requests) < LOG_REQUESTS.now:
            self.session.requests.append(one)
        else:
            self.session.beyond += 1
        return one


Heard = Callable[[LogState, Read, int], None]
HEARD: dict[str, Heard] = {}
"""What is done with a line, by its kind; `session_lines` and `read` fill it."""
