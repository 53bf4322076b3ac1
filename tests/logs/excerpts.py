"""Numbered sources of full logs and numbered excerpts of them. A number always gives the same excerpt.

Sources are recordings of every build, the scenarios of the corpus, and drawn conversations under all rule sets.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.model.hash_mixing import Rng
from cachesim.replay.recorded_trace import Trace
from cachesim.scenarios.schema import Scenario, Step
from cachesim.tools.search.drawn_conversation import draw_conversation
from tests.logs.cuts import CUTS, Excerpt
from tests.logs.full_logs import FullLog, read_recording, recordings, reproduces, run_scenario, trace_scenario
from tests.logs.rendering import full_log, recorded_log
from tests.scenarios.whole import corpus
from tests.shared import ROOT, TRACES

DATA = ROOT / "tests" / "data"
RECORDED, DRAWN, CORPUS = "recorded", "drawn", "corpus"
OURS = ("-proposed", "-repaired")
"""Ends of the names of rule sets that cachesim proposes."""
ENGINE_SHARES = ("llama_cpp",) * 7 + ("ik_llama",) * 2 + ("mlx_lm",)


class Source(NamedTuple):
    """Source of a full log: its kind and its number."""

    kind: str
    number: int


@lru_cache(maxsize=2)
def _files(shared: bool) -> Sequence[Path]:
    """Return all recordings in an order that mixes their folders."""
    files = list(recordings([TRACES] if shared and TRACES.exists() else [DATA]))
    return [
        file for _, file in sorted((Rng(number, "order").below(1 << 30), file) for number, file in enumerate(files))
    ]


@lru_cache(maxsize=1)
def _corpus() -> Sequence[tuple[Scenario, str]]:
    """Return the scenarios of the corpus with each of their profiles."""
    known = {name for engine in ENGINES for name in profiles_of(engine)}
    scenarios = [one for one in corpus() if not any(map(_has_system, one.steps))]
    return [(one, name) for one in scenarios for name in one.profiles if name in known]


def _has_system(step: Step) -> bool:
    """True if a request brings a system prompt of the server, whose tokens the rendered lines do not count."""
    return "system_tokens" in step.request.extra


def profiles_of(engine: str) -> Sequence[str]:
    """Return the rule sets of an engine that a server can have. A rule set of our own prints shares that count tokens
    otherwise, and no server writes such a log."""
    return sorted(name for name in BUILTIN[engine].profiles if not name.endswith(OURS))


def log_of(source: Source, shared: bool = True) -> FullLog | None:
    """Return the full log of a source; None if its events are not known exactly."""
    name = f"{source.kind}:{source.number}"
    if source.kind == RECORDED:
        files = _files(shared)
        trace = read_recording(files[source.number % len(files)])
        return None if trace is None else _log_of_recording(name, trace, source.number)
    if source.kind == CORPUS:
        scenario, profile = _corpus()[source.number % len(_corpus())]
    else:
        engine = ENGINE_SHARES[source.number % len(ENGINE_SHARES)]
        known = profiles_of(engine)
        profile = known[source.number // len(ENGINE_SHARES) % len(known)]
        scenario = draw_conversation(source.number, engine).scenario(profile)
    played = run_scenario(scenario, profile)
    return None if played is None else full_log(name, scenario, profile, played, source.number)


def _log_of_recording(name: str, trace: Trace, number: int) -> FullLog | None:
    """Return the full log of a recording: run with its own requests, or written from its events alone if requests were
    sent at the same time. None if the run does not log every recorded event."""
    scenario = trace_scenario(trace)
    if scenario is None:
        return recorded_log(name, trace, number)
    played = run_scenario(scenario, trace.profile)
    if played is None or not reproduces(trace, played):
        return None
    return full_log(name, scenario, trace.profile, played, number)


def source_of(number: int) -> Source:
    """Return a source: half of them recordings, the others drawn conversations and scenarios of the corpus in turn."""
    return Source(
        (RECORDED, DRAWN, RECORDED, CORPUS)[number % 4],
        number // 4 * 2 + number % 4 // 2 if number % 2 == 0 else number // 4,
    )


EACH = 6  # excerpts of a full log


def excerpts(number: int, shared: bool = True, only: str = "") -> Iterator[Excerpt]:
    """Yield the excerpts of a numbered source, of as many kinds of cut; ``only``: of this kind."""
    log = log_of(source_of(number), shared)
    if log is None or not log.lines:
        return
    rng = Rng(number, "cuts")
    names = [only] * EACH if only else [name for _, name in sorted((rng.below(1 << 20), name) for name in CUTS)][:EACH]
    for name in names:
        logs = [log]
        if name == "mixed":
            size = len(ENGINE_SHARES)
            other = log_of(Source(DRAWN, size * (7919 + number) + ENGINE_SHARES.index(log.engine)), shared)
            if other is None:
                continue
            logs.append(other)
        cut = CUTS[name](rng, logs)
        if cut.lines:
            yield cut
