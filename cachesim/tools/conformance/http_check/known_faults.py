"""Shortest histories of known faults, scaled to usual window sizes; measurement of noise."""

from __future__ import annotations

from math import inf
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.http_check.compare_answers import NearAnswers, gap
from cachesim.tools.conformance.http_check.warm_run import ServerRunner
from cachesim.tools.conformance.properties import VERSUS_COLD, PropertyCheck, checks
from cachesim.tools.conformance.protocol import Failed, Reply

# Noise: the distance of answers that should be equal. A few repetitions first, long prompts and splits later.

SHORT = "A40"                        # cold three times: once with an empty slot, twice without the cache
NOISE = (SHORT, "A5>a3/A.a.B1", "A30/A.B2", "A64/A.B1", "A69/A[:64]", "A260/A.B1", "A261/A[:256]", "A517/A[:512]")
"""Cold prompts sent twice, and prompts split differently. Long ones matter: 64 tokens use another kernel than one token
after 63, and under default flags that differs a thousand times more than short prompts do."""
ROUNDS = 3                           # repetitions with other tokens
TIMES = 10                           # allowed multiple of the measured noise
LEAST, LEGAL, MOST = 0.005, 0.03, 0.1
"""Noise has a long tail: on a server with noise of 5e-6 some legal splits differ by 1e-3, so ``LEAST`` is always
allowed. Differences above ``LEGAL`` are not noise; more than ``MOST`` is never allowed."""


def tolerance_of(measured: float) -> float:
    """Return the allowed difference for a measured noise."""
    return max(LEAST, min(MOST, TIMES * measured))


def repeats(stage: ServerRunner) -> bool:
    """True if a short prompt always gets equal answers, up to legal differences. Raise BadInput without a reply."""
    return all(size <= LEGAL for size in _sizes(_played(stage, SHORT)))


def measure(stage: ServerRunner, most: int, lines: Sequence[str] = ()) -> float:
    """Return the largest legal difference between answers that should be equal; prompts of at most ``most`` tokens.
    Raise BadInput without a reply."""
    largest = 0.0
    for line in [*(lines or NOISE)] * ROUNDS:
        if parse_history(line).tokens <= 2 * most and not stage.http.is_spent:
            largest = max([largest, *(size for size in _sizes(_played(stage, line)) if size <= LEGAL)])
    return largest


def _played(stage: ServerRunner, line: str) -> HistoryRun:
    played = stage.play(parse_history(line))
    bad = next((one for one in (*played.warm, *played.cold) if isinstance(one, Failed)), None)
    if bad is not None:
        raise BadInput(str(bad), file=stage.http.url)
    return played


def _sizes(played: HistoryRun) -> Iterator[float]:
    """Yield the differences of warm and cold answers, and of two cold answers. Skip a warm answer with little reuse:
    its prompt was not split as intended, and a stale state of a single token can differ by as little as noise."""
    for ask, one, two, three in zip(played.asks, played.warm, played.cold, played.again, strict=False):
        split = isinstance(one, Reply) and (not one.cached or 2 * one.cached >= len(ask.prompt))
        for a, b in [(one, two)] * split + [(two, three)]:
            if isinstance(a, Reply) and isinstance(b, Reply):
                alike = a.tokens == b.tokens or a.fingerprint is not None     # tokens decide without probabilities
                yield gap(a.fingerprint, b.fingerprint) if alike else inf


# Known faults come first: a difference too large for noise, seen twice.
#
# Smaller differences are left to the search, after the noise was measured.

PLAYS = 3                    # most further runs: with some tokens a fault changes the answer little

OFTEN = 3                    # runs after which a smaller difference suffices


class EarlyFinding(NamedTuple):
    """A history whose last request was answered wrong in two runs; ``played``: the second of them, ``check``: its
    failed check, ``sent``: requests sent so far."""

    line: str
    played: HistoryRun
    check: PropertyCheck
    sent: int


def look(stage: ServerRunner, most: int) -> Iterator[EarlyFinding]:
    """Run the shortest history of every known fault."""
    for lines in early_lines(most, stage.server.sizes):
        together = stage.play(parse_history("/".join(lines)), spare=True)
        wrong = {check.request: check for check in _wrong(together)}
        ends = [sum(line.count("/") + 1 for line in lines[:place]) for place in range(1, len(lines) + 1)]
        found = [(line, end - 1) for line, end in zip(lines, ends, strict=True) if end - 1 in wrong]
        for line, number in sorted(found, key=lambda one: -_cached(together, one[1])):
            if early := _confirmed(stage, line, wrong[number]):
                yield early
                break


def _cached(played: HistoryRun, request: int) -> int:
    """Return the tokens that a request reused: the history with most reuse was made for the server's window."""
    said = played.warm[request]
    return (said.cached or 0) if isinstance(said, Reply) else 0


def _confirmed(stage: ServerRunner, line: str, first: PropertyCheck) -> EarlyFinding | None:
    """Run the history alone. It is confirmed if its last request differs by more than noise there too, and either a
    difference exceeds ``MOST`` or ``OFTEN`` runs differ."""
    largest, often = _size(first), 1
    for _ in range(PLAYS):
        played = stage.play(parse_history(line), spare=True)
        last = len(played.asks) - 1
        check = next((one for one in _wrong(played) if one.request == last), None)
        largest = max(largest, _size(check) if check else 0.0)
        if check is not None:
            often += 1
        if check is not None and (largest >= MOST or often >= OFTEN):
            return EarlyFinding(line, played, check, stage.http.sent)
    return None


def _size(check: PropertyCheck) -> float:
    return check.apart.largest if check.apart is not None else MOST


def _wrong(played: HistoryRun) -> list[PropertyCheck]:
    """Return the checks of answers that differ by more than noise."""
    return [check for check in checks(played, NearAnswers(LEGAL)) if check.name in VERSUS_COLD and not check.ok]


WINDOWS = (8, 16, 32, 64, 128, 256, 512, 1024)
WORDS = "ABCDEFGHIJ"                 # a word for each window
BEHIND = (5, 9)                      # tokens of the first prompt after the window: more would show another fault;
                                     # several are generated, because the first may differ by little
STALE = ("A5/B10/B[:1].C5", "A5/B10/B[:3].C3")
"""A checkpoint that survives another prompt."""
NEIGHBOUR, ROOM = "S8.A4>3/S.B5>3/S.C600>3/S.C[:2].D2>3", 610
"""A checkpoint one token after the common prefix."""

LAST = ("A5>a3/A.a", "A5>a3/A[:4]")
"""A prompt equal to a whole conversation, or to a prompt without its last token: no token is left to evaluate. These
have crashed servers, so they are run last."""


def early_lines(most: int, sizes: Sequence[int] = ()) -> Iterator[tuple[str, ...]]:
    """Yield groups of histories that are run together, before anything else: a group per fault, for few requests.
     ``sizes``: sizes that the server states, which may include its window."""
    yield (STALE[0],)
    if most > ROOM:
        yield (NEIGHBOUR,)
    pairs = zip(WORDS, [one for one in windows(sizes) if one + BEHIND[0] <= most], strict=False)
    yield tuple(f"{word}{window + BEHIND[0]}/{word}[:{window}]>8" for word, window in pairs)


def windows(sizes: Sequence[int]) -> list[int]:
    """Return usual window sizes and those that a server states, which take precedence."""
    return sorted([*dict.fromkeys((*sizes, *WINDOWS))][: len(WORDS)])


def known_lines(most: int, sizes: Sequence[int] = ()) -> Iterator[str]:
    """Yield the shortest histories of former llama.cpp faults, with usual window sizes: a checkpoint that survives
    another prompt, a single token after a common prefix, a prefix of exactly the window."""
    yield from STALE
    if most > ROOM:
        yield NEIGHBOUR
    for behind in BEHIND:
        yield from (f"A{window + behind}/A[:{window}]>8" for window in windows(sizes) if window + behind <= most)
