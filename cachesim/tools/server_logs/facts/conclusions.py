"""All statements about a log: what its lines say, and everything that follows from them."""

from __future__ import annotations

from itertools import chain
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.log_totals import LoggedNumbers
from cachesim.tools.server_logs.facts.cause_statements import cause_statements, quoted_warnings
from cachesim.tools.server_logs.facts.earlier_causes import EarlierCauses
from cachesim.tools.server_logs.facts.request_numbers import DerivedNumbers
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.facts.statements import ENDED, TASKS, TOTAL, Statement, conclusion, read_statement
from cachesim.tools.server_logs.lines.read_lines import ReadLine

SHOWN = 6                    # access lines that a statement about a kind of task names, at most


class Conclusions(NamedTuple):
    """Statements about a log, and the requests whose numbers they give. ``main``: number of the run with the most
    requests."""

    statements: list[Statement]
    requests: list[DerivedNumbers]
    main: int = 0


def conclude(session: LogSession) -> Conclusions:
    """Return all statements about a log, those about all server runs in the order of its lines, then totals by
    importance."""
    runs = sorted((session, *session.others), key=lambda run: run.first)
    found = [_conclude_run(run) for run in runs]
    statements = sorted((said._replace(run=number) for number, run in enumerate(found) for said in run.statements),
                        key=lambda said: (said.what == TOTAL, () if said.what == TOTAL else said.lines))  # fmt: skip
    main = next(number for number, run in enumerate(runs) if run is session)
    return Conclusions(statements, [request for run in found for request in run.requests], main)


def possible_profiles(profiles: Sequence[str], statements: Iterable[Statement]) -> tuple[str, ...]:
    """Return the rule sets of builds in the range that the log shows, all if that leaves none. ``profiles``: in the
    order of builds; a rule set holds until the next."""
    ends = [said.numbers["build"] for said in statements if said.what == "build"]
    low, high = max((end[0] or 0 for end in ends), default=0), min((end[1] for end in ends if end[1]), default=None)
    builds = [_build(name) for name in profiles]
    after = [*builds[1:], 0]
    kept = [name for name, build, then in zip(profiles, builds, after, strict=True)
            if not build or ((high is None or build <= high) and (not then or then > low))]  # fmt: skip
    return tuple(kept) or tuple(profiles)


def printed_build(statements: Iterable[Statement]) -> int:
    """Return the build that a log prints, 0 if it prints none."""
    ends = (said.numbers["build"] for said in statements if said.what == "build")
    return next((low for low, high in ends if low and low == high), 0)


def _conclude_run(session: LogSession) -> Conclusions:
    """Return the statements about a server run."""
    lines = session.read_lines
    requests = session.derived
    engine = ENGINES[session.engine]
    grammar = engine.log()
    builds = [build for name in engine.line if (build := _build(name))]
    earlier = EarlierCauses(lines, requests, grammar, session.sieve)
    found = [
        *map(read_statement, lines),
        *_build_range(lines, builds),
        *_options(lines, grammar),
        *_memory(lines, grammar),
        *chain.from_iterable(map(_number_statements, requests)),
        *_totals(lines, grammar),
        *_tasks(session, grammar),
        *_ended(lines, grammar),
    ]
    causes = [one for request in requests for one in (*cause_statements(request, grammar), *earlier.of(request))]
    cited = {number for one in causes for number in one.lines}
    return Conclusions([*found, *causes, *quoted_warnings(lines, grammar, cited)], requests)


def _number_statements(derived: DerivedNumbers) -> Iterator[Statement]:
    """Yield a statement for every derived number of a request."""
    request = derived.request
    for name, value in derived.numbers.items():
        says = f"{_LABELS[name]}: {value} ({value.how})"
        yield conclusion("request", sorted(value.lines), {name: value.data}, says, about=request)
    for name, first, second in derived.clashes:
        says = f"{_LABELS[name]} cannot be both {first} ({first.how}) and {second} ({second.how})"
        numbers = {name: [first.data, second.data]}
        yield conclusion("contradiction", sorted(first.lines | second.lines), numbers, says, about=request)


_LABELS: Mapping[str, str] = {
    "n_tokens": "prompt tokens", "cache_n": "tokens reused", "prompt_n": "tokens evaluated",
    "predicted_n": "tokens generated", "lcp": "common prefix", "held": "tokens in the slot before",
    "end": "tokens in the slot after", "lost": "tokens of the common prefix evaluated again",
}


MEMORIES: Mapping[str, str] = {
    "none": "the memory holds a state of the last position alone: a prompt that differs earlier needs a checkpoint",
    "window": "the memory holds a window of the last positions: a prompt that differs earlier needs a checkpoint",
}
"""What a memory allows, as a sentence."""


def _memory(lines: Sequence[ReadLine], grammar: LogGrammar) -> Iterator[Statement]:
    """Yield what the memory allows, proven by the first line of each kind that shows it, unless lines differ."""
    found: dict[str, dict[str, int]] = {}
    for line in lines:
        if cut := grammar.memory(line.read.numbers):
            found.setdefault(cut, {}).setdefault(line.kind, line.number)
    if len(found) == 1:
        ((cut, numbers),) = found.items()
        yield conclusion("memory", sorted({*numbers.values()}), {"cut": cut}, MEMORIES[cut])


def _tasks(session: LogSession, grammar: LogGrammar) -> Iterator[Statement]:
    """Yield what the server does not do for the requests of a log, if all access lines name tasks of one kind."""
    if len(session.tasks) == 1:
        ((kind, numbers),) = session.tasks.items()
        if limits := grammar.task_limits.get(kind):
            says = f"the log shows the paths of {kind} requests, which {limits}"
            found = {"task_kind": kind, "requests": len(numbers)}
            yield conclusion(TASKS, numbers[:SHOWN], found, says)


def _ended(lines: Sequence[ReadLine], grammar: LogGrammar) -> Iterator[Statement]:
    """Yield the first line after which the server answers no request."""
    for line in lines:
        if line.kind in grammar.fatal:
            says = f"{grammar.meanings[line.kind].says}: \"{line.text}\""
            yield conclusion(ENDED, [line.number], {"line_kind": line.kind}, says, about=line)
            return


def _totals(lines: Sequence[ReadLine], grammar: LogGrammar) -> Iterator[Statement]:
    """Yield what follows from lines that name no request."""
    numbers = [LoggedNumbers(line.number, line.kind, line.read.numbers) for line in lines]
    for total in grammar.totals(numbers):
        yield conclusion(TOTAL, total.lines, total.numbers, total.says)


def _build(profile: str) -> int:
    """Return the build number in the name of a rule set, 0 if it has none."""
    name = profile.partition("@")[2]
    return int(name[1:]) if name[:1] == "b" and name[1:].isdigit() else 0


def _build_range(lines: Iterable[ReadLine], builds: Sequence[int]) -> Iterator[Statement]:
    """Yield the range of builds that print the spellings of these lines. ``builds``: known builds, in order."""
    low: ReadLine | None = None
    high: ReadLine | None = None
    for line in lines:
        build = line.number_of("build") if line.kind == "version" else None
        if build:
            says = f"build {build}: printed in line {line.number}"
            yield conclusion("build", [line.number], {"build": [build, build]}, says)
            return
        spelling = line.read.line
        if spelling.since and (low is None or spelling.since > low.read.line.since):
            low = line
        if spelling.until and (high is None or spelling.until < high.read.line.until):
            high = line
    since = 0 if low is None else low.read.line.since
    if high is not None and since >= high.read.line.until:
        return                                                # lines of two builds
    least = max((build + 1 for build in builds if build < since), default=None)
    most = None if high is None else high.read.line.until - 1
    if (least is None and most is None) or (least is not None and most is not None and least > most):
        return
    used = sorted({line.number for line in (low if least is not None else None, high) if line is not None})
    which = f"up to build {most}" if least is None else f"build {least} or later" if most is None else \
        f"build {least} to {most}"
    says = f"{which}: spelling of its lines"
    yield conclusion("build", used, {"build": [least, most]}, says)


def _options(lines: Sequence[ReadLine], grammar: LogGrammar) -> Iterator[Statement]:
    """Yield the options whose values are printed, unless two lines print different values, or the value does not show
    what was set."""
    values: dict[str, dict[Any, int]] = {}
    for line in lines:
        for name, value in {**line.read.numbers, **grammar.constants.get(line.kind, {})}.items():
            option = grammar.flags.get((line.kind, name))
            if option is not None:
                whole = int(value) if isinstance(value, float) and value.is_integer() else value
                values.setdefault(option, {}).setdefault(whole, line.number)
    for option, found in values.items():
        ((value, number),) = [*found.items()][:1]
        if len(found) == 1 and grammar.automatic.get(option) != value:
            yield conclusion("option", [number], {option: value}, f"{option} = {value}")
