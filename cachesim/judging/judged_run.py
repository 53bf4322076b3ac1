"""A scenario under one profile, run and judged: what every report starts from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cachesim.engines.judge_view import Stored
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Event, Log
from cachesim.judging.cold_comparison import Judge
from cachesim.judging.expect import Mismatch, compare_expected, compare_numbers
from cachesim.judging.foreign_reads import Foreign, Reader, read_instead, what_it_is
from cachesim.judging.request_judgement import Judgement
from cachesim.judging.run_verdicts import Watch
from cachesim.judging.uninitialised_reads import Values, every_case, settle
from cachesim.judging.verdict import Verdict, worst
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Scenario


@dataclass(slots=True)
class Run:
    """A scenario under one profile. ``wrong`` lists where it is not as its file expects; ``unsettled`` are the requests
    whose outcome depends on numbers that nobody wrote: what is shown of them is one case of several; ``told`` the
    refused ones whose status the file expects; ``reads`` what the wrong ones read in place of their own;
    ``stored`` are the entries of the prompt cache at the end: the request whose conversation each is (-1 = of none) and
    its length."""

    scenario: Scenario
    profile: str
    mode: str
    log: Log = field(default_factory=Log)
    requests: list[Judgement] = field(default_factory=list)
    wrong: list[Mismatch] = field(default_factory=list)
    unsettled: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    reads: dict[int, list[Foreign]] = field(default_factory=dict)
    reader: Reader | None = None
    stored: list[tuple[int, int]] = field(default_factory=list)

    @property
    def refused(self) -> list[int]:
        """Requests that ended with an error as a cold run of them does: nothing was compared."""
        return [i for i, one in enumerate(self.requests) if one.judged.refused]

    @property
    def broken(self) -> list[int]:
        """Requests whose answer, or what it left behind, is not a cold run's."""
        return [i for i, one in enumerate(self.requests) if one.judged.equal_cold is False]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all requests. A refused one is undecided, unless its file expects it."""
        judged = [one.judged for i, one in enumerate(self.requests) if i not in self.told]
        return worst(v for one in judged for v in (one.answer, one.state))

    def content(self, stored: Stored) -> list[str]:
        """What is in a corrupt object in place of its own rows and states; [] where that is not known."""
        if self.reader is None:
            return []
        return [what_it_is(one) for one in self.reader.within(stored, len(stored.tokens))]

    def events(self, number: int) -> list[Event]:
        """The events of one step. Of steps that were sent together: those of its slot, and those of no slot."""
        first, stop = number, number + 1
        while self.scenario.steps[first].together:
            first -= 1
        while stop < len(self.scenario.steps) and self.scenario.steps[stop].together:
            stop += 1
        if stop - first == 1:
            return list(self.log.of(number))
        every = [event for one in range(first, stop) for event in self.log.of(one)]
        mine = (None, self.requests[number].answer.id_slot)
        return [event for event in every if getattr(event, "slot", getattr(event, "seq", None)) in mine]


class Stopped(KeyboardInterrupt):
    """A run was interrupted. ``run`` is what was judged by then, of a scenario with only these requests; ``asked``: how
    many there are; ``number`` of the signal, None for Ctrl-C."""

    def __init__(self, run: Run, asked: int, number: int | None) -> None:
        self.run, self.asked, self.number = run, asked, number
        super().__init__()


def _stopped(run: Run, watch: Watch, error: KeyboardInterrupt) -> KeyboardInterrupt:
    """The interrupt with the requests that are over; itself where none is."""
    over = next(number for number in range(len(run.scenario.steps) + 1) if number not in watch.found)
    if not over:
        return error
    part = replace(run.scenario, steps=run.scenario.steps[:over], expect={}, lives=())
    requests = [watch.found[number] for number in range(over)]
    done = Run(part, run.profile, run.mode, watch.server.log, requests)
    return Stopped(done, len(run.scenario.steps), getattr(error, "number", None))


def run_judged(
    scenario: Scenario, profile: str, mode: str = "exact", judge: Judge | None = None,
    table: RuleSet | None = None, bills: bool = True,
) -> Run:
    """Run a scenario under a profile and judge every request. Where the server reads a number that nobody wrote, the
    scenario runs once for every value that matters.

    ``table`` replaces the profile's rules by others of the same engine; the run then bears the table's name, and the
    file's expectations apply only where it is the shipped profile of that name. ``judge`` may be shared between runs of
    one model. ``bills`` False = no recompute account. Raises BadInput."""
    known = engine_of(profile).profiles
    rules = table or known[profile]
    name = rules.name if known.get(rules.name) in (None, rules) else f"{rules.name} (changed)"

    def case(values: Values) -> Run:
        mine = rules.changed({"unset": values}) if values else rules
        run, watch = Run(scenario, name, mode), Watch(scenario, profile, mine, judge, bills)
        try:
            run.log = play(scenario, profile, mode, watch, mine)
        except KeyboardInterrupt as error:
            raise _stopped(run, watch, error) from None
        run.requests = [watch.found[number] for number in range(len(scenario.steps))]
        if bills and watch.judge.model is not None:
            reader = run.reader = Reader(run.requests, watch.judge.colds)
            run.stored = [(reader.whose(tokens), len(tokens)) for tokens in watch.entries]
            run.reads = {number: read_instead(run.requests, number, reader) for number in run.broken}
        return run

    run, *others = cases = every_case(case)
    expected = scenario.expect.get(name)
    run.unsettled = settle(cases)
    if expected is not None:
        run.wrong = compare_expected(expected, run.requests, run.broken, run.unsettled)
        run.told = [i for i in run.refused if expected.status and run.requests[i].answer.status in expected.status[i]]
        for other in others:
            run.wrong += [one for one in compare_numbers(expected, other.requests) if one not in run.wrong]
    return run
