"""Reused tokens that the replies state, beside those that the simulation expects, and what would explain a difference.

An explanation is a possibility: it agrees with every count that the replies state, or it says which other number the
stated one is equal to. Nothing here shows that it is what happened.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any, Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.registry import ENGINES
from cachesim.judging.reproduce_command import set_words
from cachesim.scenarios.option_checks import in_force, model_named
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.scenarios.schema import Scenario
from cachesim.tools.request_bodies.body_stages import AnsweredBody
from cachesim.tools.request_bodies.import_scenario import SimulatedImport

EQUAL, ABOUT, DIFFERENT, UNKNOWN = "equal", "about equal", "different", "undecided"
"""How a stated count compares with the expected one. UNKNOWN: one of the two is not known."""
NEAR = 16                    # tokens by which an estimated count may differ and be about equal, at least
SHARE = 20                   # and the part of the prompt, one in so many tokens
TRIALS = 40                  # other settings that are simulated, at most
WORK = 120_000               # prompt tokens of all requests beyond which no other setting is simulated
FOUND = 3                    # explanations by a setting, at most
BLOCK = 16                   # smallest block that is taken for a whole block of a server [tokens]
BLOCKS = 3                   # stated counts that must be multiples of it, at least


class ComparedReuse(NamedTuple):
    """Reuse of a request. ``expected``: tokens of the simulation, None = not simulated; ``stated``: of the reply, None
    = not stated; ``verdict``: how they compare."""

    request: int
    expected: int | None
    stated: int | None
    verdict: str


class ReplyComparison(NamedTuple):
    """Comparison of all requests. ``possible``: sentences, each an explanation of the first difference."""

    rows: Sequence[ComparedReuse]
    possible: Sequence[str] = ()

    @property
    def first(self) -> ComparedReuse | None:
        """The first request whose reply states another count, None if none does."""
        return next((row for row in self.rows if row.verdict == DIFFERENT), None)

    def data(self) -> dict[str, Any] | None:
        """Return the comparison as data, None if no reply states a reuse."""
        stated = [row for row in self.rows if row.stated is not None]
        if not stated:
            return None
        first = self.first
        return {
            "with_counts": len(stated),
            "equal": sum(row.verdict in (EQUAL, ABOUT) for row in stated),
            "different": [row.request for row in stated if row.verdict == DIFFERENT],
            "first_different": None if first is None else first.request,
            "possible": list(self.possible),
        }


def compared_reuse(
    records: Sequence[AnsweredBody], reused: Sequence[int | None], is_exact: bool
) -> list[ComparedReuse]:
    """Compare the reuse of each request with its reply. ``reused``: tokens of the simulated requests, the first ones;
    ``is_exact``: the tokens of the prompts are counted, not estimated."""
    known = [*reused, *[None] * (len(records) - len(reused))]
    return [_compared(records, number, known[number], is_exact) for number in range(len(records))]


def _compared(
    records: Sequence[AnsweredBody], number: int, expected: int | None, is_exact: bool
) -> ComparedReuse:
    """Compare the reuse of a request with its reply. ``expected``: tokens of the simulated request."""
    record = records[number]
    stated = record.body.reported.reused
    verdict = compare(expected, stated, record.tokens, is_exact)
    if verdict == DIFFERENT and is_exact and _is_in_unsure_answer(records, number, expected or 0, stated or 0):
        verdict = UNKNOWN
    return ComparedReuse(number, expected, stated, verdict)


def _is_in_unsure_answer(records: Sequence[AnsweredBody], number: int, expected: int, stated: int) -> bool:
    """True if a stated count ends in an answer of which the simulation takes no token as sent back, although its text
    was: the reply states fewer tokens than that text has."""
    record = records[number]
    if record.base < 0:
        return False
    base = records[record.base]
    is_text_back = bool(base.known_answer) and record.text.startswith(base.text + base.known_answer)
    return is_text_back and not base.returned and expected < stated <= base.tokens + base.answer


def compare(expected: int | None, stated: int | None, prompt: int, is_exact: bool) -> str:
    """Return how a stated count compares with an expected one. Estimated counts that are near each other are about
    equal, unless only one of them is 0."""
    if expected is None or stated is None:
        return UNKNOWN
    if expected == stated:
        return EQUAL
    if is_exact or not expected or not stated:
        return DIFFERENT
    return ABOUT if abs(expected - stated) <= max(NEAR, prompt // SHARE) else DIFFERENT


def reported_reuse(
    records: Sequence[AnsweredBody],
    run: SimulatedImport,
    tokenizer_is_exact: bool,
    other_model: str = "",
) -> ReplyComparison:
    """Return the comparison with the replies, and what would explain the first difference. ``other_model``: model of a
    second simulation, "" = the user named the model."""
    rows = compared_reuse(records, run.reused, tokenizer_is_exact)
    found = ReplyComparison(rows)
    if found.first is None:
        return found
    possible = [
        *_tokenizers(records, tokenizer_is_exact),
        *_settings(records, run, tokenizer_is_exact, other_model, _common_block(rows)),
        *_blocks(rows),
        *_other_state(records, found.first, tokenizer_is_exact),
    ]
    return found._replace(possible=possible)


def _tokenizers(records: Sequence[AnsweredBody], is_exact: bool) -> Iterator[str]:
    """Yield that prompts have another length than the tokenizer counts, if it is exact."""
    if not is_exact:
        return
    for number, record in enumerate(records):
        stated = record.body.reported.prompt
        if stated is not None and stated != record.tokens:
            yield (f"another tokenizer or chat template, or a prompt that was cut: the prompt of request {number} has "
                   f"{stated:,} tokens in its reply, {record.tokens:,} here")  # fmt: skip
            return


def _settings(
    records: Sequence[AnsweredBody], run: SimulatedImport, is_exact: bool, other_model: str, block: int
) -> Iterator[str]:
    """Yield the other model, or a value of a flag, with which the simulation has every stated count. ``block``: the
    greatest number of tokens of which they are multiples."""
    scenario = run.scenario
    if run.left or sum(record.tokens for record in records) > WORK:
        return
    found = 0
    for name, other in _others(scenario, other_model, block):
        counts = _StatedCounts(records, is_exact)
        try:
            play(other, other.profiles[0], "none", counts)
        except (BadInput, _OtherCount):
            continue
        if not counts.missing:
            yield f"{name}: the simulation then has every count of the replies"
            found += 1
            if found == FOUND:
                return


class _OtherCount(Exception):
    """A simulated request reuses other tokens than its reply states."""


class _StatedCounts(SilentObserver):
    """Observer that ends a run at the first request whose reply states another count. ``missing``: requests with a
    stated count that have no answer yet."""

    def __init__(self, records: Sequence[AnsweredBody], is_exact: bool) -> None:
        self._records = records
        self._is_exact = is_exact
        self.missing = {i for i, record in enumerate(records) if record.body.reported.reused is not None}

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        if number not in self.missing:
            return
        reused = None if answer.error else answer.cache_n
        if _compared(self._records, number, reused, self._is_exact).verdict not in (EQUAL, ABOUT):
            raise _OtherCount
        self.missing.discard(number)


def _others(scenario: Scenario, other_model: str, block: int) -> Iterator[tuple[str, Scenario]]:
    """Yield the scenario with another model, and with other values of single flags, each with its name."""
    profile = scenario.profiles[0]
    engine = profile.partition("@")[0]
    if other_model:
        yield f"a dense model (--model {other_model})", replace(scenario, model=model_named(other_model, engine).model)
    now = in_force(scenario.server, profile)
    number = 0
    for flag in ENGINES[engine].manual.flags:
        for value in _values(flag, now[flag.name], block):
            server = {**scenario.server, flag.name: value}
            try:
                steps = make_steps(scenario.line.steps, scenario.words, server)
            except BadInput:
                continue
            number += 1
            if number > TRIALS:
                return
            yield " ".join(set_words({flag.name: value})), replace(scenario, server=server, steps=steps)


def _values(flag: Flag, now: Option, block: int) -> list[Option]:
    """Return the values of a flag that are tried instead of ``now``: it switched off or on, at its least, one, its
    other words, and, if it counts tokens, ``block`` and its half. Flags that govern no decision have none."""
    if not flag.governs or flag.model:
        return []
    if isinstance(now, bool):
        return [not now]
    if isinstance(now, int):
        sizes = (block, block // 2) if flag.tokens and block > 1 else ()
        small: list[Option] = [value for value in (0, 1, *sizes) if value >= flag.least]
        return [value for value in dict.fromkeys((*small, *flag.tries)) if value != now]
    return [value for value in (*flag.choices, *flag.tries) if value != now]


def _common_block(rows: Sequence[ComparedReuse]) -> int:
    """Return the greatest number of which all stated counts are multiples; 0 if they are too few, or all the same."""
    counts = [row.stated for row in rows if row.stated]
    return gcd(*counts) if len(counts) >= BLOCKS and len({*counts}) > 1 else 0


def _blocks(rows: Sequence[ComparedReuse]) -> Iterator[str]:
    """Yield that all stated counts are multiples of a block."""
    size = _common_block(rows)
    expected = [row.expected for row in rows if row.expected]
    if size >= BLOCK and any(count % size for count in expected):
        number = sum(bool(row.stated) for row in rows)
        yield f"a server that reuses whole blocks: all {number} stated counts are multiples of {size}"


def _other_state(
    records: Sequence[AnsweredBody], first: ComparedReuse, is_exact: bool
) -> Iterator[str]:
    """Yield what the stated count of the first different request is equal to."""
    stated = first.stated or 0
    expected = first.expected or 0
    record = records[first.request]
    if stated > expected:
        yield "the server kept more than is simulated: more memory, slots or restore points, or another client sent " \
              "the same text before"  # fmt: skip
        return
    same = _same_prefix(records, first.request, stated, is_exact) if stated else None
    if same is not None:
        yield (f"the state after request {same} was used, and not that of request {record.base}: other requests "
               f"removed it, or they went to another server behind the same address")  # fmt: skip
    elif not stated:
        yield "nothing was left of the earlier requests: other requests removed it, the server was started again, or " \
              "another server behind the same address answered"  # fmt: skip
    else:
        yield "other requests removed a part of the state, or a flag or a limit that is not simulated"


def _same_prefix(records: Sequence[AnsweredBody], number: int, stated: int, is_exact: bool) -> int | None:
    """Return the newest earlier request, other than the one with the longest common prefix, whose whole prompt is
    as long as the stated count and begins this one; None if there is none."""
    record = records[number]
    for before in range(number - 1, -1, -1):
        other = records[before]
        if before == record.base or not record.text.startswith(other.text[: other.history]):
            continue
        if compare(other.tokens, stated, record.tokens, is_exact) in (EQUAL, ABOUT):
            return before
    return None
