"""Which of the changes that were tried matter? Right answers first, then tokens, memory, and what the change takes."""

from __future__ import annotations

from collections import defaultdict
from typing import Iterable, Iterator, NamedTuple, Sequence

from cachesim.base.errors import NotInBuild
from cachesim.engines.contract import Engine
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import Change, RuleSet
from cachesim.judging.judged_run import run_judged
from cachesim.tools.advise.memory_meter import Sizes, peak_bytes
from cachesim.tools.advise.setup_changes import MODE, ChangeKind, Setup, Trial, TrialOutcome, outcome_of, sayable

# With which build did it become better, and by which change? What lies between two recorded rule sets is known one by
# one: each change is put into the older one by itself, or as few as are needed together.

class Since(NamedTuple):
    """A change that does it, ``alone`` or only together with the others: the rule (or number) ``new`` in place of
    ``old``, the pull request, and the build and date with which it came ("" = not known)."""

    field: str
    old: str
    new: str
    source: str
    build: str
    date: str
    alone: bool


def since(case: Setup, profile: str, want: TrialOutcome, engine: Engine) -> list[Since]:
    """The changes that give the outcome of a later rule set to the one before it: each that does so alone, or as few as
    do together; [] where nothing is before it."""
    line = list(engine.line)
    if profile not in line[1:]:
        return []
    older, newer = engine.rules(line[line.index(profile) - 1]), engine.rules(profile)
    changes = older.changes(newer)

    def enough(some: Sequence[Change]) -> bool:
        return _same(case, older, older.mixed(newer, [one.field for one in some]), want)

    if alone := [one for one in changes if enough([one])]:
        return [_told(one, engine, alone=True) for one in alone]
    left = list(changes)
    for one in changes:
        if enough(fewer := [other for other in left if other is not one]):
            left = fewer
    return [_told(one, engine, alone=False) for one in left] if len(left) < len(changes) else []


def _same(case: Setup, older: RuleSet, table: RuleSet, want: TrialOutcome) -> bool:
    try:
        mine = outcome_of(run_judged(case.scenario, older.name, MODE, table=table, bills=False))
    except NotInBuild:
        return False
    return (mine.evaluated, mine.wrong, mine.failed) == (want.evaluated, want.wrong, want.failed)


def _told(change: Change, engine: Engine, alone: bool) -> Since:
    point = engine.when.came(change)
    build, date = (engine.when.told(point), point.date) if point else ("", "")
    return Since(change.field, change.old, change.new, change.source, build, date, alone)


SHOWN = 5              # pieces of advice
TRAPS = 2              # changes that evaluate less and answer wrongly
WORTH = 100            # one in so many of the tokens is worth a line; a pair saves as many more than each of the two


class RankedAdvice(NamedTuple):
    """One piece of advice. ``bytes``: what slots, checkpoints and prompt cache held at most; ``later``: every later
    build is as good, ``since`` these changes of the rules; ``alike``: other rule sets, or other values, that do the
    same."""

    tried: Trial
    bytes: int
    later: bool = False
    alike: tuple[Trial, ...] = ()
    since: tuple[Since, ...] = ()


class Advice(NamedTuple):
    """``base``: the case as it is; ``good``: what helps, best first; ``traps`` evaluate less and answer wrongly."""

    base: RankedAdvice
    good: tuple[RankedAdvice, ...]
    traps: tuple[RankedAdvice, ...]


def bad(one: Trial) -> int:
    """Requests without a right answer."""
    return len({*one.outcome.wrong, *one.outcome.failed, *one.outcome.undecided})


def key(one: Trial) -> tuple[int, int]:
    """Requests without a right answer, then tokens."""
    return bad(one), one.outcome.evaluated


def rank(one: Trial) -> tuple[object, ...]:
    """How good a change is, without memory; the smallest is the best."""
    return *key(one), len(one.outcome.corrupt), one.dearness


def helps(one: Trial, base: Trial) -> bool:
    """Are more answers right, or as many and fewer tokens evaluated?"""
    return key(one) < key(base) and not (bad(one) == bad(base) and one.outcome.wrong)


def tempts(one: Trial, base: Trial) -> bool:
    """Is less evaluated, and some answer wrong?"""
    return bool(one.outcome.wrong) and one.outcome.evaluated < base.outcome.evaluated and not one.outcome.failed


def families(found: Iterable[Trial]) -> dict[tuple[tuple[str, ...], ...], list[Trial]]:
    """What was tried by what is changed in it, in the order in which it was tried."""
    out = defaultdict(list)
    for one in found:
        out[tuple(change.family for change in one.changes)].append(one)
    return out


def best_of_families(found: Iterable[Trial]) -> list[Trial]:
    """The best of each family; of equals the one that was tried first."""
    return [min(each, key=rank) for each in families(found).values()]


def matters(one: Trial, base: Trial, least: int) -> bool:
    """Are more answers right, or is a share of the tokens saved that is worth a line?"""
    return bad(one) < bad(base) or _saves(one, base, least)


def _saves(one: Trial, base: Trial, least: int) -> bool:
    """The share is one of all tokens, or of those above the bound, ``least``."""
    tokens = base.outcome.evaluated
    saved = tokens - one.outcome.evaluated
    return saved * WORTH >= tokens or 2 * saved >= tokens - least


def choose(base: Trial, least: int, found: list[Trial], sizes: Sizes) -> Advice:
    """The few that matter of all that was tried. ``least`` tokens must be evaluated in the case as it is."""
    good = [one for one in found if helps(one, base) and matters(one, base, least) and sayable(one)]
    good = [one for one in good if not _in_a_release(one, good)]
    singles = [one for one in good if len(one.changes) == 1]
    pieces = [piece for each in families(singles).values() for piece in _pieces(each, found)]
    pairs = [one for one in good if len(one.changes) == 2 and _worth(one, singles, base)]
    first = sorted(pieces, key=lambda one: rank(one.tried))[: 2 * SHOWN]
    first += [RankedAdvice(one, 0) for one in sorted(pairs, key=rank)[:1]]
    sized = [one._replace(bytes=peak_bytes(one.tried.case, sizes)) for one in first]
    sized.sort(key=lambda one: (*key(one.tried), len(one.tried.outcome.corrupt), one.bytes, one.tried.dearness))
    wrong = [one for one in found if tempts(one, base) and _saves(one, base, least)]
    traps = sorted(best_of_families(wrong), key=lambda one: one.outcome.evaluated)[:TRAPS]
    as_is, *tempting = (RankedAdvice(one, peak_bytes(one.case, sizes)) for one in (base, *traps))
    return Advice(as_is, tuple(_dated(one) for one in sized[:SHOWN]), tuple(tempting))


def _dated(piece: RankedAdvice) -> RankedAdvice:
    """A build with the changes that did it."""
    one = piece.tried
    if len(one.changes) > 1 or one.changes[0].kind is not ChangeKind.BUILD:
        return piece
    return piece._replace(since=tuple(since(one.case, one.case.profile, one.outcome, engine_of(one.case.profile))))


def _in_a_release(one: Trial, good: list[Trial]) -> bool:
    """Is it a proposal, and some build that has been released as good?"""
    released = (other for other in good if other.changes[0].kind is ChangeKind.BUILD)
    return one.changes[0].kind is ChangeKind.PROPOSAL and any(key(other) <= key(one) for other in released)


def _pieces(each: list[Trial], found: list[Trial]) -> Iterator[RankedAdvice]:
    """The best of one family with those that do the same. Of builds: the first from which on all are as good as the
    newest, and the last that is better than that."""
    if each[0].changes[0].kind is not ChangeKind.BUILD:
        best = min(each, key=rank)
        yield RankedAdvice(best, 0, alike=tuple(one for one in each if key(one) == key(best) and one is not best))
        return
    built = [one for one in found if one.changes[0].kind is ChangeKind.BUILD and len(one.changes) == 1]
    newest = built[-1]
    if newest in each:
        tail = len(built)
        while tail and key(built[tail - 1]) <= key(newest):
            tail -= 1
        yield RankedAdvice(built[tail], 0, later=True)
    best = min(reversed(each), key=key)
    if key(best) < key(newest):
        yield RankedAdvice(best, 0)


def _worth(pair: Trial, singles: list[Trial], base: Trial) -> bool:
    """Does a pair do clearly more than each of its changes?"""
    alone = [one for one in singles if one.changes[0] in pair.changes]
    if any(bad(one) > bad(pair) for one in alone):
        return all(bad(one) > bad(pair) for one in alone)
    least = min((one.outcome.evaluated for one in alone), default=base.outcome.evaluated)
    return pair.outcome.evaluated <= least - max(1, base.outcome.evaluated // WORTH)
