"""Histories of known faults, the shortest of each, scaled to windows of usual sizes."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.contract import Engine
from cachesim.tools.conformance.client_history import of_line
from cachesim.tools.conformance.history_player import PlayedHistory
from cachesim.tools.conformance.http_check.replies import Alike, gap
from cachesim.tools.conformance.http_check.warm_run import ServerStage
from cachesim.tools.conformance.properties import EQUAL, Check, checks
from cachesim.tools.conformance.protocol import Failed, Reply

# How far apart are two answers that should be the same? A few repetitions first, long prompts and splits later.

SHORT = "A40"                        # the same cold three times: once with an empty slot, twice without the cache
NOISE = (SHORT, "A5>a3/A.a.B1", "A30/A.B2", "A64/A.B1", "A69/A[:64]", "A260/A.B1", "A261/A[:256]", "A517/A[:512]")
"""The same cold twice; split differently, in long prompts too: a prompt of 64 tokens has another kernel than one token
behind 63, and under default flags that is a thousand times the difference of short ones."""
ROUNDS = 3                           # with other tokens each time
TIMES = 10                           # what was measured, so often, is allowed
LEAST, LEGAL, MOST = 0.005, 0.03, 0.1
"""Noise has a long tail: of a server with noise of 5e-6 some legal splits differ by 1e-3, so ``LEAST`` is always
allowed. Larger differences than ``LEGAL`` are no noise; more than ``MOST`` is never allowed."""


def tolerance_of(measured: float) -> float:
    """What is allowed where so much was measured."""
    return max(LEAST, min(MOST, TIMES * measured))


def repeats(stage: ServerStage) -> bool:
    """Returns True if a short prompt is answered the same, up to legal differences, whenever it is sent. Raises
    BadInput if nothing answers."""
    return all(size <= LEGAL for size in _sizes(_played(stage, SHORT)))


def measure(stage: ServerStage, most: int) -> float:
    """The largest legal difference between two answers that should be the same; prompts of at most ``most`` tokens.
    Raises BadInput if nothing answers."""
    largest = 0.0
    for line in NOISE * ROUNDS:
        if of_line(line).tokens <= 2 * most and not stage.http.spent:
            largest = max([largest, *(size for size in _sizes(_played(stage, line)) if size <= LEGAL)])
    return largest


def _played(stage: ServerStage, line: str) -> PlayedHistory:
    played = stage.play(of_line(line))
    bad = next((one for one in (*played.warm, *played.cold) if isinstance(one, Failed)), None)
    if bad is not None:
        raise BadInput(str(bad), file=stage.http.url)
    return played


def _sizes(played: PlayedHistory) -> Iterator[float]:
    """Differences of warm and cold answers, and of two cold ones. What reused little of its prompt was not split as
    these histories want it: a stale state of one token moves the answer to a long prompt by as little as noise."""
    for ask, one, two, three in zip(played.asks, played.warm, played.cold, played.again, strict=False):
        split = isinstance(one, Reply) and (not one.cached or 2 * one.cached >= len(ask.prompt))
        for a, b in [(one, two)] * split + [(two, three)]:
            if isinstance(a, Reply) and isinstance(b, Reply):
                yield gap(a.fingerprint, b.fingerprint)


# Which rule set of ours answers the same request wrong, and by which rule?
#
# Those of one engine are named: of those that reuse the same numbers of tokens as the server did, request by request,
# the one whose models do so most often.

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
    played = line
    if engine.manual.slots:                          # every request in slot 0, as it is played
        played = "/".join(step if "{" in step else f"{step}@0" for step in line.split("/"))
    for model in MODELS if profile else ():
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


# The known faults, before anything else: a difference so large that no noise explains it, seen twice.
#
# What differs by less is left to the search, behind a measurement of the noise.

PLAYS = 3                    # further ones at most: with some tokens a fault moves the answer by little

OFTEN = 3                    # plays in which a smaller difference is enough


class Early(NamedTuple):
    """A history whose last request was answered wrong in two plays; ``played`` is one of them, ``check`` what was wrong
    with it, ``sent`` the number of requests up to then."""

    line: str
    played: PlayedHistory
    check: Check
    sent: int


def look(stage: ServerStage, most: int) -> Iterator[Early]:
    """Play the shortest history of every known fault."""
    for lines in early_lines(most, stage.server.sizes):
        together = stage.play(of_line("/".join(lines)), spare=True)
        wrong = {check.request: check for check in _wrong(together)}
        ends = [sum(line.count("/") + 1 for line in lines[:place]) for place in range(1, len(lines) + 1)]
        found = [(line, end - 1) for line, end in zip(lines, ends, strict=True) if end - 1 in wrong]
        for line, number in sorted(found, key=lambda one: -_cached(together, one[1])):
            if early := _confirmed(stage, line, wrong[number]):
                yield early
                break


def _cached(played: PlayedHistory, request: int) -> int:
    """Tokens that a request reused: of several histories the one that reused most is the one that it was made for."""
    said = played.warm[request]
    return (said.cached or 0) if isinstance(said, Reply) else 0


def _confirmed(stage: ServerStage, line: str, first: Check) -> Early | None:
    """The history by itself, once more: its last request differs by more than noise there too, and in one of the plays
    by more than is ever allowed, or in three."""
    largest, often = _size(first), 1
    for _ in range(PLAYS):
        played = stage.play(of_line(line), spare=True)
        last = len(played.asks) - 1
        check = next((one for one in _wrong(played) if one.request == last), None)
        largest = max(largest, _size(check) if check else 0.0)
        often += check is not None
        if check is not None and (largest >= MOST or often >= OFTEN):
            return Early(line, played, check, stage.http.sent)
    return None


def _size(check: Check) -> float:
    return check.apart.largest if check.apart is not None else MOST


def _wrong(played: PlayedHistory) -> list[Check]:
    """Answers that differ by more than noise does."""
    return [check for check in checks(played, Alike(LEGAL)) if check.name in EQUAL and not check.ok]


WINDOWS = (8, 16, 32, 64, 128, 256, 512, 1024)
WORDS = "ABCDEFGHIJ"                 # one for each window
BEHIND = (5, 9)                      # tokens of the first prompt behind the window: with more, another fault shows;
                                     # several are generated, because the first may differ by little
STALE = ("A5/B10/B[:1].C5", "A5/B10/B[:3].C3")
"""A checkpoint that survives another prompt."""
NEIGHBOUR, ROOM = "S8.A4>3/S.B5>3/S.C600>3/S.C[:2].D2>3", 610
"""A checkpoint one token behind the common prefix."""

LAST = ("A5>a3/A.a", "A5>a3/A[:4]")
"""A prompt that is all of a conversation, or all of a prompt but its last token: nothing is left to evaluate. They have
ended servers, so they are played last."""


def early_lines(most: int, sizes: Sequence[int] = ()) -> Iterator[tuple[str, ...]]:
    """Histories that are played together, one behind the other, before anything else: one of each fault, so that it is
    found with few requests. ``sizes``: those that the server states, which may be its window."""
    yield (STALE[0],)
    if most > ROOM:
        yield (NEIGHBOUR,)
    pairs = zip(WORDS, [one for one in windows(sizes) if one + BEHIND[0] <= most], strict=False)
    yield tuple(f"{word}{window + BEHIND[0]}/{word}[:{window}]>8" for word, window in pairs)


def windows(sizes: Sequence[int]) -> list[int]:
    """Usual sizes of windows, and those that a server states, these first where there are many."""
    return sorted([*dict.fromkeys((*sizes, *WINDOWS))][: len(WORDS)])


def known_lines(most: int, sizes: Sequence[int] = ()) -> Iterator[str]:
    """The shortest histories of faults that llama.cpp has had, with windows of usual sizes: a checkpoint that survives
    another prompt, one token behind a common prefix, a prefix of just the window."""
    yield from STALE
    if most > ROOM:
        yield NEIGHBOUR
    for behind in BEHIND:
        yield from (f"A{window + behind}/A[:{window}]>8" for window in windows(sizes) if window + behind <= most)
