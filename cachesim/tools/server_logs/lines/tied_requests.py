"""Requests of a log as their lines, and the builds that can have printed lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, NamedTuple

from cachesim.tools.server_logs.lines.read_lines import ReadLine

CHOICES = frozenset({"slot_by_lcp", "slot_by_lru", "slot_by_id"})
STARTS = frozenset({"launch", "new_prompt"})
WHOLE = frozenset({"reused", "too_long", "ollama_slot", "ollama_prefix", "kobold_done"})
"""Kinds of lines that have all numbers of a request, most of them of other software."""
ENDS = frozenset({"release", "usage", "kept_evaluated", "omlx_differs", *WHOLE})
"""Kinds of lines that end a request."""
_REPEATED = frozenset({"generating", "spec_step", "spec_ckpt", "spec_restore"})
MOST_REPEATED = 64           # lines of a request's generation that are kept
BEGINS = frozenset({"server", "version", "start_cache", "start_ckpt", "no_cache", "no_ckpt", "memory"})
"""Lines that a server prints when it starts."""
_SPELLED = frozenset({"slot_by_lcp", "launch", "new_prompt", "batch", "pc_search", "pc_load"})
"""Kinds of lines that a build prints with one spelling."""
_UPDATES = ("update_slots:", "operator():")
"""Names of the function that prints new prompts and batches, in old and new builds."""


@dataclass(slots=True, eq=False)
class TiedRequest:
    """Lines of a request. ``choice`` selected its slot; ``cache`` are the lines about the prompt cache and adapters
    between the choice and the launch; ``similar`` are those about the similarity of the selected slot before the
    choice, ``others`` those about other slots. ``is_doubtful``: two requests have this slot and task, or the tokens in
    the slot may be those of another prompt. ``is_uncached``: the prompt cache has no entry for it, because the server
    had no request before it or has no prompt cache. ``is_over``: a line ends it. ``is_cut``: more tokens of its prompt
    may have been evaluated than its lines show. ``page``: tokens of a page, whose multiples a server may print in place
    of evaluated tokens."""

    slot: int | None
    task: int | None
    lines: list[ReadLine] = field(default_factory=list)
    choice: ReadLine | None = None
    cache: list[ReadLine] = field(default_factory=list)
    similar: list[ReadLine] = field(default_factory=list)
    others: list[ReadLine] = field(default_factory=list)
    is_doubtful: bool = False
    is_uncached: bool = False
    is_over: bool = False
    is_cut: bool = False
    page: int = 1
    repeated: int = 0                                    # lines printed while the server generates
    kinds: set[str] = field(default_factory=set)         # kinds of its lines

    def __post_init__(self) -> None:
        self.kinds |= {line.kind for line in self.lines}

    def add(self, line: ReadLine) -> None:
        """Add a line; drop lines that a server prints while it generates, except the first ones."""
        self.is_over |= line.kind in ENDS and not (line.kind == "too_long" and self.slot is not None)
        if line.kind in _REPEATED:
            self.repeated += 1
        if line.kind not in _REPEATED or self.repeated <= MOST_REPEATED:
            self.lines.append(line)
            self.kinds.add(line.kind)

    def of(self, *kinds: str) -> list[ReadLine]:
        """Return the lines of these kinds."""
        return [] if self.kinds.isdisjoint(kinds) else [line for line in self.lines if line.kind in kinds]

    def of_cache(self, kind: str) -> list[ReadLine]:
        """Return the lines of this kind between the choice and the launch."""
        return [line for line in self.cache if line.kind == kind]

    @property
    def start(self) -> ReadLine | None:
        """Line with which the request starts, None if it is not in the excerpt."""
        return next(iter(self.of(*STARTS)), None)

    @property
    def is_cancelled(self) -> bool:
        """True if a line reports that its client hung up."""
        return "cancel" in self.kinds

    @property
    def span(self) -> tuple[int, int]:
        """Numbers of its first and last line."""
        numbers = [line.number for line in (*self.similar, *self.cache, *self.lines)]
        numbers += [] if self.choice is None else [self.choice.number]
        return min(numbers, default=0), max(numbers, default=0)


class PendingChoice(NamedTuple):
    """Slot selection that waits for its launch."""

    slot: int | None
    choice: ReadLine | None
    similar: list[ReadLine]
    cache: list[ReadLine]

    @property
    def has_equal_shares(self) -> bool:
        """True if the search in the prompt cache repeats the shares of the choice, as a single server prints it."""
        words = {} if self.choice is None else self.choice.read.words
        found = (line.read.words for line in self.cache if line.kind == "pc_search")
        return all(words.get(name, again[name]) == again[name] for again in found for name in ("f_keep", "f_sim"))


class PossibleBuilds:
    """Builds that can have printed the lines so far."""

    def __init__(self, lines: Iterable[ReadLine] = ()) -> None:
        self._since, self._until = 0, 0
        self._spellings: set[tuple[str, str]] = set()
        self._names: set[str] = set()
        for line in lines:
            self.add(line)

    def add(self, line: ReadLine) -> None:
        """Take a line into account."""
        known = line.read.line
        self._since = max(self._since, known.since)
        if known.until:
            self._until = min(self._until or known.until, known.until)
        if line.kind in _SPELLED:
            self._spellings.add((line.kind, known.template))
            self._names |= {name for name in _UPDATES if name in line.head}

    @property
    def are_several(self) -> bool:
        """True if no build prints all of these lines: because of a spelling, or because the update of the slots has two
        names."""
        spelled_twice = len(self._spellings) > len({kind for kind, _ in self._spellings})
        return bool(self._until and self._since >= self._until) or spelled_twice or len(self._names) > 1
