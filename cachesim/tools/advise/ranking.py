"""Selection of advice among the trials, by correct answers, then certainty, tokens, memory, and the cost of the change.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Iterable, Iterator, NamedTuple, Sequence

from cachesim.base.errors import NotInBuild
from cachesim.engines.contract import Engine
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import Change, RuleSet
from cachesim.judging.evidence import OutcomeDependence, predicted
from cachesim.judging.judged_run import run_judged
from cachesim.tools.advise.case_facts import CaseFacts
from cachesim.tools.advise.memory_meter import Sizes, peak_bytes
from cachesim.tools.advise.setup_changes import (
    MODE,
    CaseArguments,
    ChangeKind,
    Setup,
    Trial,
    TrialOutcome,
    has_command_line,
    outcome_of,
)

# Origin of an improvement: the build and the rule change. Each change between two recorded rule sets is applied to the
# older rule set alone; if none suffices alone, a minimal set of changes is searched.

class ImprovingChange(NamedTuple):
    """A rule change that causes an improvement."""

    field: str
    old: str                # id of the rule, or number, before
    new: str                # and after
    source: str             # pull request
    build: str              # that introduced it, "" = unknown
    date: str               # of the build, "" = unknown
    alone: bool             # sufficient alone, or only together with the others


def since(case: Setup, profile: str, want: TrialOutcome, engine: Engine) -> list[ImprovingChange]:
    """Return the changes that give the preceding rule set the outcome of a later rule set: those that suffice alone,
    else a minimal set; [] without preceding rule set, or if all changes are needed."""
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
        mine = outcome_of(run_judged(case.scenario, older.name, MODE, table=table, with_ledger=False))
    except NotInBuild:
        return False
    return (mine.evaluated, mine.wrong, mine.failed) == (want.evaluated, want.wrong, want.failed)


def _told(change: Change, engine: Engine, alone: bool) -> ImprovingChange:
    point = engine.when.last_landed(change)
    build, date = (engine.when.label(point), point.date) if point else ("", "")
    return ImprovingChange(change.field, change.old, change.new, change.source, build, date, alone)


SHOWN = 5              # maximum number of suggestions
TRAPS = 2              # maximum number of listed changes that save tokens but give wrong answers
WORTH = 100            # 1/WORTH of the tokens is a worthwhile saving; a pair must save as much more than either change


class RankedAdvice(NamedTuple):
    """A suggestion. ``bytes``: peak memory of slots, checkpoints and prompt cache. ``later``: no later build is worse.
    ``since``: the rule changes that cause it. ``alike``: equivalent rule sets or values. ``rests_on``: what it assumes
    and a log does not show, as clauses. ``certain``: the saving needs no rule set that is not released, no assumption,
    and no outcome that was never seen on a real server (``predicted``)."""

    tried: Trial
    bytes: int = 0
    later: bool = False
    alike: tuple[Trial, ...] = ()
    since: tuple[ImprovingChange, ...] = ()
    certain: bool = True
    predicted: tuple[OutcomeDependence, ...] = ()
    rests_on: tuple[str, ...] = ()

    @property
    def is_released(self) -> bool:
        """True unless the suggestion needs a rule set that is not released."""
        return is_released(self.tried)


class Advice(NamedTuple):
    """Chosen advice. ``base``: unchanged case. ``good``: best first. ``traps``: fewer tokens but wrong answers."""

    base: RankedAdvice
    good: tuple[RankedAdvice, ...]
    traps: tuple[RankedAdvice, ...]

    @property
    def released(self) -> list[RankedAdvice]:
        """Suggestions that need no rule set without a release, which a user cannot install."""
        return [one for one in self.good if one.is_released]


def bad(trial: Trial) -> int:
    """Return the number of requests without a correct answer."""
    return len({*trial.outcome.wrong, *trial.outcome.failed, *trial.outcome.undecided})


def key(trial: Trial) -> tuple[int, int]:
    """Return the sort key: requests without a correct answer, then evaluated tokens."""
    return bad(trial), trial.outcome.evaluated


def rank(trial: Trial) -> tuple[object, ...]:
    """Return the sort key without memory; the smallest is the best."""
    return *key(trial), len(trial.outcome.corrupt), trial.dearness


def helps(trial: Trial, base: Trial) -> bool:
    """True if more answers are correct, or as many with fewer evaluated tokens."""
    return key(trial) < key(base) and not (bad(trial) == bad(base) and trial.outcome.wrong)


def is_trap(trial: Trial, base: Trial) -> bool:
    """True if fewer tokens are evaluated but an answer is wrong."""
    return bool(trial.outcome.wrong) and trial.outcome.evaluated < base.outcome.evaluated and not trial.outcome.failed


def families(found: Iterable[Trial]) -> dict[tuple[tuple[str, ...], ...], list[Trial]]:
    """Group trials by the families of their changes, in the order of the trials."""
    out = defaultdict(list)
    for one in found:
        out[tuple(change.family for change in one.changes)].append(one)
    return out


def best_of_families(found: Iterable[Trial]) -> list[Trial]:
    """Return the best trial of each family; of equals the first."""
    return [min(each, key=rank) for each in families(found).values()]


def matters(trial: Trial, base: Trial) -> bool:
    """True if more answers are correct, or the saving is worth a suggestion."""
    return bad(trial) < bad(base) or _saves(trial, base)


def _saves(trial: Trial, base: Trial) -> bool:
    """True if 1/WORTH of all tokens is saved."""
    return (base.outcome.evaluated - trial.outcome.evaluated) * WORTH >= base.outcome.evaluated


def choose(
    base: Trial, found: list[Trial], sizes: Sizes, asked: CaseArguments | None = None, facts: CaseFacts | None = None
) -> Advice:
    """Select the advice among all trials, certain savings first, the largest of them first. ``asked``: arguments of the
    case; ``facts``: what the log of the case shows, None = the case is written as it was sent."""
    shown = sorted(_examined(_suggestions(base, found, sizes, asked, facts)), key=_order)[:SHOWN]
    wrong = [one for one in found if is_trap(one, base) and _saves(one, base)]
    traps = sorted(best_of_families(wrong), key=lambda one: one.outcome.evaluated)[:TRAPS]
    as_is, *tempting = (_with_dependences(RankedAdvice(one, peak_bytes(one.case, sizes))) for one in (base, *traps))
    return Advice(as_is, tuple(shown), tuple(tempting))


def choose_best(
    base: Trial, found: list[Trial], sizes: Sizes, asked: CaseArguments | None, facts: CaseFacts | None
) -> RankedAdvice | None:
    """Return the first suggestion of ``choose``, None without one. Suggestions are examined until none of the others
    can come before the best: what they depend on makes a saving less certain, never more."""
    ordered = _suggestions(base, found, sizes, asked, facts)
    best: RankedAdvice | None = None
    for number, piece in enumerate(_examined(ordered), 1):
        if best is None or _order(piece) < _order(best):
            best = piece
        if number < len(ordered) and _order(best) <= _order(ordered[number]):
            break
    return best


def _suggestions(
    base: Trial, found: list[Trial], sizes: Sizes, asked: CaseArguments | None, facts: CaseFacts | None
) -> list[RankedAdvice]:
    """Return the trials that are worth a suggestion, in order, before it is examined what they depend on."""
    named = CaseArguments() if asked is None else asked
    good = [one for one in found if helps(one, base) and matters(one, base) and has_command_line(one, named)
            and _is_open(one, base, facts)]  # fmt: skip
    good = [one for one in good if not _in_a_release(one, good)]
    first = [piece._replace(bytes=peak_bytes(piece.tried.case, sizes), rests_on=conditions(piece.tried, base, facts))
             for certain in (True, False) for piece in _first(
                 [one for one in good if can_be_had(one, base, facts) is certain], good, found, base)]  # fmt: skip
    sized = sorted((one._replace(certain=can_be_had(one.tried, base, facts)) for one in first), key=_order)
    return _without_lesser(sized)


def _first(alike: list[Trial], good: list[Trial], found: list[Trial], base: Trial) -> list[RankedAdvice]:
    """Return the best suggestions among trials that are equally certain: the best of each family, and the best pair.
    ``good``: all trials that help."""
    singles = [one for one in good if len(one.changes) == 1]
    grouped = families(one for one in alike if len(one.changes) == 1)
    pieces = [piece for each in grouped.values() for piece in _pieces(each, found)]
    pairs = [one for one in alike if len(one.changes) == 2 and _worth(one, singles, base)]
    first = sorted(pieces, key=lambda one: rank(one.tried))[: 2 * SHOWN]
    return first + [RankedAdvice(one) for one in sorted(pairs, key=rank)[:1]]


def _without_lesser(ordered: Sequence[RankedAdvice]) -> list[RankedAdvice]:
    """Return the suggestions without those of a family that a certain suggestion of this family equals or beats."""
    sure = [one for one in ordered if one.certain]
    return [one for one in ordered if one.certain or not any(
        _family(other) == _family(one) and key(other.tried) <= key(one.tried) for other in sure)]  # fmt: skip


def _family(piece: RankedAdvice) -> tuple[tuple[str, ...], ...]:
    return tuple(change.family for change in piece.tried.changes)


def _examined(ordered: Sequence[RankedAdvice]) -> Iterator[RankedAdvice]:
    """Yield the suggestions with what they depend on, in order, until as many as are shown and one of them certain."""
    count, certain = 0, False
    for piece in ordered:
        if count >= SHOWN and (certain or not piece.certain):
            return
        examined = _with_dependences(_dated(piece))
        count, certain = count + 1, certain or examined.certain
        yield examined


def _is_open(trial: Trial, base: Trial, facts: CaseFacts | None) -> bool:
    """True if the log does not show that the server has these changes already."""
    return facts is None or all(facts.allows(change, base.case) for change in trial.changes)


def conditions(trial: Trial, base: Trial, facts: CaseFacts | None) -> tuple[str, ...]:
    """Return what the savings of a trial rest on that the log does not show, each clause once."""
    if facts is None:
        return ()
    own = [clause for change in trial.changes for clause in facts.conditions(change, base.case)]
    return tuple(dict.fromkeys([*own, *facts.assumed_options(base.case)]))


def is_released(trial: Trial) -> bool:
    """True unless the trial needs a rule set that is not released."""
    return all(one.kind is not ChangeKind.PROPOSAL for one in trial.changes)


def can_be_had(trial: Trial, base: Trial, facts: CaseFacts | None) -> bool:
    """True unless the saving needs a rule set that is not released, or rests on what the log does not show."""
    return is_released(trial) and not conditions(trial, base, facts)


def _order(piece: RankedAdvice) -> tuple[object, ...]:
    """Return the sort key of advice: correct answers, certainty, tokens, memory, cost of the change."""
    wrong, evaluated = key(piece.tried)
    corrupt = len(piece.tried.outcome.corrupt)
    return wrong, not piece.certain, evaluated, corrupt, piece.bytes, piece.tried.dearness


def _with_dependences(piece: RankedAdvice) -> RankedAdvice:
    """Add the verdicts and charges that depend on an outcome never seen on a real server; the saving is then not
    certain."""
    case = piece.tried.case
    found = predicted(run_judged(case.scenario, case.profile, MODE))
    return piece._replace(predicted=tuple(found), certain=piece.certain and not found)


def _dated(piece: RankedAdvice) -> RankedAdvice:
    """Add the rule changes that cause the improvement to advice for a build."""
    trial = piece.tried
    if len(trial.changes) > 1 or trial.changes[0].kind is not ChangeKind.BUILD:
        return piece
    origins = since(trial.case, trial.case.profile, trial.outcome, engine_of(trial.case.profile))
    return piece._replace(since=tuple(origins))


def _in_a_release(trial: Trial, good: list[Trial]) -> bool:
    """True for a proposal that a released build equals or beats."""
    released = (rival for rival in good if rival.changes[0].kind is ChangeKind.BUILD)
    return trial.changes[0].kind is ChangeKind.PROPOSAL and any(key(rival) <= key(trial) for rival in released)


def _pieces(each: list[Trial], found: list[Trial]) -> Iterator[RankedAdvice]:
    """Yield the best trial of a family with its equivalents. For builds: the first build from which on all are as good
    as the newest, and the last build that is better than that."""
    if each[0].changes[0].kind is not ChangeKind.BUILD:
        best = min(each, key=rank)
        yield RankedAdvice(best, alike=tuple(one for one in each if key(one) == key(best) and one is not best))
        return
    built = [one for one in found if one.changes[0].kind is ChangeKind.BUILD and len(one.changes) == 1]
    newest = built[-1]
    if newest in each:
        tail = len(built)
        while tail and built[tail - 1] in each and key(built[tail - 1]) <= key(newest):
            tail -= 1
        yield RankedAdvice(built[tail], later=True)
    best = min(reversed(each), key=key)
    if key(best) < key(newest):
        yield RankedAdvice(best)


def _worth(pair: Trial, singles: list[Trial], base: Trial) -> bool:
    """True if a pair saves clearly more than each of its changes."""
    alone = [one for one in singles if one.changes[0] in pair.changes]
    if any(bad(one) > bad(pair) for one in alone):
        return all(bad(one) > bad(pair) for one in alone)
    least = min((one.outcome.evaluated for one in alone), default=base.outcome.evaluated)
    return pair.outcome.evaluated <= least - max(1, base.outcome.evaluated // WORTH)
