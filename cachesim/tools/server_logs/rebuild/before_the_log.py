"""What a server held before an excerpt of its log begins, as far as later requests show it: tokens of slots, prompts,
checkpoints, entries of the prompt cache.

A request that resumes at a token which no logged request left behind shows a checkpoint, or an entry of the prompt
cache, from before the excerpt. The reconstruction sends earlier prompts that leave it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Iterator, Sequence

from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.rebuild.request_order import ChainedRequest
from cachesim.tools.server_logs.rebuild.slot_contents import BATCHES, END, smallest_whole

LEAST_SIMILAR = 0.1          # share of a prompt that a slot must have in common with it to be chosen for it, by default
SHORT_PROMPT = 256          # assumed tokens of a checkpoint that the log shows only by another's erasure
OTHER_PROMPT = 64            # assumed tokens of a prompt after an earlier conversation, if the log shows none
MOST_CONVERSATIONS = 4       # earlier conversations, at most
ANSWER = 2048                # tokens of the answer before the log begins, at most
MAX_EARLIER = 12             # prompts before the log begins, at most


@dataclass(frozen=True, slots=True)
class EarlierConversation:
    """Conversation from before the excerpt that the prompt cache holds when the excerpt begins.

    ``loaded_by``: the first request that loads it. ``n_tokens``: its length. ``resumed``: tokens after which that
    request resumes within it, 0 = only at its end. ``shared``: tokens that it has in common with the other
    conversations.
    """

    loaded_by: LoggedRequest
    n_tokens: int
    resumed: int = 0
    shared: int = 0


def shared_beginning(requests: Sequence[LoggedRequest]) -> int:
    """Return the tokens that all conversations of a log have in common at least: the least common prefix that a server
    prints when it compares a prompt with what it does not continue; 0 if it prints none, or one without tokens.
    ``requests``: those of the log."""
    compared = [*chain.from_iterable(map(_other_slots, requests)), *chain.from_iterable(map(_other_entries, requests))]
    return min((lcp for line in compared if (lcp := line.number_of("lcp")) is not None), default=0)


def _other_slots(request: LoggedRequest) -> Sequence[ReadLine]:
    """Return the lines that compare a prompt with slots that are not chosen for it."""
    return () if request.tied is None else request.tied.others


def _other_entries(request: LoggedRequest) -> Iterator[ReadLine]:
    """Yield the lines that compare a prompt with entries of the prompt cache that are not loaded for it."""
    entries = [] if request.tied is None else request.tied.of_cache("pc_cand")
    if request.is_loaded and request.lcp is None:
        return                                           # which of them was loaded is not known
    for line in entries:
        found = line.number_of("lcp"), line.number_of("n_tokens")
        if not request.is_loaded or found != (request.lcp, request.held):
            yield line


def resumed_checkpoints(first: ChainedRequest) -> list[int]:
    """Return the tokens of checkpoints from before the excerpt at which a request or later ones of its slot resume.

    ``first``: the first request of a slot. A later request shows one only if no request between evaluated the tokens
    before it again.
    """
    found: list[int] = []
    for step in first.walk():
        if step.logged.cache_n is None or step.logged.is_loaded:
            break
        if step.is_resumed_within and step.is_kept:
            found.append(step.logged.cache_n)
    return found


def listed_checkpoints(first: ChainedRequest) -> list[int]:
    """Return the tokens of checkpoints from before the excerpt that the server checks or erases for a request or later
    ones of its slot, and of one more where the first of them is erased because it is close to another.

    ``first``: the first request of a slot.
    """
    found: set[int] = set()
    created: set[int] = set()
    is_close = False
    for request, kept in first.walk():
        if request.is_loaded and request is not first.logged:
            break
        listed = {*request.erased, *(last + 1 for _, last, _ in request.checked)}
        earlier = {at for at in listed - created if kept is None or at <= kept + 1}
        is_close = is_close or (min(found | earlier, default=0) in request.erased)
        found |= earlier
        created |= {*request.created}
    if is_close and min(found) > 2 * SHORT_PROMPT:
        found.add(SHORT_PROMPT)
    return sorted(found)


def earlier_conversations(requests: Sequence[LoggedRequest]) -> list[EarlierConversation]:
    """Return the conversations that requests load from the prompt cache though no logged request left them, in the
    order of their use; [] if the requests use several slots, whose choice is then not known."""
    if len({request.slot for request in requests}) > 1:
        return []
    found: list[EarlierConversation] = []
    left: list[ProvenRange] = []         # tokens of the texts that the requests so far left behind
    for request in requests:
        reused = request.cache_n or 0
        if reused and _is_loaded(request) and not any(_may_be_entry(text, request, reused) for text in left):
            found.append(_loaded_conversation(request, reused))
        left.append(_left_by(request))
    return found[:MOST_CONVERSATIONS]


def earlier_checkpoints(first: ChainedRequest) -> list[int]:
    """Return the tokens of all checkpoints that a slot had before the excerpt. A request whose beginning is cut off
    left the last ones itself: those at the end of its prompt, and a micro-batch before.

    ``first``: the first request of the slot.
    """
    listed = listed_checkpoints(first)
    if not first.logged.is_whole and listed:
        own = {listed[-1], *(listed[-1] - size + more for size in BATCHES for more in (0, END))}
        listed = [at for at in listed if at not in own]
    resumed = resumed_checkpoints(first)                   # a window resumes one token before the end of its rows
    return [*listed, *(at for at in resumed if not {at, at + 1} & {*listed})]


def used_slots(requests: Sequence[LoggedRequest], n_slots: int) -> list[int]:
    """Return the slots that were used before the excerpt, though no request before shows it: for a request the server
    selected the slot that was used least recently, and that slot had never been used."""
    seen: set[int] = set()
    unused = {request.slot for request in requests if _is_first_use(request)}
    for request in requests:
        if _is_first_use(request):
            return [slot for slot in range(n_slots) if slot not in unused | seen]
        seen.add(request.slot)
    return []


def _is_first_use(request: LoggedRequest) -> bool:
    """True if a request was the first of its slot, as printed."""
    choice = None if request.tied is None else request.tied.choice
    return choice is not None and choice.kind == "slot_by_lru" and choice.read.numbers.get("t_last") == -1


def prompt_between(first: LoggedRequest) -> int:
    """Return the tokens of the prompt that the slot held, besides an earlier conversation, when the first request of an
    excerpt loaded that conversation; 0 if it loaded none."""
    if not _is_loaded(first):
        return 0
    saved = [] if first.tied is None else [line.number_of("n_tokens") for line in first.tied.of_cache("pc_save")]
    return next((number for number in saved if number), OTHER_PROMPT)


def _is_loaded(request: LoggedRequest) -> bool:
    """True if a request loaded an entry: as printed, or because it reused so many tokens that its slot would
    have been chosen for them, and was not."""
    reused = request.cache_n or 0
    is_similar = request.n_tokens is not None and reused > LEAST_SIMILAR * request.n_tokens
    return request.is_loaded or (request.chosen == "lru" and is_similar)


def _loaded_conversation(request: LoggedRequest, reused: int) -> EarlierConversation:
    """Return the conversation of an entry that a request loaded. The lines of the prompt cache may print its length."""
    size = request.held if request.is_loaded and request.held else reused
    similar = [] if request.tied is None else [line.number_of("lcp") for line in request.tied.similar]
    shared = next((number for number in similar if number), 0)
    return EarlierConversation(
        loaded_by=request,
        n_tokens=max(size, reused),
        resumed=reused if reused < size else 0,
        shared=shared if shared < reused else 0,
    )


def _may_be_entry(text: ProvenRange, request: LoggedRequest, reused: int) -> bool:
    """True if a text of so many tokens may be the entry that a request loaded."""
    if request.is_loaded and request.held:
        return text.meets(ProvenRange(request.held, request.held))
    return text.high is None or text.high >= reused


def _left_by(request: LoggedRequest) -> ProvenRange:
    """Return the number of tokens that a request left in its slot."""
    end = request.range_of("end")
    prompt = request.range_of("n_tokens")
    answer = request.range_of("predicted_n")
    if end is not None:
        return end
    if prompt is None or prompt.high is None:
        return ProvenRange(0, None)
    return ProvenRange(prompt.low, prompt.high + (answer.high or 0 if answer is not None else 0))


def earlier_prompts(
    logged: LoggedRequest, needed: int, end: int = END, earlier: Sequence[int] = ()
) -> tuple[list[int], int]:
    """Return lengths of earlier prompts, each a prefix of the next, that would leave the checkpoints listed in the log,
    and the length of the last answer. A server creates a checkpoint ``end`` tokens before the end of a prompt, and
    another a micro-batch before that. ``earlier``: tokens of further checkpoints from before the log."""
    marks = examined_checkpoints(logged) | {*earlier}
    alone = sorted(mark for mark in marks if not {mark + size for size in BATCHES} & marks)
    ends = [mark + end for mark in alone][-MAX_EARLIER:]
    if not ends:
        return [needed], 1
    answer = needed - ends[-1] + 1
    return (ends, max(1, answer)) if answer <= ANSWER else ([*ends, needed], 1)


def examined_checkpoints(logged: LoggedRequest) -> set[int]:
    """Return the tokens of the checkpoints of its slot that the server examined for a request: all from the longest one
    down to the restored one, or all of them."""
    return {last + 1 for _, last, _ in logged.checked} | ({logged.restored_end} if logged.restored_end else set())


def held_before(logged: LoggedRequest) -> int | None:
    """Return the assumed tokens of a slot before the log, None if the log shows nothing about them: as many as its
    first request reused, if the log allows it; else the fewest, from the middle of their range on, of which the printed
    share holds the reused tokens."""
    known, reused = logged.range_of("held"), logged.cache_n
    if known is not None and reused is not None and known.meets(ProvenRange(reused, reused)):
        return reused
    middle = held_by_shares(logged)
    if known is None or known.high is None or reused is None or logged.f_keep is None or middle is None:
        return logged.held if logged.held is not None else middle
    least = smallest_whole(logged.f_keep, reused)
    return max(middle, least) if least <= known.high else middle


def held_by_shares(logged: LoggedRequest) -> int | None:
    """Return the number of tokens in the slot: prompt length times f_sim / f_keep, within the rounding of both."""
    known = logged.range_of("held")
    if known is not None and known.high is not None:
        return (known.low + known.high) // 2
    if not logged.f_keep or logged.f_sim is None or logged.n_tokens is None:
        return None
    return round(logged.f_sim * logged.n_tokens / logged.f_keep)


def held_by_window(logged: LoggedRequest) -> int:
    """Return the least number of tokens in a slot whose memory no longer has the rows that the first checked checkpoint
    has; 0 without one. A memory with a window keeps as many rows as a checkpoint of it."""
    return max((int(at) + high - low + 1 for low, high, at in logged.checked[:1] if low < high), default=0)
