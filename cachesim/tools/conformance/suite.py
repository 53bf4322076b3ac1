"""Does a cache answer as a cold run does? The one function that other people call."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, Callable, Iterable, Mapping, Sequence

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.tools.conformance.client_history import FEWEST, MOST
from cachesim.tools.conformance.fingerprint import Same, identical
from cachesim.tools.conformance.history_player import Bench, Cold, Make, SentHistory, play, probe
from cachesim.tools.conformance.jsonl_adapter import ProcessSubject, PythonSubject
from cachesim.tools.conformance.properties import FORMER, PROPERTIES
from cachesim.tools.conformance.report import Nonconforming, Report, chosen
from cachesim.tools.conformance.report_builder import HistoryPlan, accept, make_report
from cachesim.tools.conformance.search import HistorySearch
from cachesim.tools.conformance.timeouts import Patience

Factory = Callable[[], Any] | Sequence[str]
TOKENS = range(1_000, 30_000)
LONGEST = 86_400             # seconds of a time-out: a day
LISTS: Mapping[str, tuple[type, str]] = {"only": (str, "sections"), "histories": (str, "lines in the notation"),
                                         "near": (Integral, "sizes in tokens")}  # fmt: skip


def conform(
    factory: Factory, *, cold: str | Factory = "fresh", corpus: str = "", histories: Sequence[str] = (),
    max_examples: int = 200, max_requests: int = 6, max_prompt: int = 256, near: Sequence[int] = (),
    tokens: Sequence[int] = TOKENS, same: Same = identical,
    sampling: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (), only: Sequence[str] = (), strict: bool = False,
    accepted: Mapping[str, str] | None = None, reset: bool = False, timeout: float = 60.0,
    seconds: float | None = None, check: bool = True,
) -> Report:  # fmt: skip
    """Play request histories against a prefix cache and compare it with cold runs; the same arguments play the same.

    ``factory`` makes an instance with an empty cache, a Python object with ``complete(prompt, n_predict)``; or it is
    the command line of a process that speaks JSON lines. The other arguments are explained in
    ``cachesim.tools.conformance``. Raises Nonconforming (an AssertionError) with the report if ``check``; BadInput for
    arguments that cannot be used.
    """
    parameters = (sampling,) if isinstance(sampling, Mapping) else tuple(sampling)
    plan = HistoryPlan(corpus, histories, max_examples, max_requests, max_prompt, near, tokens, only, strict,
                       parameters)  # fmt: skip
    _check_arguments(plan, cold, accepted or {})
    patience = _patience(timeout, seconds)
    bench = Bench(maker(factory, patience), "reset" if reset else "")
    if isinstance(cold, str):                        # the same instances, or one that is only asked without its cache
        other = bench if cold == "fresh" or bench.reuse else Bench(bench.make, "keep")
    else:
        other = Bench(maker(cold, patience))
    with closing(bench), closing(other):
        report = _played(plan, bench, Cold(other, cold == "request", same), patience)
    report = replace(report, results=tuple(accept(one, accepted or {}) for one in report.results))
    if check and not report.conforms:
        raise Nonconforming(report)
    return report


def _played(plan: HistoryPlan, bench: Bench, cold: Cold, patience: Patience) -> Report:
    abilities = probe(bench.make, plan.tokens, plan.sampling[0] if plan.sampling else {})
    for ability, wanted, needs in (
        ("cache", cold.uncached, 'cold = "request" needs requests without cache'),
        ("reset", bool(bench.reuse), "reset needs a way to reset"),
        ("sampling", True, "sampling needs a way to pass parameters"),
    ):
        if wanted and ability in abilities.missing:
            raise BadInput(f"{needs}: {abilities.missing[ability]}")
    play_one = partial(play, bench=bench, cold=cold, sent=SentHistory(plan.tokens, plan.sampling))
    return make_report(plan, abilities, HistorySearch(play_one, cold.same, patience), cold)


def maker(factory: Any, patience: Patience) -> Make:
    """How instances are made. Raises BadInput for what is neither a callable nor a command line."""
    if callable(factory):
        return partial(PythonSubject, factory, patience)
    if isinstance(factory, Sequence) and factory and not isinstance(factory, str | bytes):
        return partial(ProcessSubject, [str(word) for word in factory], patience)
    raise BadInput(f"a factory is a callable, or the words of a command line, not {quoted(factory)}")


def _patience(timeout: float, seconds: float | None) -> Patience:
    for name, value in (("timeout", timeout), ("seconds", LONGEST if seconds is None else seconds)):
        if not isinstance(value, int | float) or not 0 < value <= LONGEST:
            raise BadInput(f"{name} must be more than 0 seconds and at most {LONGEST}, not {value!r:.40}")
    return Patience(timeout, seconds)


def _check_arguments(plan: HistoryPlan, cold: Any, accepted: Mapping[str, str]) -> None:
    for name in accepted:
        if FORMER.get(name, name) not in PROPERTIES:
            raise BadInput(f"accepted: unknown property {quoted(name)}", hint=nearest(name, PROPERTIES))
        if not accepted[name].strip():
            raise BadInput(f"accepted: {name} needs a reason")
    if isinstance(cold, str) and cold not in ("fresh", "request"):
        raise BadInput(f'cold is "fresh", "request" or a factory, not {cold!r}')
    if plan.corpus not in ("", "any"):
        raise BadInput(f'corpus is "any" or nothing, not {plan.corpus!r}')
    for name, (kind, what) in LISTS.items():
        value = getattr(plan, name)
        if isinstance(value, str) or not isinstance(value, Iterable) or not all(isinstance(one, kind) for one in value):
            raise BadInput(f"{name} is a list of {what}, not {value!r:.40}")
    chosen(plan.only, known=True)
    if not all(isinstance(one, Mapping) for one in plan.sampling):
        raise BadInput("sampling is a mapping from names to values, or a list of such mappings")
    if len(plan.tokens) < FEWEST or len(set(plan.tokens)) < len(plan.tokens):
        raise BadInput(f"tokens: at least {FEWEST}, all different, are needed")
    if plan.max_examples < 1 or plan.max_prompt < 2 or not 1 <= plan.max_requests <= MOST:
        raise BadInput(f"max_examples from 1, max_prompt from 2, max_requests from 1 to {MOST}")
