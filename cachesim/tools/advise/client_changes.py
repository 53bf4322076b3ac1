"""The client sends its history as it was: what changes is put last, and answers stay whole.

Both are changes of a line. A prompt that goes on from an earlier one is told again with what that one has become.
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.capabilities import Load, Manual
from cachesim.scenarios.notation.normalise import split
from cachesim.scenarios.notation.tree import PLAIN, Asked, Pieces, ScenarioLine, texts
from cachesim.scenarios.notation.word_lengths import predicted, prompt_size

# Which requests of a line go on with which earlier ones?

NOBODY = -1


class RequestPieces(NamedTuple):
    """The pieces of a request without their marks, those of a chat one after the other, and those of its answer."""

    prompt: Pieces
    answer: Pieces


def said(step: Asked) -> RequestPieces:
    """What is said in a request."""
    prompt = (*step.prompt, *(piece for _, text in step.chat for piece in text))
    return RequestPieces(bare(prompt), bare(step.answer or ()))


def bare(pieces: Pieces) -> Pieces:
    """Pieces without the marks of user messages."""
    return tuple(piece._replace(user=False) for piece in pieces)


def requests(line: ScenarioLine) -> Iterator[tuple[int, Asked]]:
    """The requests of a line with their numbers."""
    return ((i, step) for i, step in enumerate(line.steps) if isinstance(step, Asked))


def parents(line: ScenarioLine) -> dict[int, int]:
    """For each request the earlier one with the longest prompt that it begins with, ``NOBODY`` where there is none."""
    found: dict[int, int] = {}
    told: dict[int, RequestPieces] = {}
    for i, step in requests(line):
        mine = said(step)
        fits = [k for k, other in told.items() if other.prompt and mine.prompt[: len(other.prompt)] == other.prompt]
        found[i] = max(fits, key=lambda k: (len(told[k].prompt), k), default=NOBODY)
        told[i] = mine
    return found


def conversations(line: ScenarioLine) -> dict[int, int]:
    """The conversation of each request: they are numbered in the order in which they begin."""
    found: dict[int, int] = {}
    for i, parent in parents(line).items():
        found[i] = found[parent] if parent != NOBODY else len(set(found.values()))
    return found


def load_of(line: ScenarioLine) -> Load:
    """What a line demands of a server."""
    longest: dict[int, int] = {}
    of = conversations(line)
    for i, step in requests(line):
        tokens = prompt_size(step, line.words) + max(0, predicted(step, line.words))
        longest[of[i]] = max(longest.get(of[i], 0), tokens)
    return Load(max(longest.values(), default=0), sum(longest.values()), len(longest))


def common(lists: Sequence[Pieces]) -> int:
    """How many pieces all lists begin with."""
    first = min(lists, key=len, default=())
    return next((i for i, piece in enumerate(first) if any(other[i] != piece for other in lists)), len(first))


# What can a client do? Changes of a line, each only where the line shows the pattern that it is for.

class ClientChange(NamedTuple):
    """A change of what the client sends: its name, what the client does then, and the change, which returns None where
    there is nothing to change. ``needs``: the fields of a request that the server must look at."""

    name: str
    text: str
    change: Callable[[ScenarioLine], ScenarioLine | None]
    needs: str = ""


def _every(change: Callable[[Asked], Asked]) -> Callable[[ScenarioLine], ScenarioLine | None]:
    """The same change of every request."""

    def all_of(line: ScenarioLine) -> ScenarioLine | None:
        return with_requests(line, {i: change(step) for i, step in requests(line)})

    return all_of


def pinned(slots: int) -> Callable[[ScenarioLine], ScenarioLine | None]:
    """Each conversation has a slot of its own, as far as there are so many."""

    def pin(line: ScenarioLine) -> ScenarioLine | None:
        of = conversations(line)
        if len(set(of.values())) < 2:
            return None
        return with_requests(line, {i: step._replace(id_slot=of[i] % slots) for i, step in requests(line)})

    return pin


def warmed(line: ScenarioLine) -> ScenarioLine | None:
    """The text that all conversations begin with is sent once, by itself, before them."""
    line = uncut(line)
    steps, of = dict(requests(line)), parents(line)
    heads = [steps[i].prompt for i, parent in of.items() if parent == NOBODY]
    if len(heads) < 2 or any(step.chat for step in steps.values()):
        return None
    n = common([bare(text) for text in heads])
    if not n or any(len(text) == n for text in heads):
        return None
    return line._replace(steps=(PLAIN._replace(prompt=heads[0][:n]), *line.steps))


def own_slots(slots: int) -> ClientChange:
    """Each conversation names a slot of its own, of so many."""
    return ClientChange("id_slot", "give each conversation a slot of its own (id_slot)", pinned(slots), "id_slot")


def client_changes(manual: Manual) -> Iterator[ClientChange]:
    """What a client of this server could do whatever its options, from cheap to dear."""
    changes = [
        ClientChange("cache_prompt", "send cache_prompt true", _every(lambda one: one._replace(cache_prompt=True))),
        ClientChange("no seed", "send no seed, so that requests are batched",
                     _every(lambda one: one._replace(seed=False)), "seed"),
        ClientChange("keep the answer", "send every answer back whole, its reasoning too", keep_answers),
        ClientChange("changing part last", "put the part that changes behind everything that stays", changing_last),
        ClientChange("one after another", "wait for an answer before the next request is sent",
                     _every(lambda one: one._replace(together=False, after=0))),
        ClientChange("no id_slot", "name no slot (id_slot)", _every(lambda one: one._replace(id_slot=-1)), "id_slot"),
        ClientChange("mark messages", "send messages (/v1/chat/completions), so that user messages are marked", marked,
                     "user_starts"),
        ClientChange("warm up", "send the text that all conversations begin with once, before them", warmed),
    ]  # fmt: skip
    return (one for one in changes if not one.needs or one.needs in manual.takes)


Steps = dict[int, Asked]


def uncut(line: ScenarioLine) -> ScenarioLine:
    """The line without slices, so that what was left out of a word is a word."""
    cut = any(piece[2:] != (None, None) for step in line.steps for text in texts(step) for piece in text)
    return split(line) if cut else line


def with_requests(line: ScenarioLine, changed: Mapping[int, Asked]) -> ScenarioLine | None:
    """The line with other requests in these places, None where they are no others."""
    steps = tuple(changed.get(i, step) for i, step in enumerate(line.steps))
    return None if steps == line.steps else line._replace(steps=steps)


def keep_answers(line: ScenarioLine) -> ScenarioLine | None:
    """Every answer stands whole in the prompts that go on from it; None where it does already.

    What follows an earlier prompt is compared with its answer: pieces in the answer's order, of which some are missing,
    are the answer without its reasoning.
    """
    line = uncut(line)
    told: Steps = dict(requests(line))
    new: Steps = {}
    mended = False
    for i, parent in parents(line).items():
        step = told[i]
        if parent == NOBODY or told[parent].answer is None:
            new[i] = step
            continue
        new[i], better = (_chat if step.chat else _prompt)(told, new, i, parent)
        mended = mended or better
    return with_requests(line, new) if mended else None


def _prompt(told: Steps, new: Steps, i: int, parent: int) -> tuple[Asked, bool]:
    """A request with the whole answer of its parent, and whether that was not whole before; the same of a chat."""
    step, answer = told[i], told[parent].answer or ()
    rest = step.prompt[len(told[parent].prompt) :]
    kept = _kept(bare(rest), bare(answer))
    if not kept:
        return step._replace(prompt=(*new[parent].prompt, *rest)), False
    return step._replace(prompt=(*new[parent].prompt, *answer, *rest[kept:])), kept < len(answer)


def _chat(told: Steps, new: Steps, i: int, parent: int) -> tuple[Asked, bool]:
    step, answer, n = told[i], told[parent].answer or (), len(told[parent].chat)
    rest = step.chat[n:]
    if step.chat[:n] != told[parent].chat:
        return step, False
    kept = _kept(bare(rest[0][1]), bare(answer)) if rest and rest[0][0] == "assistant" else 0
    if not kept or kept < len(rest[0][1]):
        return step._replace(chat=(*new[parent].chat, *rest)), False
    return step._replace(chat=(*new[parent].chat, ("assistant", answer), *rest[1:])), kept < len(answer)


def _kept(rest: Pieces, answer: Pieces) -> int:
    """How many pieces of ``rest`` are pieces of the answer in its order."""
    left = list(answer)
    for n, piece in enumerate(rest):
        if piece not in left:
            return n
        left = left[left.index(piece) + 1 :]
    return len(rest)


def changing_last(line: ScenarioLine) -> ScenarioLine | None:
    """What stands in the middle of a prompt and is another text there than in an earlier one, is put at its end; None
    where there is no such thing.

    Two prompts part, each says something else, and then both go on with the same text: what is between is what changes
    (a date, a status). No answer is moved.
    """
    line = uncut(line)
    answers = {piece.word for _, step in requests(line) for text in texts(step._replace(prompt=(), chat=()))
               for piece in text}  # fmt: skip
    moving: set[str] = set()
    before: list[Pieces] = []
    for _, step in requests(line):
        text = said(step).prompt
        if before:
            moving |= _between(max(before, key=lambda other: common((other, text))), text)
        before.append(text)
    moving -= answers
    return _told_last(line, moving) if moving else None


def _between(old: Pieces, new: Pieces) -> set[str]:
    """Words of the stretch in which two texts differ, if both go on with the same piece behind it."""
    n = common((old, new))
    for i, piece in enumerate(new[n:]):
        if piece in old[n:]:
            return {one.word for one in (*new[n : n + i], *old[n : n + old[n:].index(piece)])} if i else set()
    return set()


def _told_last(line: ScenarioLine, moving: set[str]) -> ScenarioLine | None:
    def last(text: Pieces) -> Pieces:
        return (*(one for one in text if one.word not in moving), *(one for one in text if one.word in moving))

    new = {}
    for i, step in requests(line):
        if step.chat:
            moved = tuple(piece for _, text in step.chat for piece in text if piece.word in moving)
            chat = [(role, tuple(one for one in text if one.word not in moving)) for role, text in step.chat]
            chat[-1] = (chat[-1][0], (*chat[-1][1], *moved))
            new[i] = step._replace(chat=tuple((role, text) for role, text in chat if text))
        else:
            new[i] = step._replace(prompt=last(step.prompt))
    return with_requests(line, new)


def marked(line: ScenarioLine) -> ScenarioLine | None:
    """Where no user message is marked: every piece behind the first that is no part of an answer begins one. None where
    there are marks, or a chat."""
    steps = dict(requests(line))
    if any(step.chat or any(piece.user for piece in step.prompt) for step in steps.values()):
        return None
    answers = {piece.word for step in steps.values() for piece in step.answer or ()}

    def mark(text: Pieces) -> Pieces:
        return tuple(one._replace(user=i > 0 and one.word not in answers and one.start in (None, 0))
                     for i, one in enumerate(text))  # fmt: skip

    return with_requests(line, {i: step._replace(prompt=mark(step.prompt)) for i, step in steps.items()})
