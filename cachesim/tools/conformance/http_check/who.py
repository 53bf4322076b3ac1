"""Which rule set of ours answers the same request wrong, and by which rule?

Those of one engine are named: of those that reuse the same numbers of tokens as the server did, request by request,
the one whose models do so most often.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.contract import Engine

MODELS = ("GA", "S", "W32 A", "W8 A", "C W32", "A")


class Same(NamedTuple):
    """A rule set that answers the same request wrong on a model; ``alike``: it reuses as many tokens as the server
    everywhere."""

    engine: str
    alike: bool
    sentence: str


def who_does_that(line: str, request: int, cached: Sequence[int | None], slots: bool = True) -> list[str]:
    """Rule sets under which the simulator answers the request (from 0) of a history wrong, each with its rule.
    ``cached``: tokens that the server reported as reused, None where it did not; ``slots``: it has slots."""
    from cachesim.engines.registry import ENGINES

    engines = [engine for engine in ENGINES.values() if bool(engine.manual.slots) == slots]
    found = [one for engine in engines for one in _of(engine, line, request, cached)]
    names = [one.engine for one in found if one.alike]
    best = max(dict.fromkeys(names), key=names.count, default="")
    return [one.sentence for one in found if one.alike and one.engine == best]


def _of(engine: Engine, line: str, request: int, cached: Sequence[int | None]) -> Iterator[Same]:
    from cachesim.judging.judged_run import run_judged
    from cachesim.scenarios.from_notation import from_line

    profile = engine.newest or (engine.line[-1] if engine.line else "")
    for model in MODELS if profile else ():
        played = _in_one_slot(line) if engine.manual.slots else line
        try:
            run = run_judged(from_line(played, model=model, profiles=(profile,)), profile, "provenance")
        except BadInput:
            continue
        if request in run.broken:
            answers = [one.answer for one in run.requests]
            pairs = zip(cached[: request + 1], answers, strict=False)
            alike = all(reported is None or reported == answer.cache_n for reported, answer in pairs)
            rule = answers[request].deciding
            yield Same(engine.name, alike, f"{profile} answers it wrong on {model}{f': {rule}' if rule else ''}")


def _in_one_slot(line: str) -> str:
    """The line with every request in slot 0, as it is played."""
    return "/".join(step if "{" in step else f"{step}@0" for step in line.split("/"))
