"""Change of the client in a log: requests that differ from the contents of their slot continue them instead.

A log contains no text. The changed request sends what its slot held, unchanged, and then its own text after the common
prefix: all of that text if it is new (the least saving), or only the tokens by which it is longer than the slot's
contents if the rest repeats these (the largest saving). Requests that continue a changed request continue it as it is
sent then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import AbstractSet, Iterator, NamedTuple, Sequence

from cachesim.scenarios.notation.tree import LineRequest, Piece, Pieces, ScenarioLine
from cachesim.scenarios.notation.word_lengths import span
from cachesim.tools.server_logs.rebuild.reconstruction import ReconstructedRequest, Reconstruction
from cachesim.tools.server_logs.rebuild.slot_contents import SlotText, WordRange


class _SentPrompt(NamedTuple):
    """Prompt of a request as sent and as changed. ``same``: tokens at the beginning of the sent prompt that the changed
    one has at the same place; the tokens after them are later by ``later``. ``marks``: tokens of the changed prompt at
    which user messages begin."""

    sent: SlotText
    changed: SlotText
    answer: SlotText
    same: int
    marks: tuple[int, ...] = ()

    @property
    def is_changed(self) -> bool:
        """True if the changed prompt has other tokens."""
        return not _is_same(self.sent, self.changed)

    @property
    def later(self) -> int:
        """Number of tokens by which the changed prompt is longer."""
        return self.changed.size - self.sent.size

    @property
    def left(self) -> SlotText:
        """What the request as sent leaves in its slot: prompt and answer without its last token."""
        return _joined(self.sent, self.answer.prefix(self.answer.size - 1))

    def prefix(self, tokens: int) -> tuple[SlotText, tuple[int, ...]]:
        """Return the first ``tokens`` tokens of prompt and answer as changed, and the marks in them."""
        more = tokens + self.later
        text = _joined(self.changed, self.answer).prefix(more)
        return text, tuple(mark for mark in self.marks if mark < more)


@dataclass
class KeptHistory:
    """Change of the requests with these ``steps``. ``repeats``: the text after the difference repeats what the slot
    held, as far as it is long enough. Calling it returns the changed line of the log, whatever line it is given; None
    if it has no effect."""

    found: Reconstruction
    steps: AbstractSet[int]
    repeats: bool = False
    _prompts: dict[int, _SentPrompt] = field(default_factory=dict)

    def __call__(self, line: ScenarioLine) -> ScenarioLine | None:
        scenario = self.found.scenario
        line, self._prompts = scenario.line, {}
        requests = {request.step: request for request in self.found.requests}
        steps = list[LineRequest]()
        for number, step in enumerate(line.steps):
            if not isinstance(step, LineRequest):
                return None
            marks = tuple(scenario.steps[number].request.user_starts)
            sent = _text(step.prompt, line)
            answer = _text(step.answer or (), line)
            prompt = self._prompt(number, sent, answer, marks=marks, requests=requests)
            if prompt is None:
                return None
            self._prompts[number] = prompt
            steps.append(step._replace(prompt=pieces_of(prompt.changed, prompt.marks)))
        is_changed = any(prompt.is_changed for prompt in self._prompts.values())
        return line._replace(steps=tuple(steps)) if is_changed else None

    def _prompt(
        self, number: int, sent: SlotText, answer: SlotText, marks: tuple[int, ...],
        requests: dict[int, ReconstructedRequest],
    ) -> _SentPrompt | None:
        """Return the prompt of a request. None if it is one of the changed and its slot held what no request left."""
        request = requests.get(number)
        if number in self.steps and request is not None:
            before = next((one for one in reversed(self._prompts.values()) if _is_same(one.left, request.before)), None)
            if before is None:
                return None
            history, begun = before.prefix(before.left.size)
            own = sent.size - request.lcp
            if self.repeats and sent.size > request.before.size:
                own = sent.size - request.before.size
            at, same = sent.size - own, request.lcp
        else:
            before = max(self._prompts.values(), key=lambda one: _common(_joined(one.sent, one.answer), sent),
                         default=None)  # fmt: skip
            at = 0 if before is None else _common(_joined(before.sent, before.answer), sent)
            if before is None or not before.is_changed or at <= before.same:
                return _SentPrompt(sent=sent, changed=sent, answer=answer, same=sent.size, marks=marks)
            history, begun = before.prefix(at)
            same = before.same
        changed = history.append_piece(sent, at, sent.size)
        later = changed.size - sent.size
        own_marks = tuple(mark + later for mark in marks if mark >= at)
        return _SentPrompt(sent=sent, changed=changed, answer=answer, same=same, marks=(*begun, *own_marks))


def _text(pieces: Pieces, line: ScenarioLine) -> SlotText:
    """Return pieces as ranges of words."""
    text = SlotText()
    for piece in pieces:
        start, stop = span(piece, line.words)
        size = line.words[piece.word]
        text = text.append_piece(SlotText((WordRange(piece.word, size, size),)), start, stop)
    return SlotText(tuple(_merged(text.parts)), text.size)


def _joined(text: SlotText, more: SlotText) -> SlotText:
    return SlotText(tuple(_merged((*text.parts, *more.parts))), text.prompt)


def _merged(parts: Sequence[WordRange]) -> Iterator[WordRange]:
    """Yield ranges in which neighbours that continue each other are one."""
    last: WordRange | None = None
    for part in parts:
        if last is not None and last.word == part.word and last.start + last.take == part.start:
            last = last._replace(take=last.take + part.take)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def _is_same(a: SlotText, b: SlotText) -> bool:
    """True if two texts have the same tokens."""
    return a.size == b.size and _common(a, b) == a.size


def _common(a: SlotText, b: SlotText) -> int:
    """Return the number of tokens in the common prefix of two texts. Words of different names have no common tokens."""
    common = 0
    for one, other in zip_longest(_merged(a.parts), _merged(b.parts)):
        if one is None or other is None or (one.word, one.start) != (other.word, other.start):
            return common
        common += min(one.take, other.take)
        if one.take != other.take:
            return common
    return common


def pieces_of(text: SlotText, marks: Sequence[int]) -> Pieces:
    """Return a text as pieces; user messages begin at the tokens ``marks``."""
    out: list[Piece] = []
    at = 0
    for part in text.parts:
        inside = [part.start + mark - at for mark in marks if at < mark < at + part.take]
        cuts = [part.start, *inside, part.start + part.take]
        for low, high in pairwise(cuts):
            stop = None if high == part.full else high
            out.append(Piece(part.word, at + low - part.start in marks, low or None, stop))
        at += part.take
    return tuple(out)
