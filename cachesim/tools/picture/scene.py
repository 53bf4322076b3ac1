"""Content of the picture of a run: rows, token ranges with their origin, the memory below them. Data without drawing.

    kept        was in the slot
    reused      was in the slot or elsewhere; a recording does not show where
    moved       was in the slot at other positions
    restored    restored from a checkpoint
    loaded      loaded from the prompt cache
    evaluated   evaluated for the first time
    again       evaluated again: its state had existed
    generated   the answer
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import counted
from cachesim.engines import registry
from cachesim.engines.capabilities import Flag, Option
from cachesim.engines.registry import engine_of
from cachesim.engines.rule import RULES, about
from cachesim.judging.equal_outcomes import short_names
from cachesim.judging.evidence import PREDICTED
from cachesim.judging.memory_text import memory_parts
from cachesim.judging.recompute_reasons import what_happened
from cachesim.judging.run_data import first_evaluated
from cachesim.judging.verdict_text import answers_text, cost_text, loss_text
from cachesim.scenarios.notation.tree import LineRequest
from cachesim.scenarios.notation.word_lengths import ImageSize, span
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.schema import Scenario, Step
from cachesim.scenarios.server_settings import server_options
from cachesim.tools.picture.block_cells import Cells
from cachesim.tools.picture.cell_recorder import CellHistory
from cachesim.tools.picture.position_scale import cut
from cachesim.tools.picture.tree_cells import Tree

# Rules that caused losses: where a rule is documented, and the server's options that govern it.

class RuleSource(NamedTuple):
    """A rule, its source in words, the URL of the source ("" = none), and the options that govern it with their values,
    such as ``--ctx-checkpoints 32``."""

    rule: str
    source: str
    link: str
    flags: tuple[str, ...]


def causes(rules: Iterable[str], scenario: Scenario, profile: str) -> dict[str, RuleSource]:
    """Return the sources of these rules by id, without unknown rules. Raise BadInput for an unknown profile."""
    engine, now = registry.engine_named(scenario.engine), in_force(server_options(scenario), profile)
    found: dict[str, RuleSource] = {}
    for rule in sorted(set(rules) & set(RULES)):
        names = engine.rule_flags.get(rule.split(".")[0], ())
        flags = tuple(_typed(flag, now[flag.name]) for flag in filter(None, map(engine.manual.flag, names)))
        source = about(RULES[rule]).source
        found[rule] = RuleSource(rule, str(source), source.link, flags)
    return found


def _typed(flag: Flag, value: Option) -> str:
    """Return an option in the server's long spelling with its value."""
    word = next((one for one in flag.spellings if one.startswith("--")), flag.name)
    return f"{word} {('on' if value else 'off') if isinstance(value, bool) else value}"


Data = Mapping[str, Any]
RINGS = "last inputs of the compressors"
TITLE = 72                   # characters of a scenario line that is used as title


class TokenStretch(NamedTuple):
    """Tokens start .. stop-1 of a request with their origin."""

    start: int
    stop: int
    origin: str
    why: str = ""                           # description of the event
    at: int = -1                            # of re-evaluated tokens: request that lost them, -1 = the present request
    rule: str = ""                          # the rule that caused the loss
    lost: tuple[str, str] = ("", "")        # event and restore point of the charge


class Word(NamedTuple):
    """A word of a prompt, at positions start .. stop-1."""

    name: str
    start: int
    stop: int
    title: str = ""                         # such as "system", "" = none


class CompressedRows(NamedTuple):
    """Compressed rows of a slot that a next token sees, from number 0 on."""

    ratio: int                              # tokens that a row stands for
    rows: int                               # number of them

    @property
    def says(self) -> str:
        """The rows in words."""
        return f"{counted(self.rows, 'compressed row')} of {self.ratio} tokens each"


class SlotMemory(NamedTuple):
    """Contents of a slot after a request."""

    rows: tuple[int, int] | None            # attention rows lo .. hi-1, None = no such rows
    window: tuple[int, int] | None          # remaining rows of window layers
    state: int | None                       # position of the recurrent state
    checkpoints: Sequence[int]              # lengths in tokens
    spans: Sequence[Sequence[int]] = ()     # pos_min, pos_max of each checkpoint, if recorded
    index_rows: tuple[int, int] | None = None    # index rows lo .. hi-1, None = no such rows
    compressed: Sequence[CompressedRows] = ()           # in ascending order of their ratios


class CacheContents(NamedTuple):
    """Prompt cache after a request: lengths of its entries, of those added and of those removed during the request, and
    whether a load removed them."""

    lengths: Sequence[int] = ()
    saved: Sequence[int] = ()
    gone: Sequence[int] = ()
    is_consumed: bool = False


class ForeignRead(NamedTuple):
    """Data that a wrong answer read in place of its own rows at positions ``start`` .. ``stop`` - 1, or of its own
    state after ``stop`` tokens. The data belong to request ``request``: its rows from position ``theirs`` on, or its
    state after ``theirs`` tokens. ``request`` -1: to no request, because they were computed from wrong data themselves.
    ``says``: description."""

    start: int
    stop: int
    request: int
    theirs: int
    says: str


class StepRow(NamedTuple):
    """A step of a run."""

    number: int
    text: str                               # the prompt as written
    why: str                                # the step's comment
    slot: int                               # -1 = none
    words: Sequence[Word]
    stretches: Sequence[TokenStretch]
    memory: SlotMemory                      # after the step
    entries: CacheContents                  # after the step
    verdict: str                            # as in reports
    is_wrong: bool
    reason: str                             # adapters of the request, and how the tokens were reused
    rule: str                               # that decided
    read: Sequence[str]                     # descriptions of what a wrong answer read
    cache_n: int                            # tokens reused
    prompt_n: int                           # tokens evaluated
    foreign: Sequence[ForeignRead] = ()     # what a wrong answer read
    batches: Sequence[int] = ()             # first positions of the prompt's micro-batches, without the first
    held: Sequence[str] = ()                # bytes of stored objects, memory of the draft model, micro-batches in words


class Scene(NamedTuple):
    """A complete run."""

    title: str
    why: str
    profile: str
    model: str
    verdict: str
    rows: Sequence[StepRow]
    causes: Mapping[str, RuleSource] = {}       # sources of the rules that caused losses, by id
    is_recorded: bool = False                      # recorded on a real server: the server's memory is unknown
    answer: str = ""                            # verdict about the answers, in words
    cost: str = ""                              # tokens evaluated again, with the most expensive reason
    same: Sequence[str] = ()                    # other rule sets with the same outcome
    titles: Mapping[str, str] = {}              # of words
    has_pool: bool = False                          # all requests share one cache, without slots
    keeps: str = "checkpoint"                   # noun for its restore points
    state: str = "recurrent state"              # noun for what cannot be rolled back
    strips: int = 0                             # lines of index rows and of compressed rows below those of a window
    blocks: Mapping[int, Cells] = {}            # used blocks of a pool after each step, by its number
    nodes: Mapping[int, Tree] = {}              # nodes of a radix tree after each step

    @property
    def name(self) -> str:
        """The rule sets with this outcome."""
        return short_names([self.profile, *self.same])

    @property
    def fine(self) -> bool:
        """True if every answer is correct."""
        return not any(row.is_wrong for row in self.rows) and self.verdict in ("OK", "recorded")

    @property
    def length(self) -> int:
        """Number of positions to draw."""
        return max((one.stop for row in self.rows for one in row.stretches), default=1)


def scene(scenario: Scenario, data: Data, cells: CellHistory, same: Sequence[str] = ()) -> Scene:
    """Return the scene of a run; ``data`` as returned by ``run_data``; ``cells``: recorded in this run; ``same``: other
    rule sets with its outcome."""
    before = [(), *(one["entry_tokens"] for one in data["requests"])]
    rows = [_row(step, one, data, scenario, cells, _entries(one, had))
            for step, one, had in zip(scenario.steps, data["requests"], before, strict=False)]  # fmt: skip
    known = causes((charge["rule"] for charge in data["lost"]), scenario, data["profile"])
    title = cut(repr(scenario), TITLE) if scenario.id == "try" else data["title"]
    engine = registry.engine_named(scenario.engine)
    cost = ": ".join(filter(None, (cost_text(data), loss_text(data["lost"], engine.keeps))))
    return Scene(title, data["why"], data["profile"], data["model"], data["verdict"], rows, known, False,
                 answers_text(data), cost, same, data["titles"], engine.manual.pool, engine.keeps,
                 RINGS if cells.ratios else "recurrent state", cells.strips, cells.blocks,
                 cells.nodes)  # fmt: skip


def _entries(data: Data, had: Sequence[int]) -> CacheContents:
    """Return the changes of the prompt cache during a request; entries are identified by their lengths."""
    old, new = Counter[int](had), Counter[int](data["entry_tokens"])
    gone = list((old - new).elements())
    consumed = 0 < len(gone) <= data["entries_consumed"]
    return CacheContents(data["entry_tokens"], list((new - old).elements()), gone, consumed)


def _row(
    step: Step, done: Data, data: Data, scenario: Scenario, cells: CellHistory, entries: CacheContents
) -> StepRow:
    held, parts = done["tokens_cached"], cells.parts
    end = max(held, done["prompt"])
    compressed = [CompressedRows(ratio, held // ratio) for ratio in cells.ratios if held // ratio]
    memory = SlotMemory(
        (0, held) if "base" in parts and held else None, tuple(done["window"]) if done["window"] else None,
        held if held and ("state" in parts or cells.ratios) else None, done["checkpoints"], done["checkpoint_spans"],
        (0, held) if "idx" in parts and held else None, compressed,
    )  # fmt: skip
    lost = [charge for charge in data["lost"] if charge["request"] == done["i"]]
    under = f"under {done['under']}" if done["under"] else ""
    unseen = {found["what"] for found in data["predicted"] if found["request"] == done["i"]}
    keeps = engine_of(data["profile"]).keeps
    return StepRow(
        done["i"], done["text"], done["why"], done["id_slot"], list(_words(step, scenario)),
        list(_stretches(done, lost, end, keeps, PREDICTED if "charge" in unseen else "")), memory, entries,
        done["verdict"], done["equal_cold"] is False, ": ".join(filter(None, (under, done["reason"]))), done["rule"],
        [*done["read_instead"], *([PREDICTED] if "verdict" in unseen else ())], done["cache_n"], done["prompt_n"],
        [ForeignRead._make([*read, says]) for read, says in zip(done["read_from"], done["read_instead"], strict=True)],
        list(_batches(done)), [*_further(memory), *memory_parts(done)],
    )  # fmt: skip


def _further(held: SlotMemory) -> Iterator[str]:
    """Yield the index rows and the compressed rows of a slot in words."""
    if held.index_rows is not None:
        yield f"index rows {held.index_rows[0]} to {held.index_rows[1] - 1}"
    yield from (rows.says for rows in held.compressed)


def _batches(done: Data) -> Iterator[int]:
    """Yield the positions of the prompt at which a micro-batch of the model begins, without the first."""
    for batch in done["micro_batches"]:
        for slot, pos, n in batch["spans"] if batch["part"] == "target" else ():
            if slot == done["id_slot"]:
                each = range(pos, pos + n * batch["repeats"], n)
                yield from (at for at in each if first_evaluated(done) < at < done["prompt"])


def _words(step: Step, scenario: Scenario) -> Iterator[Word]:
    if not isinstance(step.asked, LineRequest):
        return
    at = 0
    for piece in step.asked.prompt:
        start, stop = span(piece, scenario.words)
        length = scenario.words[piece.word]
        title = f"image {length}" if isinstance(length, ImageSize) else ""
        yield Word(piece.word, at, at + stop - start, scenario.titles.get(piece.word, title))
        at += stop - start


def _reused_stretches(done: Data) -> Iterator[TokenStretch]:
    at = first_evaluated(done)
    stay = max(0, at - done["moved"])
    if done["kept"]:
        parts = (TokenStretch(0, stay, "kept"), TokenStretch(stay, at, "moved"))
        yield from (part for part in parts if part.stop > part.start)
    elif at:
        yield TokenStretch(0, at, "loaded" if done["loaded"] == done["cache_n"] else "restored", done["reason"])


def _stretches(done: Data, lost: Sequence[Data], end: int, keeps: str, note: str = "") -> Iterator[TokenStretch]:
    """Yield the prompt from its beginning, then the answer. Lost tokens are laid out from the last charge to the first;
    ``keeps``: noun for a restore point; ``note`` is added to each."""
    yield from _reused_stretches(done)
    at = first_evaluated(done)
    for charge in reversed(lost):
        stop = min(at + charge["tokens"], done["prompt"])
        if stop > at:
            why = ", ".join(filter(None, (what_happened(charge["event"], charge["kind"], keeps), note)))
            yield TokenStretch(at, stop, "again", why, charge["at"], charge["rule"], (charge["event"], charge["kind"]))
        at = stop
    if at < done["prompt"] and done["prompt_n"]:
        yield TokenStretch(at, done["prompt"], "evaluated")
    if end > done["prompt"] and done["status"] == 200:
        yield TokenStretch(done["prompt"], end, "generated")
