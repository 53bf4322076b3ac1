"""Contents of the slots as words after the requests so far, and the possible beginnings of the next prompt."""

from __future__ import annotations

from copy import copy
from itertools import islice
from typing import Iterator, Mapping, Sequence

from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.rebuild.assumed_lengths import AssumedLength
from cachesim.tools.server_logs.rebuild.compared_texts import ComparedText
from cachesim.tools.server_logs.rebuild.reconstruction import NEW_CONVERSATION, PromptChoice
from cachesim.tools.server_logs.rebuild.slot_contents import MOST, SlotText, prefix_by_shares, prefixes_by_threshold


class SlotTexts:
    """Texts in the slots, and those that left them. ``n_swa``: window size, 0 = unknown; ``began_empty``: the log shows
    the start of the server, so that all texts before are known; ``begun_with``: lengths of the stored conversations
    with which the prompt of a request begins, and ``compared``: the text with which the server compared it, by the id
    of its object."""

    def __init__(
        self,
        n_swa: int,
        began_empty: bool,
        begun_with: Mapping[int, Sequence[int]],
        compared: Mapping[int, ComparedText] | None = None,
    ) -> None:
        self.began_empty = began_empty
        self.begun_with = begun_with
        self.compared = compared or {}
        self.left: dict[int, SlotText] = {}  # text that each request left, by the id of its object
        self.slots: dict[int, SlotText] = {}
        self.stored: list[SlotText] = []
        self.shared = SlotText()             # what all conversations have in common, as far as known
        self.n_swa = n_swa

    def copy(self) -> SlotTexts:
        """Return a copy that further requests do not change."""
        twin = copy(self)
        twin.slots, twin.stored = self.slots.copy(), [*self.stored]
        return twin

    def keep(self, slot: int, text: SlotText) -> None:
        """Set the contents of a slot; its previous contents become a stored conversation."""
        old = self.slots.pop(slot, None)
        if old is not None:
            self.stored.append(old)
        self.slots[slot] = text

    def choices(self, logged: LoggedRequest, lengths: Sequence[AssumedLength]) -> Iterator[PromptChoice]:
        """Yield the possible beginnings of a prompt, simplest first; equal beginnings are offered once."""
        seen = set()
        offered = (choice._replace(length=length) for length in lengths
                   for choice in islice(self._offered(logged, length.n_tokens), MOST * MOST))  # fmt: skip
        for choice in offered:
            kept = choice.length.n_tokens, choice.base.prefix(choice.lcp).parts
            if kept not in seen:
                seen.add(kept)
                yield choice

    def _offered(self, logged: LoggedRequest, n_tokens: int) -> Iterator[PromptChoice]:
        """Yield the possible beginnings of a prompt, simplest first, possibly with repetitions."""
        contents = self.slots.get(logged.slot, SlotText())
        yield from self._compared(logged, n_tokens)
        if not contents.size:
            yield from self._continued(logged, n_tokens)
        if logged.is_loaded:
            yield from self._from_stored(logged, n_tokens)
        elif (lcp := logged.lcp if logged.chunk_start is None else logged.chunk_start) is not None:
            if not contents.size and 0 < self.shared.size < n_tokens:
                yield self._shared_beginning()
            yield PromptChoice(contents, min(lcp, n_tokens), "")
            return
        elif contents.size and (logged.range_of("lcp") or (logged.f_keep is not None and logged.chosen == "lcp")):
            prefixes = prefix_by_shares(logged, contents, n_tokens, self.n_swa)
            yield from (PromptChoice(contents, lcp, why) for lcp, why in prefixes)
            return
        else:
            known = prefixes_by_threshold(logged, self.n_swa)
            for lcp in known:
                why = f"{lcp} tokens in common, inferred from the checkpoint threshold"
                yield PromptChoice(contents, min(lcp, n_tokens, contents.size), why)
            if known and contents.size:
                return
            is_cut_off = not logged.is_whole and logged.cache_n is None
            if is_cut_off and 0 < contents.size < n_tokens:      # the slot has what later lines show of the time before
                yield PromptChoice(contents, contents.size, f"{contents.size} tokens in common with the slot")
            if not logged.least("cache_n"):
                yield from self._new(n_tokens)
            yield from self._guessed(logged, contents, n_tokens)
        yield from self._from_stored(logged, n_tokens)
        yield PromptChoice(SlotText(), 0, "nothing in common with earlier requests")

    def _new(self, n_tokens: int) -> Iterator[PromptChoice]:
        """Yield the beginning of a new conversation. It certainly shares nothing with other texts only if it is the
        first one of a server that began empty."""
        is_first = self.began_empty and not self.slots and not self.stored
        if 0 < self.shared.size < n_tokens:
            yield self._shared_beginning()
        else:
            yield PromptChoice(SlotText(), 0, "" if is_first else NEW_CONVERSATION)

    def _continued(self, logged: LoggedRequest, n_tokens: int) -> Iterator[PromptChoice]:
        """Yield the stored conversations that the log shows to be the beginning of a prompt, longest first, although
        the server does not load them."""
        sizes = self.begun_with.get(id(logged), ())
        for size in sorted({size for size in sizes if size <= n_tokens}, reverse=True):
            for text in (text for text in (*self.stored, *self.slots.values()) if text.size == size):
                yield PromptChoice(text, size, f"{size} tokens in common with an earlier conversation")

    def _compared(self, logged: LoggedRequest, n_tokens: int) -> Iterator[PromptChoice]:
        """Yield the common prefix that comparisons show, if it is longer than what the prompt shares with its slot."""
        compared = self.compared.get(id(logged))
        text = None if compared is None else self.left.get(id(compared.text))
        if compared is not None and text is not None and logged.least("lcp") < compared.lcp < n_tokens:
            why = f"{compared.lcp} tokens in common with an earlier conversation, as later lines show"
            yield PromptChoice(text, compared.lcp, why)

    def _shared_beginning(self) -> PromptChoice:
        """Return the beginning that all conversations have in common."""
        why = f"{self.shared.size} tokens in common with every conversation"
        return PromptChoice(self.shared, self.shared.size, why)

    def _guessed(self, logged: LoggedRequest, contents: SlotText, n_tokens: int) -> Iterator[PromptChoice]:
        """Yield beginnings taken from the slot when no share is printed (slot selected by LRU or by id). The reused
        tokens are a lower bound of the common prefix."""
        least = _least_reused(logged, n_tokens)
        for lcp in dict.fromkeys((least, least + 1, contents.size, contents.prompt)):
            if least <= lcp <= min(n_tokens, contents.size):
                yield PromptChoice(contents, lcp, f"{lcp} tokens in common with the slot")

    def _from_stored(self, logged: LoggedRequest, n_tokens: int) -> Iterator[PromptChoice]:
        """Yield beginnings taken from conversations that left their slots, most recent first. Half of a conversation is
        enough for a server to load it, and may lie before its last checkpoints."""
        least = logged.lcp if logged.is_loaded and logged.lcp is not None else _least_reused(logged, n_tokens)
        for text in reversed([*self.stored, *self.slots.values()]):
            if logged.is_loaded and logged.held not in (None, text.size):
                continue
            longest = min(text.size, n_tokens)
            for lcp in dict.fromkeys((least, least + 1, longest, text.prompt, (least + longest) // 2)):
                if least <= lcp <= min(n_tokens, text.size) and lcp:
                    yield PromptChoice(text, lcp, f"{lcp} tokens in common with an earlier conversation")


def _least_reused(logged: LoggedRequest, n_tokens: int) -> int:
    """Return the fewest tokens that a request with a prompt of this length can have reused."""
    rest = 0 if logged.prompt_n is None else n_tokens - logged.prompt_n
    return max(rest, logged.least("cache_n"))
