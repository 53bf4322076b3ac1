"""``cachesim repair PROFILE``: finds the single rule changes that cure each failure, and their cost."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Callable, NamedTuple, Sequence, TypeVar

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput
from cachesim.base.progress_bar import progress
from cachesim.tools.run import arguments, work_arguments

if TYPE_CHECKING:
    from cachesim.judging.rule_exchange import RuleVariant
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.search.repair import RepairResults
    from cachesim.tools.search.rule_mutations import ChangePrice, ConversationSource, MutationJob, MutationSearch

EXAMPLES = 500
PRICED = 100           # conversations drawn to price changes when files are given
OWED = ("warm-equals-cold", "stored-equals-cold", "survives")
BLOCK = 25             # conversations in the job of a process
S = TypeVar("S")
R = TypeVar("R")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", type=arguments.profile_name, help="rule set to repair")
    parser.add_argument("files", metavar="FILE", nargs="*",
                        help="scenario file, folder or id to test instead of randomly drawn conversations")  # fmt: skip
    arguments.add_profiles(parser, "Python file of another rule set whose rules are tried; may be repeated")
    parser.add_argument("--property", dest="properties", metavar="NAME", action="append", default=[],
                        help=f"property that must hold, may be repeated (default {', '.join(OWED)})")  # fmt: skip
    parser.add_argument("--model", dest="models", metavar="MODEL", action="append", default=[],
                        help="model to draw, may be repeated: layers, or a class A, W, R, H, HW, M, N, I")  # fmt: skip
    arguments.add_settings(parser, "of every drawn server, overriding those in files: ")
    parser.add_argument("--examples", metavar="N", type=work_arguments.count,
                        help=f"conversations to draw (default {EXAMPLES}; with files {PRICED}, for prices)")
    parser.add_argument("--seed", metavar="S", type=work_arguments.count, default=0,
                        help="seed of the conversations; equal seeds give equal results (default 0)")  # fmt: skip
    work_arguments.add_jobs(parser)
    parser.add_argument("--no-shrink", action="store_true", help="do not shrink conversations")
    arguments.add_json(parser)


class RepairInput(NamedTuple):
    """A search for repairs, and what it runs."""

    search: MutationSearch
    files: list[Scenario]
    seed: int                   # of the conversations
    drawn: range                # numbers of the conversations to draw


class RequestedSearch(NamedTuple):
    """A search for repairs, by the words of the command line."""

    profile: str                # rule set to repair
    others: Sequence[str]       # rule sets whose rules are tried
    properties: Sequence[str]   # names of properties that must hold, () = the default ones
    models: Sequence[str]       # models to draw, or classes of them
    settings: Sequence[str]     # server options key=value


def run(args: Namespace) -> int:
    from cachesim.tools.search.repair import repair_data, with_failures
    from cachesim.tools.search.report import repair_report

    requested = RequestedSearch(args.profile, args.profiles, args.properties, args.models, args.settings)
    asked = _asked(requested, args.files, args.examples, args.seed)
    found = _repaired(asked, args.jobs, shrinks=not args.no_shrink)
    data = repair_data(found)
    if args.json:
        say_json(data)
    else:
        show(repair_report(with_failures(data)))
    if found.has_crashed:
        return exits.CRASH
    return exits.BROKEN if found.failing else exits.HOLDS


def _asked(requested: RequestedSearch, names: list[str], examples: int | None, seed: int) -> RepairInput:
    """Return the search, its scenario files and the conversations to draw. ``names``: scenario files, folders or ids;
    ``examples``: conversations to draw, None = the default. Raise BadInput for invalid arguments."""
    from cachesim.engines.registry import rules_of
    from cachesim.tools.search.fuzz_command import check_property_names, drawn_models
    from cachesim.tools.search.properties import PROPERTIES
    from cachesim.tools.search.repair import numbers
    from cachesim.tools.search.rule_mutations import MutationSearch

    profile = requested.profile
    for name in (profile, *requested.others):        # registers rule sets from files
        rules_of(name)
    models = drawn_models(requested.models, requested.settings, profile)
    properties = check_property_names(requested.properties, PROPERTIES) or OWED
    if examples is None:
        examples = PRICED if names else EXAMPLES
    if not (examples or names):
        raise BadInput("--examples must be at least 1")
    engine = profile.partition("@")[0]
    scenarios, bad = arguments.load_files(names)
    if bad:
        raise bad[0]
    files = [arguments.with_settings(one, requested.settings) for one in scenarios if one.engine == engine]
    if names and not files:
        raise BadInput(f"the files contain no scenario for {engine}", hint="each file names its engine")
    search = MutationSearch(profile, properties, models)
    return RepairInput(search=search, files=files, seed=seed, drawn=numbers(seed, examples))


def _repaired(asked: RepairInput, jobs: int, *, shrinks: bool) -> RepairResults:
    """Run, try every change on the failures, price the curing changes, choose, and verify. ``jobs``: processes. Raise
    BadInput."""
    from cachesim.judging.rule_exchange import variants
    from cachesim.tools.search.repair import RepairResults, RepairShrink, groups, smallest
    from cachesim.tools.search.rule_mutations import CureJob, find_cures, run_mutations

    search = asked.search
    known = tuple(variants(search.profile))
    runs = _spread(run_mutations, _jobs(search, [*asked.files, *asked.drawn], known=known), jobs, "conversations")
    found = RepairResults(search, asked.seed, len(asked.files), known, [one for block in runs for one in block])
    found.tried = _spread(find_cures, [CureJob(search, one, known) for one in found.failing], jobs, "changes")
    found.prices = _prices(found, jobs)
    found.groups = list(groups(found.tried, found.prices))
    _prove(found, jobs)
    if shrinks:
        todo = [RepairShrink(search, one.cured[0].run.source, known[one.change]) for one in found.groups]
        todo += [RepairShrink(search, one.run.source, None) for one in found.uncured]
        found.small = _spread(smallest, todo, jobs, "shrinking")
    return found


def _prices(found: RepairResults, jobs: int) -> dict[int, ChangePrice]:
    """Return the price of every change that cures something."""
    from cachesim.tools.search.rule_mutations import run_mutations

    curing = sorted({i for one in found.tried for i in one.cures})
    todo = {i: _jobs(found.search, found.touched([i]), (found.known[i],)) for i in curing}
    blocks = iter(_spread(run_mutations, [job for each in todo.values() for job in each], jobs, "prices"))
    return {i: found.price([one for _ in each for one in next(blocks)]) for i, each in todo.items()}


def _prove(found: RepairResults, jobs: int) -> None:
    """Run all conversations that the chosen changes affect with all of these changes together."""
    from cachesim.tools.search.rule_mutations import run_mutations

    chosen = [one.change for one in found.groups]
    if chosen:
        changes = tuple(found.known[i] for i in chosen)
        source = [*found.touched(chosen), *(one.source for one in found.failing)]
        blocks = _spread(run_mutations, _jobs(found.search, source, changes), jobs, "all changes")
        again = [one for block in blocks for one in block]
        right = len(source) - len(found.failing)
        found.together = found.price(again[:right])
        found.held = sum(one.found == () for one in again[right:])


def _jobs(
    search: MutationSearch, source: Sequence[ConversationSource], changes: tuple[RuleVariant, ...] = (),
    known: tuple[RuleVariant, ...] = (),
) -> list[MutationJob]:
    from cachesim.tools.search.rule_mutations import MutationJob

    return [MutationJob(search, tuple(source[at : at + BLOCK]), changes, known) for at in range(0, len(source), BLOCK)]


def _spread(do: Callable[[S], R], todo: Sequence[S], jobs: int, what: str) -> list[R]:
    """Return the results in the order of the jobs, from ``jobs`` processes."""
    from cachesim.base.pool import spread, whole

    return whole(progress(spread(do, todo, jobs), len(todo), what))
