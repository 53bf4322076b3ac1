"""The public function ``conform``: tests a prefix cache against its own cold runs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, Callable, Iterable, Mapping, Sequence

from cachesim.base.errors import BadInput, nearest, public, quoted
from cachesim.tools.conformance.client_history import FEWEST, MOST
from cachesim.tools.conformance.compare_replies import Same, identical
from cachesim.tools.conformance.history_player import ColdRuns, SendingOptions, SubjectFactory, SubjectPool, play, probe
from cachesim.tools.conformance.jsonl_adapter import ProcessSubject, PythonSubject
from cachesim.tools.conformance.properties import PROPERTIES
from cachesim.tools.conformance.protocol import NO_KEY, RequestKey
from cachesim.tools.conformance.report import Nonconforming, Report, chosen
from cachesim.tools.conformance.report_builder import HistoryPlan, accept, make_report
from cachesim.tools.conformance.search import HistorySearch
from cachesim.tools.conformance.timeouts import TimeBudget

Factory = Callable[[], Any] | Sequence[str]
TOKENS = range(1_000, 30_000)
LONGEST = 86_400             # longest time-out [seconds]: a day
LISTS: Mapping[str, tuple[type, str]] = {"only": (str, "sections"), "histories": (str, "lines in the notation"),
                                         "near": (Integral, "sizes in tokens")}  # fmt: skip


@public
def conform(
    factory: Factory, *, cold: str | Factory = "fresh", corpus: str = "", histories: Sequence[str] = (),
    max_examples: int = 200, max_requests: int = 6, max_prompt: int = 256, near: Sequence[int] = (),
    tokens: Sequence[int] = TOKENS, same: Same = identical,
    sampling: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (), keys: Sequence[str | tuple[str, int]] = (),
    only: Sequence[str] = (), strict: bool = False,
    accepted: Mapping[str, str] | None = None, reset: bool = False, timeout: float = 60.0,
    seconds: float | None = None, check: bool = True,
) -> Report:  # fmt: skip
    """Run request histories against a prefix cache and compare it with cold runs; equal arguments give equal histories.

    ``factory`` makes an instance with an empty cache, a Python object with ``complete(prompt, n_predict)``; or it is
    the command line of a process that exchanges JSON lines. ``cachesim.tools.conformance`` explains the other
    arguments. Raise Nonconforming (an AssertionError) with the report if ``check`` is true; BadInput for unusable
    arguments.
    """
    __tracebackhide__ = True
    parameters = (sampling,) if isinstance(sampling, Mapping) else tuple(sampling)
    plan = HistoryPlan(corpus, histories, max_examples, max_requests, max_prompt, near, tokens, only, strict,
                       parameters, _read_keys(keys))  # fmt: skip
    _check_arguments(plan, cold, accepted or {})
    budget = _budget(timeout, seconds)
    bench = SubjectPool(maker(factory, budget), "reset" if reset else "")
    if isinstance(cold, str):                        # the same pool, or an instance without its cache
        other = bench if cold == "fresh" or bench.reuse else SubjectPool(bench.make, "keep")
    else:
        other = SubjectPool(maker(cold, budget))
    with closing(bench), closing(other):
        report = _played(plan, bench, ColdRuns(other, cold == "request", same), budget)
    report = replace(report, results=tuple(accept(one, accepted or {}) for one in report.results))
    if check and report.failing:
        raise Nonconforming(report)
    return report


def _played(plan: HistoryPlan, bench: SubjectPool, cold: ColdRuns, budget: TimeBudget) -> Report:
    abilities = probe(bench.make, plan.tokens, plan.sampling[0] if plan.sampling else {},
                      max(plan.keys, key=lambda key: (key.start, key.name), default=NO_KEY))  # fmt: skip
    for ability, wanted, needs in (
        ("cache", cold.uncached, 'cold = "request" needs requests without cache'),
        ("reset", bool(bench.reuse), "reset needs a way to reset"),
        ("sampling", True, "sampling needs a way to pass parameters"), ("key", True, "keys need a way to pass a key"),
    ):
        if wanted and ability in abilities.missing:
            raise BadInput(f"{needs}: {abilities.missing[ability]}")
    sent, one_key = SendingOptions(plan.tokens, plan.sampling, plan.keys), [key for key in plan.keys if key.name][:1]
    play_one = partial(play, bench=bench, cold=cold)
    search = HistorySearch(partial(play_one, sent=sent), cold.same, budget)
    return make_report(plan, abilities, search, cold.answer, partial(play_one, sent=sent._replace(keys=one_key)))


def maker(factory: Any, budget: TimeBudget) -> SubjectFactory:
    """Return a function that makes instances. Raise BadInput for neither a callable nor a command line."""
    if callable(factory):
        return partial(PythonSubject, factory, budget)
    if isinstance(factory, Sequence) and factory and not isinstance(factory, str | bytes):
        return partial(ProcessSubject, [str(word) for word in factory], budget)
    raise BadInput(f"factory: expected a callable or the words of a command line, found {quoted(factory)}")


def _budget(timeout: float, seconds: float | None) -> TimeBudget:
    for name, value in (("timeout", timeout), ("seconds", LONGEST if seconds is None else seconds)):
        if not isinstance(value, int | float) or not 0 < value <= LONGEST:
            raise BadInput(f"{name}: expected more than 0 and at most {LONGEST} seconds, found {value!r:.40}")
    return TimeBudget(timeout, seconds)


def _read_keys(keys: Sequence[str | tuple[str, int]]) -> tuple[RequestKey, ...]:
    """Return the keys. Raise BadInput."""
    read = [one if isinstance(one, tuple) else (one, 0) for one in keys] if isinstance(keys, list | tuple) else [()]
    for one in read:
        if len(one) != 2 or not isinstance(one[0], str) or not isinstance(one[1], int) or one[1] < 0:
            raise BadInput(f"keys: expected a list of texts, or pairs of a text and a first token, found {keys!r:.40}")
    return tuple(RequestKey(name, start if name else 0) for name, start in read)


def _check_arguments(plan: HistoryPlan, cold: Any, accepted: Mapping[str, str]) -> None:
    for name in accepted:
        if name not in PROPERTIES:
            raise BadInput(f"accepted: unknown property {quoted(name)}", hint=nearest(name, PROPERTIES))
        if not accepted[name].strip():
            raise BadInput(f"accepted: the reason for {name} is missing")
    if isinstance(cold, str) and cold not in ("fresh", "request"):
        raise BadInput(f'cold: expected "fresh" (new instance), "request" (request without cache) or a factory, '
                       f'found {cold!r}')  # fmt: skip
    if plan.corpus not in ("", "any"):
        raise BadInput(f'corpus: expected "any" or "", found {plan.corpus!r}')
    for name, (kind, what) in LISTS.items():
        value = getattr(plan, name)
        if isinstance(value, str) or not isinstance(value, Iterable) or not all(isinstance(one, kind) for one in value):
            raise BadInput(f"{name}: expected a list of {what}, found {value!r:.40}")
    chosen(plan.only, known=True)
    if not all(isinstance(one, Mapping) for one in plan.sampling):
        raise BadInput("sampling: expected a mapping from names to values, or a list of such mappings")
    if len(plan.tokens) < FEWEST or len(set(plan.tokens)) < len(plan.tokens):
        raise BadInput(f"tokens: expected at least {FEWEST} different tokens")
    if plan.max_examples < 1 or plan.max_prompt < 2 or not 1 <= plan.max_requests <= MOST:
        raise BadInput(f"expected max_examples from 1, max_prompt from 2, max_requests from 1 to {MOST}")
