"""``python -m tests.fuzz.rediscovery``: searches for known defects without using that knowledge, and measures the time.

The conversations of a seed run under the defect's profile in sequence. A conversation counts if its finding is
the defect (it disappears with the defect's cure), and is then shrunk.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from dataclasses import replace
from statistics import median
from typing import Callable, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.base.garbage_collection import with_rare_garbage_collection
from cachesim.base.pool import finished, whole
from cachesim.judging.compare_answer import Judge
from cachesim.scenarios.notation.shrink import shrink
from cachesim.scenarios.notation.tree import Action, LineRequest
from cachesim.tools.search.campaign import SPREAD, findings
from cachesim.tools.search.drawn_conversation import DrawnConversation, draw_conversation, longest
from cachesim.tools.search.property_failure import PropertyFailure
from tests.fuzz.defects import DEFECTS, OF_ADAPTERS, Defect

LIMIT = 20_000


class Found(NamedTuple):
    """A rediscovered defect: conversations and seconds until then, seconds to shrink it, and the shrunk case."""

    name: str
    seed: int
    examples: int
    seconds: float
    shrinking: float
    case: DrawnConversation | None
    line: str = ""
    said: str = ""

    @property
    def steps(self) -> int:
        return len(self.case.asked) if self.case else 0

    @property
    def longest(self) -> int:
        return longest(self.case) if self.case else 0


def is_it(defect: Defect, case: DrawnConversation, judges: dict[str, Judge]) -> PropertyFailure | None:
    """Return the finding of this case if it is the defect: with its cure, similar findings do not occur as early."""
    if (defect.models and not set(defect.models) & set(case.model)) or not defect.about(case):
        return None
    found = [one for one in findings(case, defect.profile, (defect.prop,), judges)
             if re.search(defect.said, f"{one.label} | {one.text}")]
    if not found:
        return None
    if defect.needs is not None and not _is_needed(defect, defect.needs, case, judges, found[0].step):
        return None
    after = cured(defect, case, judges)
    new = (one for one in found if all(late.step > one.step or _what(late) != _what(one) for late in after))
    return next(new, None)


def _is_needed(
    defect: Defect, needs: Callable[[LineRequest | Action], bool], case: DrawnConversation, judges: dict[str, Judge],
    last: int,
) -> bool:
    """True if some of these steps occur, and without them the conversation holds up to step ``last``."""
    kept = [number for number, step in enumerate(case.asked) if not needs(step)]
    if not kept or len(kept) == len(case.asked):
        return False
    rest = replace(case, asked=tuple(case.asked[number] for number in kept))
    return all(kept[one.step] > last for one in findings(rest, defect.profile, (defect.prop,), judges))


def _what(found: PropertyFailure) -> tuple[str, str]:
    return found.kind, found.stored


def cured(defect: Defect, case: DrawnConversation, judges: dict[str, Judge]) -> list[PropertyFailure]:
    """Return the findings with the defect cured."""
    from cachesim.engines.registry import engine_of

    cure = defect.cure
    table = cure.table(engine_of(defect.profile).profiles[defect.profile])
    with cure.around():
        return findings(cure.case(case), defect.profile, (defect.prop,), judges, table)


@with_rare_garbage_collection()
def search(defect: Defect, seed: int, limit: int = LIMIT) -> Found:
    """Run the conversations of a seed until the defect is found, then shrink the case."""
    judges: dict[str, Judge] = {}
    engine = defect.profile.partition("@")[0]
    begin = time.monotonic()

    def fails(case: DrawnConversation) -> bool:
        try:
            return is_it(defect, case, judges) is not None
        except BadInput:
            return False

    for i in range(limit):
        case = draw_conversation(seed * SPREAD + i, engine, defect.options)
        if fails(case):
            met = time.monotonic()
            small = shrink(case, fails, seed=case.seed)
            finding = is_it(defect, small, judges)
            left = cured(defect, small, judges)
            said = f"{finding.text} ({finding.label})" if finding else "?"
            return Found(defect.name, seed, i + 1, met - begin, time.monotonic() - met, small,
                         one_line(small, defect.profile), said + ("" if not left else f"; cured: {left[0].text}"))
    return Found(defect.name, seed, limit, time.monotonic() - begin, 0.0, None)


def search_named(job: tuple[str, int, int]) -> Found:
    """Run ``search`` in another process, with the defect given by its number in the table."""
    name, seed, limit = job
    return search(next(one for one in (*DEFECTS, *OF_ADAPTERS) if one.name == name), seed, limit)


def one_line(case: DrawnConversation, profile: str) -> str:
    """Return the case as typed: requests, model, options."""
    flags = "".join(
        f" --set {name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in case.given().items()
    )
    return f"{case.scenario(profile)!r} --model '{case.model}'{flags}"


def report(defect: Defect, found: list[Found]) -> str:
    """Return the report of a defect over all seeds."""
    got = [one for one in found if one.case]
    best = min(got, key=lambda one: (one.steps, one.longest, one.seed), default=None)
    head = (f"{defect.name:14} {defect.profile:24} {defect.prop:21} {len(got)}/{len(found)}"
            f" {median(one.examples for one in found):7.0f} examples {median(one.seconds for one in found):6.1f} s"
            f" shrunk {median(one.shrinking for one in found):5.1f} s"
            f" steps <= {max((one.steps for one in got), default=0)}"
            f" tokens <= {max((one.longest for one in got), default=0)}")
    lines = [head, f"    holds with {defect.cure.text}"]
    if best is not None:
        lines += [f"    {best.line}", f"    {best.said}"]
    return "\n".join(lines)


def main() -> int:
    """Return 0 if every defect was found with every seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.rediscovery", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--limit", type=int, default=LIMIT)
    parser.add_argument("names", nargs="*", help="part of a defect's name")
    args = parser.parse_args()
    wanted = [one for one in (*DEFECTS, *OF_ADAPTERS) if not args.names or any(name in one.name for name in args.names)]
    missing = 0
    todo = [(one, seed, args.limit) for one in wanted for seed in range(args.first, args.first + args.seeds)]
    done: dict[str, list[Found]] = {one.name: [] for one in wanted}
    named = [(one.name, seed, limit) for one, seed, limit in todo]
    for share in finished(search_named, named, args.jobs):
        one = todo[share.number][0]
        done[one.name] += whole([share.result])
        if len(done[one.name]) == args.seeds:
            print(report(one, done[one.name]), flush=True)
            missing += sum(found.case is None for found in done[one.name])
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
