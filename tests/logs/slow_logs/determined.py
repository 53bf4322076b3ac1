"""Numbers and causes of requests that the lines of an excerpt determine.

The rules are written from llama.cpp's source (b11549, tools/server) and do not use the importer. Each number is a
range, which every rule narrows; a range of one value is an exact count. Each rule states its meaning in a sentence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Callable, Mapping, Sequence

from tests.logs.slow_logs.kept_lines import KeptLine, kept_lines

FIRST_TASK = 0
HALF_PERCENT, HALF_THOUSANDTH = 0.005 + 1e-9, 0.0005 + 1e-6     # how far a printed share may be from its value
NO_LOAD = 0.5               # the prompt cache is not asked above this share of the slot
SELECTIONS = ("by_lcp", "by_lru", "cut_selection")
LARGEST = 1 << 40           # upper end of a range without one [tokens]


@dataclass(slots=True)
class Range:
    """A range of integers."""

    low: int = 0
    high: int = LARGEST

    @property
    def is_exact(self) -> bool:
        """True if the range has one value."""
        return self.low == self.high

    def narrow(self, low: float = 0, high: float = LARGEST) -> bool:
        """Intersect with another range; return True if this range changed."""
        before = self.low, self.high
        self.low = max(self.low, math.ceil(low))
        self.high = min(self.high, math.floor(high))
        return before != (self.low, self.high)

    def contains(self, value: int) -> bool:
        """True if a value is in the range."""
        return self.low <= value <= self.high


@dataclass(slots=True)
class Determined:
    """What the lines determine about a request. ``common``: tokens shared with the chosen slot before any load;
    ``held``: its tokens; ``lines``: known lines of the request, its choice of a slot included."""

    task: int
    lines: list[KeptLine]
    prompt: Range = field(default_factory=lambda: Range(low=1))
    reused: Range = field(default_factory=Range)
    evaluated: Range = field(default_factory=Range)
    generated: Range = field(default_factory=Range)
    common: Range = field(default_factory=Range)
    held: Range = field(default_factory=Range)

    def of(self, *kinds: str) -> list[KeptLine]:
        """Return the lines of some kinds."""
        return [line for line in self.lines if line.kind in kinds]

    @property
    def is_complete(self) -> bool:
        """True if the lines show that the request got its whole answer: timings are logged only then."""
        return bool(self.of("prompt_time", "eval_time", "total_time"))

    @property
    def is_loss(self) -> bool:
        """True if the numbers prove that tokens of the common prefix were evaluated again."""
        return self.is_complete and min(self.common.low, self.prompt.low - 1) > self.reused.high

    @property
    def cause(self) -> str:
        """Key of the cause that the lines determine, "" if they determine none. A loss alone has no cause: a memory
        that cannot be cut and a request without reuse look the same, unless the prompt differs from the slot. A request
        that reused nothing may have set ``cache_prompt`` to false: its lines are the same."""
        if self.of("forced"):
            return "no-checkpoint"
        if self.of("need_one") and self.is_loss:
            return "identical-prompt"
        differs = self.common.high < min(self.prompt.low, self.held.low)
        return "edited-prompt" if self.is_loss and differs and self.reused.low else ""


Rule = Callable[[Determined], bool]
"""Function that narrows ranges; it returns whether a range changed."""


def first_request(found: Determined) -> bool:
    """The first task finds an empty slot and an empty prompt cache: reused = 0 (server-queue.cpp get_new_id)."""
    return found.task == FIRST_TASK and found.reused.narrow(high=0)


def printed_counts(found: Determined) -> bool:
    """Timings print evaluated and generated tokens (server-context.cpp print_timings)."""
    changed = [found.evaluated.narrow(line.numbers["evaluated"], line.numbers["evaluated"])
               for line in found.of("prompt_time")]  # fmt: skip
    changed += [found.generated.narrow(line.numbers["generated"], line.numbers["generated"])
                for line in found.of("eval_time")]  # fmt: skip
    return any(changed)


def total_of_counts(found: Determined) -> bool:
    """The total of the timings is evaluated + generated (server-context.cpp print_timings)."""
    changed = []
    for line in found.of("total_time"):
        total = line.numbers["total"]
        changed.append(found.evaluated.narrow(total - found.generated.high, total - found.generated.low))
        changed.append(found.generated.narrow(total - found.evaluated.high, total - found.evaluated.low))
    return any(changed)


def printed_prompt(found: Determined) -> bool:
    """These lines print the tokens of the prompt (update_slots, init_sampler, get_available_slot)."""
    lines = found.of("new_prompt", "sampler", "need_one", "similarity")
    return any([found.prompt.narrow(line.numbers["prompt"], line.numbers["prompt"]) for line in lines])


def parts_of_prompt(found: Determined) -> bool:
    """A complete request evaluates what it does not reuse, at least a token (server-context.cpp update_slots)."""
    prompt, reused, evaluated = found.prompt, found.reused, found.evaluated
    changed = [reused.narrow(high=prompt.high - 1)]
    if found.is_complete:
        changed += [
            evaluated.narrow(low=1),
            prompt.narrow(reused.low + evaluated.low, reused.high + evaluated.high),
            reused.narrow(prompt.low - evaluated.high, prompt.high - evaluated.low),
            evaluated.narrow(prompt.low - reused.high, prompt.high - reused.low),
        ]
    return any(changed)


def tokens_at_end(found: Determined) -> bool:
    """A complete answer leaves prompt + generated - 1 tokens, unless the context shifted (server_slot::release)."""
    changed = []
    for line in found.of("release"):
        end = line.numbers["end"]
        if found.is_complete and not line.numbers["truncated"]:
            changed.append(found.prompt.narrow(end + 1 - found.generated.high, end + 1 - found.generated.low))
            changed.append(found.generated.narrow(end + 1 - found.prompt.high, end + 1 - found.prompt.low))
    return any(changed)


def progress_shares(found: Determined) -> bool:
    """progress = (reused + done) / prompt with two decimals, after done evaluated tokens (print_timings_pp)."""
    prompt, reused, evaluated, changed = found.prompt, found.reused, found.evaluated, []
    lines = found.of("progress")
    for line in lines:
        done, low, high = line.numbers["done"], *_around(line.shares["share"], HALF_PERCENT)
        changed += [
            evaluated.narrow(low=done),
            prompt.narrow((reused.low + done) / high, (reused.high + done) / low if low > 0 else LARGEST),
            reused.narrow(low * prompt.low - done, high * prompt.high - done),
        ]
        if found.is_complete and evaluated.is_exact:
            rest = evaluated.low - done             # prompt = reused + evaluated, so rest / prompt = 1 - progress
            changed.append(prompt.narrow(rest / (1 - low), rest / (1 - high) if high < 1 else LARGEST))
    for one, two in pairwise(lines):
        more = two.numbers["done"] - one.numbers["done"]
        step = float(two.shares["share"]) - float(one.shares["share"])
        least, most = step - 2 * HALF_PERCENT, step + 2 * HALF_PERCENT
        changed.append(prompt.narrow(more / most, more / least if least > 0 else LARGEST))
    return any(changed)


def first_batch(found: Determined) -> bool:
    """Before its first batch a request has only its reused tokens in the slot (server-context.cpp update_slots)."""
    lines = found.of("first_batch")
    changed = [found.reused.narrow(high=line.numbers["kept"]) for line in lines]
    if found.of("new_prompt") and lines and lines[0].at > found.of("new_prompt")[0].at:
        changed.append(found.reused.narrow(low=lines[0].numbers["kept"]))
    return any(changed)


def verdicts(found: Determined) -> bool:
    """A restored checkpoint, a forced evaluation and a lowered n_past decide what is reused (update_slots)."""
    changed = [found.reused.narrow(high=0) for _ in found.of("forced")]
    for line in found.of("need_one"):
        changed.append(found.reused.narrow(line.numbers["prompt"] - 1, line.numbers["prompt"] - 1))
    for line in found.of("restored"):
        n_past = line.numbers["n_past"]
        lowered = n_past >= found.prompt.low            # n_past = prompt is lowered by one
        changed.append(found.reused.narrow(n_past - lowered, n_past))
    return any(changed)


def similarity_of_slot(found: Determined) -> bool:
    """f_sim = common / prompt and f_keep = common / held of the chosen slot (server-context.cpp get_available_slot)."""
    changed = []
    for line in found.of("similarity"):
        changed.append(found.common.narrow(line.numbers["common"], line.numbers["common"]))
    for line in found.of("by_lcp"):
        low, high = _around(line.shares["f_sim"], HALF_THOUSANDTH)
        least, most = _around(line.shares["f_keep"], HALF_THOUSANDTH)
        changed += [
            found.common.narrow(low * found.prompt.low, high * found.prompt.high),
            found.prompt.narrow(found.common.low / high, found.common.high / low if low > 0 else LARGEST),
            found.held.narrow(found.common.low / most, found.common.high / least if least > 0 else LARGEST),
        ]
        if least >= NO_LOAD:
            changed.append(found.reused.narrow(high=found.common.high))
    changed.append(found.common.narrow(high=min(found.prompt.high, found.held.high)))
    return any(changed)


def _around(share: str, tolerance: float) -> tuple[float, float]:
    return max(0.0, float(share) - tolerance), float(share) + tolerance


RULES: Sequence[Rule] = (
    first_request, printed_counts, total_of_counts, printed_prompt, parts_of_prompt, tokens_at_end, progress_shares,
    first_batch, verdicts, similarity_of_slot,
)  # fmt: skip


def determine(lines: Sequence[str]) -> Mapping[int, Determined]:
    """Return what the lines of one server determine about each request that they name."""
    found: dict[int, Determined] = {}
    choice: list[KeptLine] = []
    for line in kept_lines(lines):
        if line.task is None:
            choice = _with_choice(choice, line)
            continue
        request = found.setdefault(line.task, Determined(line.task, []))
        if line.kind == "launch":
            request.lines += [one for one in _of_slot(choice, line.slot)]
            choice = []
        request.lines.append(line)
    for request in found.values():
        while any([rule(request) for rule in RULES]):
            pass
    return found


def _with_choice(choice: list[KeptLine], line: KeptLine) -> list[KeptLine]:
    """Return the lines of the current choice of a slot with another line, without those of a choice before it."""
    is_over = any(one.kind in SELECTIONS for one in choice)
    begins = line.kind == "similarity" or line.kind in SELECTIONS
    return [line] if is_over and begins else [*choice, line]


def _of_slot(choice: Sequence[KeptLine], slot: int | None) -> list[KeptLine]:
    """Return the lines of a choice that are about the launched slot; none if another slot was chosen."""
    chosen = [line.slot for line in choice if line.kind in SELECTIONS]
    if chosen != [slot]:
        return []
    return [line for line in choice if line.slot in (slot, None)]
