"""Line of a log under the assumption that a client sends its history again with each request.

A log contains no text. Where a prompt differs from the contents of its slot, what follows in it is unknown, and the
reconstruction has a new word there. This module assumes instead that ``changed`` tokens differ, that the rest of the
earlier prompt and its answer follow unchanged, and that new text is only at the end. The simulated server evaluates the
same tokens for both lines; only with the assumed line can a repaired conversation be simulated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import AbstractSet, Iterator, Mapping

from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.notation.normalise import letters
from cachesim.scenarios.notation.tree import LineRequest, ScenarioLine
from cachesim.scenarios.notation.word_lengths import span
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.schema import Scenario
from cachesim.tools.advise.case_facts import NOTHING_KNOWN, CaseFacts
from cachesim.tools.advise.saved_tokens import RepairCase
from cachesim.tools.request_bodies.report import request_numbers
from cachesim.tools.server_logs.facts.client_changes import NEAR
from cachesim.tools.server_logs.rebuild.kept_history import pieces_of
from cachesim.tools.server_logs.rebuild.reconstruction import ReconstructedRequest, Reconstruction
from cachesim.tools.server_logs.rebuild.slot_contents import SlotText, WordRange

MODE = "provenance"
CHANGED = (8, 1, 64)
"""Assumed tokens of a text that changes each time: of a date, then the least and the most for the range of savings."""
EXCLUDED = frozenset({"unchanged history", "constant order", "mark messages"})
"""Changes that a log does not support: it contains neither texts nor marks of messages."""


def repair_case(found: Reconstruction, facts: CaseFacts = NOTHING_KNOWN) -> RepairCase | None:
    """Return the conversation of a log for a search of repairs, with assumed texts where requests differ from the
    contents of their slot at the same place. None if the simulation contradicts the log, or if it has other requests
    than the log: some that were left out, or some before the log begins. ``facts``: what the log shows about its
    server. Raise BadInput if the scenario cannot run."""
    known = [request.step >= 0 and request.is_bounded for request in found.requests]
    others = not known or not all(known) or len(known) != len(found.line.split("/"))
    if others or found.is_rejected:
        return None
    steps = _changing(found)
    cases = [case for changed in CHANGED if (case := _assumed(found, steps, changed)) is not None]
    if not steps or not cases:
        return RepairCase(found.scenario, excluded=EXCLUDED, facts=facts)
    at = sorted({request.lcp for request in found.requests if request.step in steps})
    where = f"{at[0]:,}" if at[0] == at[-1] else f"{at[0]:,} to {at[-1]:,}"
    assumes = f"{request_numbers(sorted(steps))} differ from the earlier prompt only in {CHANGED[0]} tokens after " \
              f"token {where} and in new text at the end"  # fmt: skip
    varied = f"{min(CHANGED)} to {max(CHANGED)} tokens"
    return RepairCase(
        scenario=cases[0],
        assumes=assumes,
        variants=tuple(cases[1:]),
        varied=varied,
        excluded=EXCLUDED,
        facts=replace(facts, texts=assumes),
    )


def _changing(found: Reconstruction) -> set[int]:
    """Return the requests, by step, that differ from the contents of their slot at about the same token as another
    request: their client changes a text there each time."""
    inside = [request for request in found.requests if _inside(request)]
    times = Counter(request.lcp // NEAR for request in inside)
    return {request.step for request in inside if times[request.lcp // NEAR] > 1}


def _inside(request: ReconstructedRequest) -> bool:
    """True if a request differs from the contents of its slot within the earlier prompt, and nothing in the slot
    was moved."""
    logged = request.logged
    moved = logged.shifts or logged.chunks or logged.truncated
    return request.step >= 0 and not moved and 0 < request.lcp < request.before.prompt - max(CHANGED)


def _assumed(found: Reconstruction, steps: AbstractSet[int], changed: int) -> Scenario | None:
    """Return the scenario of a log with assumed texts in these steps, None if the simulated server then evaluates other
    tokens."""
    scenario = found.scenario
    texts = _assumed_texts(found, scenario.line, steps, changed)
    if not texts:
        return None
    want = [request.n_tokens - request.simulated_n for request in found.requests
            if request.n_tokens is not None and request.simulated_n is not None]  # fmt: skip
    assumed = _scenario(scenario, found, texts)
    run = run_judged(assumed, assumed.profiles[0], MODE, with_ledger=False)
    return assumed if [one.answer.prompt_n for one in run.requests] == want else None


def _assumed_texts(
    found: Reconstruction, line: ScenarioLine, steps: AbstractSet[int], changed: int
) -> dict[int, SlotText]:
    """Return the assumed text after the common prefix of these requests, by step: differing tokens, what follows in the
    earlier prompt and its answer, and new tokens. Requests that are too short for it have none."""
    names = _new_names(line)
    made: dict[str, SlotText] = {}
    texts: dict[int, SlotText] = {}
    for request in found.requests:
        word = _new_word(request, line)
        if not word or request.step not in steps:
            continue
        before = _expanded(request.before, line, made)
        history = SlotText().append_piece(before, request.lcp + changed, before.size)
        new = line.words[word] - changed - history.size
        if new < 1:
            continue
        text = SlotText().append_word(next(names), changed)
        text = text._replace(parts=(*text.parts, *history.parts))
        made[word] = texts[request.step] = text.append_word(next(names), new)
    return texts


def _new_word(request: ReconstructedRequest, line: ScenarioLine) -> str:
    """Return the word at the end of a prompt that occurs there for the first time, "" if there is none. The request is
    a step of the line."""
    *before, step = _requests(line)[: request.step + 1]
    earlier = {piece.word for one in before for piece in (*one.prompt, *(one.answer or ()))}
    word = step.prompt[-1].word
    return "" if word in earlier else word


def _requests(line: ScenarioLine) -> list[LineRequest]:
    """Return the steps of a line, which are all requests in the line of a log."""
    return [step for step in line.steps if isinstance(step, LineRequest)]


def _expanded(text: SlotText, line: ScenarioLine, made: Mapping[str, SlotText]) -> SlotText:
    """Return a text with assumed words replaced by their texts. The last token of an answer, which a slot does not
    hold, is added."""
    out = SlotText((), text.prompt)
    for number, part in enumerate(text.parts):
        last = number == len(text.parts) - 1 and part.start + part.take == line.words[part.word] - 1
        stop = part.start + part.take + last
        whole = made.get(part.word) or SlotText((WordRange(part.word, line.words[part.word], line.words[part.word]),))
        out = out.append_piece(whole, part.start, stop)
    return out


def _new_names(line: ScenarioLine) -> Iterator[str]:
    """Yield names that no word of the line has."""
    return (name for name in map(letters, count()) if name not in line.words)


def _scenario(scenario: Scenario, found: Reconstruction, texts: Mapping[int, SlotText]) -> Scenario:
    """Return the scenario with the assumed texts; its user messages begin at the same tokens."""
    line, made = scenario.line, dict[str, SlotText]()
    for request in found.requests:
        if request.step in texts:
            made[_new_word(request, line)] = texts[request.step]
    steps, used = [], dict[str, int]()
    for number, step in enumerate(_requests(line)):
        prompt = SlotText()
        for piece in step.prompt:
            start, stop = span(piece, line.words)
            size = line.words[piece.word]
            prompt = prompt.append_piece(made.get(piece.word) or SlotText((WordRange(piece.word, size, size),)),
                                         start, stop)  # fmt: skip
        steps.append(step._replace(prompt=pieces_of(prompt, scenario.steps[number].request.user_starts)))
        used.update({part.word: part.full for part in prompt.parts})
        used.update({piece.word: line.words[piece.word] for piece in step.answer or ()})
    return replace(scenario, words=used, steps=make_steps(steps, used, scenario.server))
