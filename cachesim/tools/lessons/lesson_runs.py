"""Runs that a lesson shows: the events that its steps name, and the memory at an event as text."""

from __future__ import annotations

from textwrap import wrap
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.registry import profiles
from cachesim.scenarios.corpus import named
from cachesim.scenarios.load import load as load_file
from cachesim.tools.lessons.lesson_files import Lesson, LessonStep, RunShown
from cachesim.tools.lessons.terminal_lesson import WIDTH
from cachesim.tools.picture.event_sentences import at_event, minus, slot_change
from cachesim.tools.picture.event_stream import CaptionedWalk, SlotContents, Span
from cachesim.tools.picture.scene import Scene
from cachesim.tools.run.pictured_runs import run_pictured

WIDE = 44                    # characters of a bar of rows
SIGNS = "(> an event, and the memory then: = kept, + written, x erased, * state)"


class LessonRun(NamedTuple):
    """A run with its scene and its event log."""

    shown: RunShown
    scene: Scene
    log: CaptionedWalk

    def event(self, step: LessonStep) -> int:
        """Return the event that a step names. Raise BadInput if there is none."""
        for k, says in enumerate(self.log.says):
            if self.log.walk.rows[k] == step.request and step.says in says:
                return k
        raise BadInput(f"run {step.run}, request {step.request}: no event says {step.says!r}")

    @property
    def length(self) -> int:
        """Number of positions that the memory ever had."""
        held = [one for changes in self.log.walk.held.values() for _, one in changes]
        ends = (high for one in held for _, high in (*one.rows, *one.window))
        return max([1, *ends, *(one.state or 0 for one in held)])


def lesson_runs(lesson: Lesson) -> dict[str, LessonRun]:
    """Run what a lesson shows; by name."""
    known = profiles().keys()             # only the engine of the lesson is imported
    found = {}
    for shown in (one for some in lesson.runs.values() for one in some):
        scenario = load_file(named(shown.case), known)
        run = run_pictured(scenario, shown.profile, events=True)
        log = run.told()
        assert log is not None                  # a lesson's run is complete
        found[shown.name] = LessonRun(shown, run.scene(), log)
    return found


def step_lines(run: LessonRun, step: LessonStep) -> list[str]:
    """Return an event as text: its sentence, the slots, and the prompt cache."""
    walk, k = run.log.walk, run.event(step)
    before = next((at for at in range(k - 1, -1, -1) if run.log.says[at]), 0)
    rule, colon, decision = run.log.says[k].partition(": ")
    says = f"{decision} ({rule})" if run.log.decisions[k] and colon else run.log.says[k]
    says = f"{run.shown.name}, request {step.request}: {says}"
    out = wrap(says, WIDTH, initial_indent="> ", subsequent_indent="  ", break_on_hyphens=False)
    unit = -(-run.length // WIDE)
    for slot in walk.held:
        lines = _slot(*slot_change(walk, slot, before, k), unit)
        out += [f"  {'' if number else f'slot {slot}':8}{line}"[:WIDTH] for number, line in enumerate(lines)]
    entries, had = (at_event(walk.entries, at, ()) for at in (k, before))
    each = [f"{tokens}{' (new)' * ((column, tokens) not in had)}" for column, tokens in entries]
    each += [f"{tokens} (removed)" for column, tokens in had if (column, tokens) not in entries]
    return out + [f"  prompt cache: entries of {', '.join(each)} tokens"] * bool(each)


def _slot(was: SlotContents, now: SlotContents, unit: int) -> Iterator[str]:
    for name, old, new in (("rows", was.rows, now.rows), ("window", was.window, now.window)):
        if old or new:
            yield f"{name:12}{_bar(old, new, unit)}  {_ranges(new)}"
    if now.state is not None:
        yield f"{'state':12}{' ' * (now.state // unit)}*  after {now.state}"
    if now.checkpoints:
        lengths = [one[0] for one in now.checkpoints]
        places = {length // unit for length in lengths}
        marks = "".join("^" if at in places else " " for at in range(max(places) + 1))
        first, *more = wrap(f"{marks.replace(' ', '_')}  of {', '.join(map(str, lengths))}", WIDTH - 22)
        yield f"{'checkpoints':12}{first.replace('_', ' ')}"
        yield from (f"{'':12}{line}" for line in more)


def _bar(old: Sequence[Span], new: Sequence[Span], unit: int) -> str:
    """Return rows as characters of ``unit`` positions: ``=`` kept, ``+`` written and ``x`` erased at this event."""
    signs: dict[int, str] = {}
    for sign, spans in (("=", new), ("x", minus(old, new)), ("+", minus(new, old))):
        signs |= {at: sign for low, high in spans for at in range(low // unit, -(-high // unit))}
    return "".join(signs.get(at, " ") for at in range(max(signs, default=-1) + 1))


def _ranges(spans: Sequence[Span]) -> str:
    return ", ".join(f"{low} to {high - 1}" for low, high in spans) or "none"
