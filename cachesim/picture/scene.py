"""What is in the picture of a run? Rows, stretches of tokens with their origin, the memory beneath: data, no drawing.

    kept        was in the slot
    reused      was in the slot or came back, a recording does not say which
    restored    came back from a checkpoint
    loaded      came back from the prompt cache
    evaluated   new: never evaluated before
    again       evaluated again: its state had existed
    generated   the answer
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.model import parse
from cachesim.notation.tree import Asked
from cachesim.notation.words import span
from cachesim.scenarios.schema import Scenario, Step
from cachesim.verdicts.recompute_reasons import what_happened

Data = Mapping[str, Any]


class Stretch(NamedTuple):
    """Tokens start .. stop-1 of a request and where they came from. ``why``: what happened, with rule and request."""

    start: int
    stop: int
    origin: str
    why: str = ""
    at: int = -1


class Word(NamedTuple):
    """A word of a prompt at positions start .. stop-1."""

    name: str
    start: int
    stop: int


class Memory(NamedTuple):
    """What a slot holds after a request: rows of attention lo .. hi-1 (None = there are none), those that are
    left of window layers, the position of the recurrent state, and the ends of checkpoints, in tokens."""

    rows: tuple[int, int] | None
    window: tuple[int, int] | None
    state: int | None
    checkpoints: Sequence[int]


class Row(NamedTuple):
    """One step of a run. ``verdict`` in the words of reports, ``wrong`` and ``read`` for an answer that is wrong;
    ``entries``: conversations in the prompt cache afterwards; ``lines``: what else is to say of it."""

    number: int
    text: str
    why: str
    slot: int
    words: Sequence[Word]
    stretches: Sequence[Stretch]
    memory: Memory
    entries: int
    verdict: str
    wrong: bool
    reason: str
    rule: str
    read: Sequence[str]
    cache_n: int
    prompt_n: int


class Scene(NamedTuple):
    """A whole run."""

    title: str
    why: str
    profile: str
    model: str
    verdict: str
    rows: Sequence[Row]

    @property
    def fine(self) -> bool:
        """Returns True where no answer is wrong."""
        return not any(row.wrong for row in self.rows) and self.verdict in ("OK", "recorded")

    @property
    def length(self) -> int:
        """Positions that are drawn."""
        return max((one.stop for row in self.rows for one in row.stretches), default=1)


def scene(scenario: Scenario, data: Data) -> Scene:
    """The picture of one run; ``data`` as ``run_data`` has it."""
    kinds = {layer.kind for layer in parse(scenario.model).layers}
    rows = [_row(step, one, data, scenario, kinds)
            for step, one in zip(scenario.steps, data["requests"], strict=True)]  # fmt: skip
    return Scene(data["title"], data["why"], data["profile"], data["model"], data["verdict"], rows)


def _row(step: Step, one: Data, data: Data, scenario: Scenario, kinds: set[str]) -> Row:
    held = one["tokens_cached"]
    end = max(held, one["prompt"])
    memory = Memory(
        (0, held) if kinds & {"A", "H"} and held else None,
        tuple(one["window"]) if one["window"] else None,
        held if kinds - {"A", "W"} and held else None,
        one["checkpoints"],
    )
    lost = [charge for charge in data["lost"] if charge["request"] == one["i"]]
    return Row(
        one["i"], one["text"], one["why"], one["id_slot"], list(_words(step, scenario)),
        list(_stretches(one, lost, end)), memory, one["entries"], one["verdict"], one["equal_cold"] is False,
        one["reason"], one["rule"],
        one["read_instead"], one["cache_n"], one["prompt_n"],
    )  # fmt: skip


def _words(step: Step, scenario: Scenario) -> Iterator[Word]:
    if not isinstance(step.asked, Asked):
        return
    at = 0
    for piece in step.asked.prompt:
        start, stop = span(piece, scenario.words)
        yield Word(piece.word, at, at + stop - start)
        at += stop - start


def _stretches(one: Data, lost: Sequence[Data], end: int) -> Iterator[Stretch]:
    """The prompt from its beginning, then the answer. Charges are listed from the end of what was lost."""
    at = one["kept"]
    if at:
        yield Stretch(0, at, "kept", "was in the slot")
    back, loaded = one["restored"], one["loaded"]
    if back:
        yield Stretch(at, at + back, "loaded" if loaded == back else "restored", one["reason"])
        at += back
    for charge in reversed(lost):
        stop = min(at + charge["tokens"], one["prompt"])
        if stop > at:
            why = f"{what_happened(charge['event'], charge['kind'])}: {charge['rule']}"
            yield Stretch(at, stop, "again", why, charge["at"])
        at = stop
    if at < one["prompt"] and one["prompt_n"]:
        yield Stretch(at, one["prompt"], "evaluated", "never evaluated before")
    if end > one["prompt"] and one["status"] == 200:
        yield Stretch(one["prompt"], end, "generated", "the answer")
