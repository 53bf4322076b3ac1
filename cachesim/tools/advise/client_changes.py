"""Client changes: ways to send the requests of a line so that more of them can be reused.

Each change rewrites a line. Prompts that continue a changed prompt are rewritten accordingly.
"""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple

from cachesim.engines.capabilities import Manual, ServerLoad
from cachesim.scenarios.notation.tree import PLAIN, LineRequest, Pieces, ScenarioLine
from cachesim.scenarios.notation.word_lengths import predicted, prompt_size
from cachesim.tools.advise.changed_middle import move_changing_last, send_unchanged, sort_parts
from cachesim.tools.advise.line_pieces import (
    RequestPieces,
    Steps,
    bare,
    common,
    requests,
    said,
    with_requests,
    without_slices,
)

# Continuations: which requests of a line continue which earlier requests.

NOBODY = -1


def parents(line: ScenarioLine) -> dict[int, int]:
    """Map each request to the earlier request with the longest prompt that it begins with, or ``NOBODY``."""
    found: dict[int, int] = {}
    told: dict[int, RequestPieces] = {}
    for i, step in requests(line):
        mine = said(step)
        fits = [k for k, other in told.items() if other.prompt and mine.prompt[: len(other.prompt)] == other.prompt]
        found[i] = max(fits, key=lambda k: (len(told[k].prompt), k), default=NOBODY)
        told[i] = mine
    return found


def conversations(line: ScenarioLine) -> dict[int, int]:
    """Map each request to its conversation; conversations are numbered in the order of their first requests."""
    found: dict[int, int] = {}
    for i, parent in parents(line).items():
        found[i] = found[parent] if parent != NOBODY else len(set(found.values()))
    return found


def load_of(line: ScenarioLine) -> ServerLoad:
    """Return the load of a line: its longest conversation, all conversations together (tokens), their number."""
    longest: dict[int, int] = {}
    of = conversations(line)
    for i, step in requests(line):
        tokens = prompt_size(step, line.words) + max(0, predicted(step, line.words))
        longest[of[i]] = max(longest.get(of[i], 0), tokens)
    return ServerLoad(max(longest.values(), default=0), sum(longest.values()), len(longest))


# Changes that a client can make. Each applies only if the line shows the pattern that it addresses.

class ClientChange(NamedTuple):
    """A change of the client's requests: name, description, and the function, which returns None if it has no effect.
    ``needs``: a field of requests that the server must support. ``assumes``: what it takes for granted about texts and
    fields, which a log without bodies does not show, as a clause; ``is_of_log``: the clause holds whatever texts are
    assumed for the case."""

    name: str
    text: str
    change: Callable[[ScenarioLine], ScenarioLine | None]
    needs: str = ""
    assumes: str = ""
    is_of_log: bool = False


def _every(change: Callable[[LineRequest], LineRequest]) -> Callable[[ScenarioLine], ScenarioLine | None]:
    """Return a line change that applies ``change`` to every request."""

    def all_of(line: ScenarioLine) -> ScenarioLine | None:
        return with_requests(line, {i: change(step) for i, step in requests(line)})

    return all_of


def pinned(slots: int) -> Callable[[ScenarioLine], ScenarioLine | None]:
    """Return the change that assigns each conversation its own slot, modulo ``slots``."""

    def pin(line: ScenarioLine) -> ScenarioLine | None:
        of = conversations(line)
        if len(set(of.values())) < 2:
            return None
        return with_requests(line, {i: step._replace(id_slot=of[i] % slots) for i, step in requests(line)})

    return pin


def warmed(line: ScenarioLine) -> ScenarioLine | None:
    """Send the common prefix of all conversations once, alone, before them."""
    line = without_slices(line)
    steps, of = dict(requests(line)), parents(line)
    heads = [steps[i].prompt for i, parent in of.items() if parent == NOBODY]        # that of a chat is empty
    n = common([bare(text) for text in heads])
    if not n or any(len(text) == n for text in heads):
        return None
    return line._replace(steps=(PLAIN._replace(prompt=heads[0][:n]), *line.steps))


def own_slots(slots: int) -> ClientChange:
    """Return the change that assigns each conversation its own slot of ``slots``."""
    return ClientChange("id_slot", "give each conversation a slot of its own (id_slot)", pinned(slots), "id_slot",
                        "prompts that do not continue each other belong to different conversations")  # fmt: skip


def client_changes(manual: Manual) -> Iterator[ClientChange]:
    """Yield the client changes that this server supports, whatever its options, in order of cost."""
    changes = [
        ClientChange("cache_prompt", "send cache_prompt true", _every(lambda one: one._replace(cache_prompt=True)),
                     assumes="the request had cache_prompt = false"),
        ClientChange("no seed", "send no seed, so that requests are batched",
                     _every(lambda one: one._replace(seed=False)), "seed"),
        ClientChange("keep the answer", "send every answer back whole, including its reasoning", keep_answers,
                     assumes="the prompts lack a part of the answers before them"),
        ClientChange("changing part last", "put the changing part after everything that stays the same",
                     move_changing_last, assumes="the text that differs is the same text with another content"),
        ClientChange("unchanged history", "send everything that was sent before unchanged", send_unchanged),
        ClientChange("constant order", "send the tools, and other lists, in a constant order (sort them)", sort_parts),
        ClientChange("one after another", "wait for each answer before sending the next request",
                     _every(lambda one: one._replace(together=False, after=0))),
        ClientChange("no id_slot", "name no slot (id_slot)", _every(lambda step: step._replace(id_slot=-1)), "id_slot"),
        ClientChange("mark messages", "use /v1/chat/completions, so that user messages are marked", marked,
                     "user_starts"),
        ClientChange("warm up", "send the shared beginning once before the conversations start", warmed,
                     assumes="prompts that do not continue each other belong to different conversations"),
    ]  # fmt: skip
    return (one for one in changes if not one.needs or one.needs in manual.takes)


def keep_answers(line: ScenarioLine) -> ScenarioLine | None:
    """Insert the whole answer into every prompt that continues it; None if all are whole already.

    The text after the earlier prompt is compared with its answer. If it is a subsequence of the answer's pieces, it is
    the answer without its reasoning.
    """
    line = without_slices(line)
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


def _prompt(told: Steps, new: Steps, i: int, parent: int) -> tuple[LineRequest, bool]:
    """Return a request with the whole answer of its parent, and True if the answer was incomplete before."""
    step, answer = told[i], told[parent].answer or ()
    rest = step.prompt[len(told[parent].prompt) :]
    kept = _kept(bare(rest), bare(answer))
    if not kept:
        return step._replace(prompt=(*new[parent].prompt, *rest)), False
    return step._replace(prompt=(*new[parent].prompt, *answer, *rest[kept:])), kept < len(answer)


def _chat(told: Steps, new: Steps, i: int, parent: int) -> tuple[LineRequest, bool]:
    """Return a chat with the whole answer of its parent, and True if the answer was incomplete before."""
    step = told[i]
    answer = told[parent].answer or ()
    n = len(told[parent].chat)
    rest = step.chat[n:]
    if step.chat[:n] != told[parent].chat:
        return step, False
    kept = _kept(bare(rest[0][1]), bare(answer)) if rest and rest[0][0] == "assistant" else 0
    if not kept or kept < len(rest[0][1]):
        return step._replace(chat=(*new[parent].chat, *rest)), False
    return step._replace(chat=(*new[parent].chat, ("assistant", answer), *rest[1:])), kept < len(answer)


def _kept(rest: Pieces, answer: Pieces) -> int:
    """Return the length of the longest beginning of ``rest`` that is a subsequence of the answer."""
    left = list(answer)
    for n, piece in enumerate(rest):
        if piece not in left:
            return n
        left = left[left.index(piece) + 1 :]
    return len(rest)


def marked(line: ScenarioLine) -> ScenarioLine | None:
    """Mark user messages if a line has no marks: every piece after the first that is not part of an answer begins a
    message. Return None if there are marks or chats."""
    steps = dict(requests(line))
    if any(step.chat or any(piece.user for piece in step.prompt) for step in steps.values()):
        return None
    answers = {piece.word for step in steps.values() for piece in step.answer or ()}

    def mark(text: Pieces) -> Pieces:
        return tuple(one._replace(user=i > 0 and one.word not in answers and one.start in (None, 0))
                     for i, one in enumerate(text))  # fmt: skip

    return with_requests(line, {i: step._replace(prompt=mark(step.prompt)) for i, step in steps.items()})
