"""Grades of outcomes: the stored table of the rule outcomes that were seen on a real server.

``make grades`` writes the table, a file per engine in ``engines/evidence``. An outcome missing from it was only read
in a source. An engine without a file is not graded. A verdict, or a charge, depends on an outcome if it changes when
another admissible answer replaces the outcome. Only answers that neither a recording nor a comparison refutes are
tried, and only for wrong answers and charged tokens.
"""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Callable, Collection, Mapping, NamedTuple, Sequence

from cachesim.base.errors import Terminated
from cachesim.base.untrusted_files import kind
from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.engines.rule import RULES
from cachesim.engines.rule_outcomes import (
    NEGATED,
    Outcome,
    TooManyDecisions,
    Variants,
    graded_rules,
    limit_decisions,
    replace_outcome,
    report_outcomes,
    variants_of,
)
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.judged_run import Run, RunInterrupted, run_judged
from cachesim.scenarios.runner import AnswerCollector, play

FOLDER = Path(__file__).parents[1] / "engines" / "evidence"
ANY_NEIGHBOUR = "another value"
"""Stands for every neighbouring value; no alternative has this name."""
PREDICTED = "predicted, not seen on a real server"


class Grade(StrEnum):
    """Evidence for an outcome."""

    RECORDED = "recorded"    # with another answer a recording of a real server would disagree
    COMPARED = "compared"    # with another answer a comparison with the real code would fail
    READ = "read"            # from a source or a thread only
    OURS = "ours"            # of a repaired or proposed rule set, or of a user's own


class GradedOutcome(NamedTuple):
    """Stored grade of an outcome. ``seen``: for each alternative answer, the recording or comparison that refutes it;
    ``unseen``: alternatives that nothing refutes; ``inadmissible``: alternatives with which the simulated server cannot
    continue."""

    grade: Grade
    seen: Mapping[str, str]
    unseen: tuple[str, ...] = ()
    inadmissible: tuple[str, ...] = ()


class GradeTable(NamedTuple):
    """Grades of an engine by rule and case, with the digests of each rule's code and of the cited recordings."""

    graded: Mapping[Outcome, GradedOutcome]
    code: Mapping[str, str]
    recordings: Mapping[str, str]

    def grade(self, outcome: Outcome) -> Grade:
        """Return the grade of an outcome of a rule in a main-line rule set; READ if it is not listed."""
        found = self.graded.get(outcome)
        return found.grade if found else Grade.READ


def path_of_table(engine: str) -> Path:
    """Return the file with the grades of an engine."""
    return FOLDER / f"{engine}.json"


@cache
def table_of(engine: str) -> GradeTable | None:
    """Return the stored grades of an engine, None if it has none."""
    path = path_of_table(engine)
    if engine not in BUILTIN or not kind(path):
        return None
    data = json.loads(path.read_text("utf-8"))
    graded = {
        Outcome(rule, case): GradedOutcome(Grade(one["grade"]), one.get("seen", {}),
                                           tuple(one.get("unseen", ())), tuple(one.get("inadmissible", ())))
        for rule, about in data["rules"].items() for case, one in about["cases"].items()
    }
    return GradeTable(graded, {rule: about["code"] for rule, about in data["rules"].items()}, data["recordings"])


@cache
def released_rules(engine: str) -> frozenset[str]:
    """Return the rules of an engine that a released build has: those of its main-line rule sets and between them."""
    line = BUILTIN[engine].line
    own = frozenset(str(fn.rule) for name in line  # type: ignore[attr-defined]
                    for fn in graded_rules(BUILTIN[engine].profiles[name]).values())  # fmt: skip
    return own | rules_between(engine).keys()


def rules_between(engine: str) -> dict[str, Callable[..., Any]]:
    """Return the rules that came and went between two main-line rule sets of an engine, by id."""
    values = (change.value for change in BUILTIN[engine].when.between)
    return {value.rule: value for value in values if hasattr(value, "rule")}


def grade_of(engine: str, outcome: Outcome) -> Grade | None:
    """Return the grade of an outcome, None for an engine without grades. A rule that is in no build is graded as ours,
    unless a patched real server was recorded."""
    table = table_of(engine)
    if table is None:
        return None
    grade = table.grade(outcome)
    return Grade.OURS if grade is Grade.READ and outcome.rule not in released_rules(engine) else grade


def is_unseen(engine: str, outcome: Outcome, alternative: str) -> bool:
    """True if nothing shows that a real server gives this outcome rather than ``alternative``. A neighbouring number
    stands for alternatives that rule sets do not have, so it does not count once an alternative was refuted; an outcome
    "none" has no neighbour."""
    table = table_of(engine)
    if table is None or grade_of(engine, outcome) is Grade.OURS or (outcome.case, alternative) == ("none", "one more"):
        return False
    found = table.graded.get(outcome)
    if found is None:
        return True
    neighbour = alternative not in RULES and alternative != NEGATED
    return alternative not in (*found.seen, *found.inadmissible) and not (found.seen and neighbour)


def rules_to_ask(
    engine: str, outcome: Outcome, others: Sequence[str], is_truth_value: bool
) -> Collection[str] | None:
    """Return those of the rules ``others`` that are asked beside an outcome: all that nothing refutes. None if
    ``is_unseen`` holds for no alternative that an answer of this outcome can have: neither for those of the other
    rules, nor for the opposite of a truth value, nor for a neighbouring value."""
    names = (*others, ANY_NEIGHBOUR, *((NEGATED,) if is_truth_value else ()))
    if not any(is_unseen(engine, outcome, name) for name in names):
        return None
    table = table_of(engine)
    found = table.graded.get(outcome) if table is not None else None
    return [name for name in others if found is None or name not in found.seen]


def grades_of_rule(engine: str, rule: str) -> dict[str, Grade]:
    """Return the grades of a rule's outcomes by case, as far as recordings have them; {} if none occurs."""
    table = table_of(engine)
    cases = [outcome for outcome in table.graded if outcome.rule == rule] if table else []
    return {one.case: grade for one in cases if (grade := grade_of(engine, one)) is not None}


MODE = "provenance"
MOST = 16                # alternative answers that are tried for a run
TOKENS = 60_000          # prompt tokens in all these tries
ENDLESS = 20             # a repetition that makes this many times the decisions of the run is ended


class OutcomeDependence(NamedTuple):
    """A ``what`` ("verdict" or "charge") of request ``request`` that depends on an outcome that was read but not seen:
    with the answer ``other`` it would differ."""

    request: int
    what: str
    rule: str
    case: str
    other: str


def predicted(run: Run, rules: RuleSet | None = None, of: int | None = None) -> list[OutcomeDependence]:
    """Return the results of a run that depend on outcomes that were only read, each request and kind once; [] without
    wrong answers and charges, and for rules without grades. ``rules``: those of a workload's server, which is repeated
    whatever its size and for its verdicts only; None = those of the run's profile. ``of``: the only request whose
    results are needed, None = all."""
    charged = rules is None and any(one.ledger.charges for one in run.requests)
    name = run.profile.partition("@")[0]
    if not (run.broken or charged) or table_of(name) is None:
        return []
    known = ENGINES[name].profiles
    if rules is None and run.profile not in known:
        return []
    size = sum(len(step.request.prompt) for step in run.scenario.steps)
    most = MOST if rules is not None else min(MOST, TOKENS // max(1, size))
    return _Rerun(run, rules or known[run.profile], variants_of_engine(name)).dependences(most, of)


@cache
def variants_of_engine(engine: str) -> Variants:
    """Return the rules of the built-in rule sets, by field."""
    return variants_of(BUILTIN[engine].profiles.values())


class _AskedOutcomes:
    """Outcomes of a run, with the answers of the other rules to the same questions.

    ``asked``: number of decisions with each outcome; ``met``: number of them for which an alternative answer differs,
    by its name.
    """

    def __init__(self) -> None:
        self.asked: Counter[Outcome] = Counter()
        self.met: Counter[tuple[Outcome, str]] = Counter()

    def record(self, outcome: Outcome, others: Mapping[str, object]) -> None:
        """Record a decision."""
        self.asked[outcome] += 1
        for other in others:
            self.met[outcome, other] += 1

    def unseen(self, engine: str) -> list[tuple[Outcome, str]]:
        """Return the outcomes with each alternative that nothing refutes; equivalent alternatives once."""
        return [one for one in sorted(self.met) if is_unseen(engine, *one) and not self._repeats_opposite(*one)]

    def _repeats_opposite(self, outcome: Outcome, alternative: str) -> bool:
        """True if an alternative always gives the opposite of a truth value, which is an alternative itself."""
        always = self.met[outcome, alternative] == self.asked[outcome]
        return alternative != NEGATED and always and (outcome, NEGATED) in self.met


class _Rerun:
    """Repetition of a run with alternative answers: by positions, which is enough for re-evaluated tokens, and judged
    while the alternative may correct a wrong answer that depends on no other one yet."""

    def __init__(self, run: Run, rules: RuleSet, variants: Variants) -> None:
        self.run = run
        self.rules = rules
        self.variants = variants
        self.profile = run.profile.removesuffix(" (changed)")
        self.engine = self.profile.partition("@")[0]
        self.judge = run.judge                   # of the latest repetition: runs of a model share their cold runs

    def dependences(self, most: int, of: int | None) -> list[OutcomeDependence]:
        """Return each request and kind with the first outcome that it depends on. At most ``most`` alternatives are
        tried: those of rules that charges and requests cite first, and answers of other rule sets before opposites and
        neighbouring values, which no server may give. ``of``: end when the results of this request are known, None =
        of all."""
        charged = [i for i, one in enumerate(self.run.requests) if one.ledger.charges]
        results = {(i, "verdict") for i in self.run.broken} | {(i, "charge") for i in charged}
        cited = {charge.rule for i in charged for charge in self.run.requests[i].ledger.charges}
        cited |= {self.run.requests[i].answer.deciding for i, _ in results}
        wanted = {one for one in results if of in (None, one[0])}
        if not (wanted and most):
            return []
        outcomes = self._ask()
        limit = ENDLESS * outcomes.asked.total()
        unseen = sorted(outcomes.unseen(self.engine), key=lambda one: (one[0].rule not in cited, one[1] not in RULES))
        found: dict[tuple[int, str], OutcomeDependence] = {}
        for outcome, other in unseen[:most]:
            open_faults = frozenset(i for i, what in wanted - found.keys() if what == "verdict")
            for request, what in self._changed(outcome, other, open_faults, limit):
                found.setdefault((request, what), OutcomeDependence(request, what, *outcome, other))
            if wanted <= found.keys():
                break
        return [found[key] for key in sorted(found) if key in wanted]

    def _ask(self) -> _AskedOutcomes:
        """Return the outcomes of the run."""
        found = _AskedOutcomes()
        self._play(report_outcomes(self.rules, self.variants, found.record, partial(rules_to_ask, self.engine)))
        return found

    def _play(self, rules: RuleSet) -> dict[int, int]:
        """Return the number of tokens that each request reused."""
        answers = AnswerCollector()
        play(self.run.scenario, self.profile, "none", answers, rules, keeps_decisions=False)
        return {number: answer.cache_n for number, (_, answer) in answers.found.items()}

    def _changed(
        self, outcome: Outcome, alternative: str, open_faults: frozenset[int], limit: int
    ) -> list[tuple[int, str]]:
        """Return those of the wrong answers ``open_faults`` that would become correct, and the charged requests that
        would reuse more or fewer tokens. ``limit``: number of decisions after which a repetition is ended."""
        rules = limit_decisions(replace_outcome(self.rules, self.variants, outcome, alternative), limit)
        right: list[tuple[int, str]] = []
        try:
            if open_faults:
                again = self._judged(rules, open_faults)
                right = [(i, "verdict") for i in sorted(open_faults)
                         if again.requests[i].judged.equal_cold and i in self._repeated_faults]  # fmt: skip
                reused = {i: one.answer.cache_n for i, one in enumerate(again.requests)}
            else:
                reused = self._play(rules)
        except RunInterrupted as stopped:      # results of a repetition are not shown
            raise KeyboardInterrupt if stopped.number is None else Terminated(stopped.number) from None
        except (Exception, TooManyDecisions):    # the server cannot continue with that answer: inadmissible
            return []
        return right + [(i, "charge") for i, one in enumerate(self.run.requests)
                        if one.ledger.charges and reused.get(i, -1) != one.answer.cache_n]  # fmt: skip

    def _judged(self, rules: RuleSet, only: frozenset[int]) -> Run:
        """Return a repetition in which these requests are judged."""
        again = run_judged(self.run.scenario, self.profile, MODE, self.judge, table=rules, with_ledger=False, only=only,
                           keeps_decisions=False)  # fmt: skip
        self.judge = again.judge
        return again

    @cached_property
    def _repeated_faults(self) -> frozenset[int]:
        """Wrong answers that a repetition with the outcomes of the run has, too. It does not have faults in numbers
        alone, because it computes no numbers."""
        broken = frozenset(self.run.broken)
        if self.run.mode == MODE:
            return broken
        again = self._judged(self.rules, broken)
        return frozenset(i for i in broken if again.requests[i].judged.equal_cold is False)
