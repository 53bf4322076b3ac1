"""What is in the picture of a run? Rows, stretches of tokens with their origin, the memory beneath: data, no drawing.

    kept        was in the slot
    reused      was in the slot or came back, a recording does not say which
    moved       was in the slot at other positions
    restored    came back from a checkpoint
    loaded      came back from the prompt cache
    evaluated   new: never evaluated before
    again       evaluated again: its state had existed
    generated   the answer
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines import registry
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.registry import engine_of
from cachesim.engines.rule import RULES, about
from cachesim.judging.evidence import PREDICTED
from cachesim.judging.recompute_reasons import what_happened
from cachesim.scenarios.notation.tree import Asked
from cachesim.scenarios.notation.word_lengths import span
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.schema import Scenario, Step
from cachesim.tools.picture.position_scale import cut

# What is behind a loss? The rule, where the rule is written down, and the server's options that govern it.

class RuleSource(NamedTuple):
    """A rule: its source in words, the address of the source ("" = it has none), and the options that govern it as
    they were, ``--ctx-checkpoints 32``."""

    rule: str
    source: str
    link: str
    flags: tuple[str, ...]


def causes(rules: Iterable[str], scenario: Scenario, profile: str) -> dict[str, RuleSource]:
    """What is known of these rules, by id; an unknown rule is left out. Raises BadInput for an unknown profile."""
    engine, now = registry.engine_named(scenario.engine), in_force(scenario.server, profile)
    found: dict[str, RuleSource] = {}
    for rule in sorted(set(rules) & set(RULES)):
        names = engine.rule_flags.get(rule.split(".")[0], ())
        flags = tuple(_typed(flag, now[flag.name]) for flag in filter(None, map(engine.manual.flag, names)))
        source = about(RULES[rule]).source
        found[rule] = RuleSource(rule, str(source), source.link, flags)
    return found


def _typed(flag: Flag, value: Option) -> str:
    """An option in the server's long spelling, with its value."""
    word = next((one for one in flag.spellings if one.startswith("--")), flag.name)
    return f"{word} {('on' if value else 'off') if isinstance(value, bool) else value}"


Data = Mapping[str, Any]
TITLE = 72                   # characters of a line that has no title of its own


class TokenStretch(NamedTuple):
    """Tokens start .. stop-1 of a request and where they came from. ``why``: what happened; of tokens that were
    evaluated again also the ``rule`` behind it, the request ``at`` which it happened (-1 = the present one), and
    ``lost``: the event and the restore point of the account."""

    start: int
    stop: int
    origin: str
    why: str = ""
    at: int = -1
    rule: str = ""
    lost: tuple[str, str] = ("", "")


class Word(NamedTuple):
    """A word of a prompt at positions start .. stop-1."""

    name: str
    start: int
    stop: int


class SlotMemory(NamedTuple):
    """What a slot holds after a request: rows of attention lo .. hi-1 (None = there are none), those that are
    left of window layers, the position of the recurrent state, the ends of checkpoints, in tokens, and pos_min and
    pos_max of each, as far as the engine has them."""

    rows: tuple[int, int] | None
    window: tuple[int, int] | None
    state: int | None
    checkpoints: Sequence[int]
    spans: Sequence[Sequence[int]] = ()


class CacheContents(NamedTuple):
    """The prompt cache after a request: the lengths of its conversations, those that came with the request, those
    that went, and whether a load removed them."""

    lengths: Sequence[int] = ()
    saved: Sequence[int] = ()
    gone: Sequence[int] = ()
    consumed: bool = False


class ForeignRead(NamedTuple):
    """What a wrong answer read at positions start .. stop-1: rows, or the state after stop tokens, of request
    ``request`` from its position ``theirs`` on (-1 = of no request as it was sent); ``says`` it in words."""

    start: int
    stop: int
    request: int
    theirs: int
    says: str


class StepRow(NamedTuple):
    """One step of a run. ``verdict`` in the words of reports, ``wrong`` and ``read`` for an answer that is wrong;
    ``entries``: conversations in the prompt cache afterwards."""

    number: int
    text: str
    why: str
    slot: int
    words: Sequence[Word]
    stretches: Sequence[TokenStretch]
    memory: SlotMemory
    entries: CacheContents
    verdict: str
    wrong: bool
    reason: str
    rule: str
    read: Sequence[str]
    cache_n: int
    prompt_n: int
    foreign: Sequence[ForeignRead] = ()


class Scene(NamedTuple):
    """A whole run. ``causes``: what is known of the rules behind its losses, by id; ``recorded``: it is one of a real
    server, and what the server held is not known."""

    title: str
    why: str
    profile: str
    model: str
    verdict: str
    rows: Sequence[StepRow]
    causes: Mapping[str, RuleSource] = {}
    recorded: bool = False

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
    parts = _parts(scenario, data["profile"])
    before = [(), *(one["entry_tokens"] for one in data["requests"])]
    rows = [_row(step, one, data, scenario, parts, _entries(one, had))
            for step, one, had in zip(scenario.steps, data["requests"], before, strict=False)]  # fmt: skip
    known = causes((charge["rule"] for charge in data["lost"]), scenario, data["profile"])
    title = cut(repr(scenario), TITLE) if scenario.id == "try" else data["title"]
    return Scene(title, data["why"], data["profile"], data["model"], data["verdict"], rows, known)


def _parts(scenario: Scenario, profile: str) -> set[str]:
    """Parts of a server's memory: "base" and "swa" for K/V rows, "state". The model may have a name of its engine's."""
    model = engine_of(profile).start(profile, scenario.model, dict(scenario.server), "provenance").model
    layers = model.spec.layers if model is not None else ()
    return {layer.part for layer in layers} | {"state" for layer in layers if layer.recurrence}


def _entries(one: Data, had: Sequence[int]) -> CacheContents:
    """What a request did to the prompt cache; conversations are told apart by their lengths."""
    old, new = Counter[int](had), Counter[int](one["entry_tokens"])
    gone = list((old - new).elements())
    consumed = 0 < len(gone) <= one["entries_consumed"]
    return CacheContents(one["entry_tokens"], list((new - old).elements()), gone, consumed)


def _row(step: Step, one: Data, data: Data, scenario: Scenario, parts: set[str], entries: CacheContents) -> StepRow:
    held = one["tokens_cached"]
    end = max(held, one["prompt"])
    memory = SlotMemory(
        (0, held) if "base" in parts and held else None, tuple(one["window"]) if one["window"] else None,
        held if "state" in parts and held else None, one["checkpoints"], one["checkpoint_spans"],
    )  # fmt: skip
    lost = [charge for charge in data["lost"] if charge["request"] == one["i"]]
    unseen = {found["what"] for found in data["predicted"] if found["request"] == one["i"]}
    return StepRow(
        one["i"], one["text"], one["why"], one["id_slot"], list(_words(step, scenario)),
        list(_stretches(one, lost, end, PREDICTED if "charge" in unseen else "")), memory, entries, one["verdict"],
        one["equal_cold"] is False, one["reason"], one["rule"],
        [*one["read_instead"], *([PREDICTED] if "verdict" in unseen else ())], one["cache_n"], one["prompt_n"],
        [ForeignRead._make([*read, says]) for read, says in zip(one["read_from"], one["read_instead"], strict=True)],
    )  # fmt: skip


def _words(step: Step, scenario: Scenario) -> Iterator[Word]:
    if not isinstance(step.asked, Asked):
        return
    at = 0
    for piece in step.asked.prompt:
        start, stop = span(piece, scenario.words)
        yield Word(piece.word, at, at + stop - start)
        at += stop - start


def _reused(one: Data) -> Iterator[TokenStretch]:
    at = one["kept"] + one["restored"]
    stay = max(0, at - one["moved"])
    if one["kept"]:
        parts = (TokenStretch(0, stay, "kept"), TokenStretch(stay, at, "moved"))
        yield from (part for part in parts if part.stop > part.start)
    elif at:
        yield TokenStretch(0, at, "loaded" if one["loaded"] == at else "restored", one["reason"])


def _stretches(one: Data, lost: Sequence[Data], end: int, note: str = "") -> Iterator[TokenStretch]:
    """The prompt from its beginning, then the answer. Charges go from the end of what was lost, each with ``note``."""
    yield from _reused(one)
    at = one["cache_n"]
    for charge in reversed(lost):
        stop = min(at + charge["tokens"], one["prompt"])
        if stop > at:
            why = ", ".join(filter(None, (what_happened(charge["event"], charge["kind"]), note)))
            yield TokenStretch(at, stop, "again", why, charge["at"], charge["rule"], (charge["event"], charge["kind"]))
        at = stop
    if at < one["prompt"] and one["prompt_n"]:
        yield TokenStretch(at, one["prompt"], "evaluated")
    if end > one["prompt"] and one["status"] == 200:
        yield TokenStretch(one["prompt"], end, "generated")
