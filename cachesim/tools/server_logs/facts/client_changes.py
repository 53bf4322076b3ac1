"""Class of the change that a client made to a prompt, as far as the numbers of a log prove it.

A request continues from the contents of a slot: a prompt and the answer to it. A log shows the position at which the
new prompt leaves them, but not why: an edited conversation and another conversation with the same beginning look alike.
``import`` and ``watch`` read the class here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.facts.proven_range import ProvenRange

NEAR = 16                    # tokens that a chat template puts at the end of a prompt, at most

CLIENT_CHANGES = {
    "new": "nothing in common with the slot: a new conversation, or one that the slot did not hold",
    "extends": "extends what the slot holds",
    "again": "the slot holds the whole prompt: the same prompt again, or an earlier point of the conversation",
    "answer": "differs within the last answer in the slot: sent back changed (reasoning removed, or the text rendered "
              "again), or another conversation",
    "turn end": "differs at the end of the previous prompt in the slot: rendered differently as a past turn (reasoning "
                "removed, for example), or another conversation",
    "answer or turn end": "differs within the last answer in the slot or at the end of the prompt before it: sent back "
                          "changed or rendered differently (reasoning removed, for example), or another conversation",
    "history or turn end": "differs within the previous prompt in the slot: an edited history or a past turn rendered "
                           "differently, or another conversation",
    "history": "differs before the end of the previous prompt in the slot: an edited, shortened or compacted history, "
               "or another conversation",
    "differs": "differs from the slot's contents before their end: an edited prompt, or another conversation",
    "start": "differs near the same token each time: a date, an id or tools in changing order near it, or "
             "conversations that share only this beginning",
}  # fmt: skip
"""Descriptions of the client's changes."""

_AS_GENERATED = "if it is the same conversation: send answers back exactly as generated, with their reasoning"
ADVICE = {
    "answer": _AS_GENERATED,
    "answer or turn end": _AS_GENERATED,
    "history or turn end": "if it is the same conversation: send the previous prompt back unchanged, with its "
                           "reasoning",
    "turn end": "if it is the same conversation: keep the reasoning in the history, or use a chat template that "
                "renders past turns unchanged",
    "history": "if it is the same conversation: edit or compact the history rarely, and from its end",
    "start": "if a date, an id or a list changes there: move it to the end of the prompt",
    "new": "more slots (one for each conversation), or a larger prompt cache",
}  # fmt: skip
"""Advice for the client, by the class of its change."""


@dataclass(slots=True)
class SlotPrompts:
    """Prompts that the requests of a server run left in its slots, in the order of the log. A slot that holds as many
    tokens as its last request left still holds these."""

    _left: dict[int, tuple[int, int]] = field(default_factory=dict)    # slot -> tokens of its prompt, and all tokens

    def change(self, request: LoggedRequest) -> str:
        """Return the class of a request's change, a key of ``CLIENT_CHANGES``; "" if the log does not prove one. Take
        note of what the request leaves in its slot."""
        prompt, end = self._left.get(request.slot, (None, 0)) if request.is_slot_known else (None, 0)
        if request.is_slot_known and not request.is_refused:
            self._leave(request)
        if request.tied is not None and request.tied.of("need_one") and not request.chunks:
            return "again"                       # the server evaluates the last token only, because it holds all
        held = _range_of(request, "held") or (ProvenRange(request.seen, None) if request.seen else None)
        if prompt is None or held is None or held.high is None or not held.meets(ProvenRange(end, end)):
            return proven_change(_common(request), held, _range_of(request, "n_tokens"))
        return proven_change(_common(request), ProvenRange(end, end), _range_of(request, "n_tokens"), prompt)

    def _leave(self, request: LoggedRequest) -> None:
        """Take note of what a request left in its slot, or that it is unknown."""
        if request.n_tokens and request.end:
            self._left[request.slot] = request.n_tokens, request.end
        else:
            self._left.pop(request.slot, None)


def proven_change(
    common: ProvenRange | None, held: ProvenRange | None, length: ProvenRange | None, prompt: int | None = None
) -> str:
    """Return the class of a prompt of ``length`` tokens that has ``common`` tokens in common with a slot, which holds
    ``held``. ``prompt``: tokens of the previous prompt among these, None = unknown. Ranges may lack an upper end."""
    if (held is not None and held.high == 0) or (common is not None and common.high == 0):
        return "new"
    if common is None:
        return ""
    if length is not None and length.high is not None and common.low >= length.high:
        return "again"
    most = common.high
    if most is None or length is None or most >= length.low or held is None:
        return ""
    if held.high is not None and common.low >= held.high:
        return "extends"
    return _position(common.low, most, prompt) if most < held.low else ""


def _position(low: int, high: int, prompt: int | None) -> str:
    """Return the class of a prompt that leaves the slot's contents before their end, at ``low`` to ``high`` tokens."""
    if prompt is None:
        return "differs"
    first, last = (_place(at, prompt) for at in (low, high))
    return first if first == last else _SHARED.get((first, last), "differs")


def _place(at: int, prompt: int) -> str:
    """Return the class of a prompt that leaves the slot's contents after ``at`` tokens, of which the first ``prompt``
    are the previous prompt."""
    if at > prompt:
        return "answer"
    return "turn end" if prompt - at <= NEAR else "history"


_SHARED = {("turn end", "answer"): "answer or turn end", ("history", "turn end"): "history or turn end"}
"""Class of a difference that lies in one of two neighbouring places."""


def _range_of(request: LoggedRequest, name: str) -> ProvenRange | None:
    """Return the range of a number, None if the log shows nothing of it."""
    found = request.numbers.get(name)
    exact = getattr(request, name)
    return found if found is not None or exact is None else ProvenRange(exact, exact)


def _common(request: LoggedRequest) -> ProvenRange | None:
    """Return the range of the common prefix: at least the reused tokens, unless chunks of the slot were moved."""
    found, kept = _range_of(request, "lcp"), request.least("cache_n")
    if found is None or request.chunks or found.high is None:
        return found
    return found._replace(low=max(found.low, min(kept, found.high)))
