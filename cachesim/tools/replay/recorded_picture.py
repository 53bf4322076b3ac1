"""Picture of a recording of a real server: logged facts about every request, without a simulation.

Words are the ranges that prompts and answers share: a word ends at each place where a text ends or two texts diverge.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.replay.recorded_trace import Trace, TraceMember, TraceStep
from cachesim.scenarios.notation.normalise import letters
from cachesim.tools.picture.event_stream import CaptionedWalk, EventWalk, event_text
from cachesim.tools.picture.scene import CacheContents, Scene, SlotMemory, StepRow, TokenStretch, Word

NOTHING = SlotMemory(None, None, None, ())


class SimulatorDifference(NamedTuple):
    """First difference of the simulator: number of the step, and description."""

    step: int
    text: str


def recorded_scene(trace: Trace, differs: SimulatorDifference | None = None) -> Scene:
    """Return the scene of a recording."""
    texts = [tuple(one.request.prompt) for step in trace.steps for one in step.members]
    words = words_of(texts)
    rows: list[StepRow] = []
    for step in trace.steps:
        note = differs.text if differs is not None and differs.step == step.number else ""
        for one in step.members:
            rows.append(_row(one, len(rows), step, words[tuple(one.request.prompt)], note))
        if not step.members:
            rows.append(_action(step, len(rows), note))
    wrong = len(trace.inexact)
    verdict = f"{wrong} answers differ from a cold run" if wrong else "recorded"
    return Scene(trace.name, f"recorded: {trace.file.name}", trace.profile, trace.model, verdict, rows,
                 is_recorded=True, answer=verdict)  # fmt: skip


def _row(member: TraceMember, number: int, step: TraceStep, words: list[Word], note: str) -> StepRow:
    response = member.response
    reused, evaluated, made = (_count(response, name) for name in ("cache_n", "prompt_n", "predicted_n"))
    stretches = _stretches(reused, evaluated, made)
    verdict = "differs from a cold run" if member.inexact else "equal to a cold run"
    if response.get("status", 200) != 200:
        stretches, verdict = [], f"refused ({response['status']})"
    text = ".".join(word.name for word in words) or "empty prompt"
    return StepRow(
        number, text, note, _count(response, "id_slot", -1), words, stretches, NOTHING, CacheContents(), verdict,
        bool(member.inexact), note, "", [], reused, evaluated,
    )  # fmt: skip


def _stretches(reused: int, evaluated: int, made: int) -> list[TokenStretch]:
    out: list[TokenStretch] = []
    at = 0
    for origin, tokens in (("reused", reused), ("evaluated", evaluated), ("generated", made)):
        if tokens > 0:
            out.append(TokenStretch(at, at + tokens, origin, "as recorded"))
            at += tokens
    return out


def _action(step: TraceStep, number: int, note: str) -> StepRow:
    what = " ".join(filter(None, (step.action, step.file)))
    read = [note] if note else []
    return StepRow(number, what, note, step.id_slot, [], [], NOTHING, CacheContents(), "", False, note, "", read, 0, 0)


def recorded_events(trace: Trace) -> CaptionedWalk:
    """Return the events of a recording in words. A recording does not contain the server's memory at each event."""
    rows = list[int]()
    begins = list[int]()
    says = list[str]()
    for step in trace.steps:
        first = len(begins)
        begins += [len(says)] * max(1, len(step.members))
        says += [event_text(event) for event in step.events]
        rows += [first] * len(step.events)
    ends = [next((later for later in begins if later > begin), len(says)) for begin in begins]
    return CaptionedWalk(EventWalk((), rows, begins, ends, {}, {}, []), says, [False] * len(says))


def _count(response: Mapping[str, Any], name: str, otherwise: int = 0) -> int:
    value = response.get(name)
    return value if isinstance(value, int) else otherwise


def words_of(texts: Sequence[Tokens]) -> dict[Tokens, list[Word]]:
    """Return the words of each text. A word ends where the text ends, before it diverges from another text, and where
    another text ends. Equal tokens after equal tokens have the same name in every text."""
    every = sorted(set(texts))
    shared = [common_prefix(a, b) for a, b in pairwise(every)]           # further away: the minimum between
    cuts = {text: {len(text), *accumulate(shared[:i][::-1], min), *accumulate(shared[i:], min)}
            for i, text in enumerate(every)}  # fmt: skip
    names: dict[Tokens, str] = {}
    out: dict[Tokens, list[Word]] = {}
    for text in texts:
        edges = sorted(cuts[text] - {0})
        out[text] = [Word(names.setdefault(text[:stop], letters(len(names))), start, stop)
                     for start, stop in zip([0, *edges], edges, strict=False)]  # fmt: skip
    return out
