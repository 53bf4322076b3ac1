"""Reconstruction of the requests of a log in order: unknown prefixes are tried until the simulation reproduces the
log."""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.contract import Server
from cachesim.engines.registry import ENGINES
from cachesim.tools.server_logs.recognise import grammars
from cachesim.tools.server_logs.reconstruction import Choice, ReconstructedRequest, Reconstruction
from cachesim.tools.server_logs.replay_candidates import CandidateServer, RunningPrompt
from cachesim.tools.server_logs.session import LoggedRequest, LogSession, overlapping
from cachesim.tools.server_logs.slot_contents import (
    MOST,
    SlotText,
    earlier_prompts,
    held_by_shares,
    prefix_by_shares,
    prefixes_by_threshold,
    word_names,
)

ENDS = "prompt length assumed: the last position in the log"
GOES_ON = "prompt assumed to extend the longest prompt before it"
AGAIN = 8                    # choices to try if each requires a run from the beginning


class ScenarioBuilder(CandidateServer):
    """Builder of a scenario: the contents of all slots as words after each request, with a simulated server in that
    state."""

    def __init__(self, session: LogSession, profile: str, model: str, server: Mapping[str, Any]) -> None:
        super().__init__(profile, model, server)
        self.session, self.out = session, Reconstruction(profile, model, server)
        self.slots: dict[int, SlotText] = {}
        self.stored: list[SlotText] = []
        self.word_names, self.most, self.stopped_early = word_names(), 0, False
        n_swa = session.facts.get("n_swa")
        self.n_swa = n_swa if isinstance(n_swa, int) and n_swa > 1 else 0
        slots = {request.slot for request in session.requests}
        self.several = len(slots) > 1 and ENGINES[self.blank.engine].manual.slots

    def build(self, most: int, best: Reconstruction | None = None) -> Reconstruction:
        """Simulate the requests within a budget of ``most`` work units; set ``stopped_early`` if it is exhausted. The
        first candidate (``best`` is None) may spend half of it on alternative prefixes; after that, only the simplest
        choices are tried. Later candidates stop as soon as they cannot surpass ``best``."""
        self.most, owed = most if best else most // 2, 0
        requests = self.session.requests
        for members in overlapping(requests) if self.several else ([request] for request in requests):
            *others, last = (request.predicted_n or 0 for request in members)
            self.stopped_early = self.work + (owed + sum(others)) * self.round > most
            if self.stopped_early:
                break
            self._add_all(members)
            owed = sum(others) + last
            if best is not None and not self.out.can_exceed(best, self.session.requests[len(self.out.requests) :]):
                break
        self.stopped_early = self.stopped_early or bool(best and self.work > most and self.out.untried_requests)
        self.out.line = "/".join(self.lines)
        return self.out

    def _add_all(self, members: Sequence[LoggedRequest]) -> None:
        """Add requests that were active at the same time, in the order of their start. Most groups have a single
        request."""
        playing = _RequestGroup([], self._copy()) if len(members) > 1 else None
        kept: list[tuple[LoggedRequest, _SentRequest]] = []
        for logged in members:
            request = ReconstructedRequest(logged)
            self.out.requests.append(request)
            if logged.n_tokens is None or logged.refused:
                request.left_out = "refused by the server" if logged.refused else "no prompt length in the log"
                continue
            if playing is None or not playing.texts:
                self._fill_slot(logged)
                playing = playing and playing._replace(base=self._copy())
            over = [pair for pair in kept if pair[0].lines[1] < logged.lines[0]]
            for pair in over:
                self._keep(pair[0].slot, pair[1].held)
            kept = [pair for pair in kept if pair not in over]
            found = self._best(logged, playing and playing.launched_after(self, over))
            if found is None:
                request.left_out = "not possible with these options"
                continue
            self._take(request, found)
            kept.append((logged, found))
            if playing is not None:
                playing.texts.append(found.text)
        for _, found in sorted(kept, key=lambda pair: pair[0].lines[1]):
            self._keep(found.sent.slot, found.held)

    def _best(self, logged: LoggedRequest, playing: _RequestGroup | None) -> _SentRequest | None:
        """Simulate a request with the first choice that agrees with the log, else the simplest, and leave the server in
        the state after it. When the budget is spent, only the simplest choice is tried."""
        choices = list(dict.fromkeys(islice(self._choices(logged), MOST)))
        first, tries = None, 0
        begin = None if playing else self._copy()
        most = AGAIN if begin is None and playing is None else MOST
        for choice in choices:
            if tries and (tries == most or self.work > self.most):
                break
            if tries and not playing:
                self._reset(self._copy_of(begin))
            tries += 1
            played = self._try(logged, choice, playing, begin)
            first = first or played
            if played is not None and logged.cache_n in (None, played.sent.cache_n):
                return played
        if tries < len(choices):
            self.out.untried_requests.add(len(self.out.requests) - 1)
        if tries == 1 and first is not None:
            return first
        if not playing:
            self._reset(self._copy_of(begin))
        return self._try(logged, first.choice, playing, begin) if first is not None else None

    def _take(self, request: ReconstructedRequest, found: _SentRequest) -> None:
        """Add a request and its words to the scenario."""
        request.step, request.text = len(self.lines), found.text
        request.simulated_n, request.slot, request.assumed = found.sent.cache_n, found.sent.slot, found.choice.why
        if request.logged.guessed:
            how = ENDS if request.logged.named else GOES_ON
            request.assumed = "; ".join(filter(None, (how, request.assumed)))
        request.lcp, request.before = found.choice.lcp, found.choice.base
        self.lines.append(found.text)
        self.words.update({found.word: max(1, found.new)} if found.new else {})
        self.words[found.word.lower()] = found.content.size

    def _fill_slot(self, logged: LoggedRequest) -> None:
        """Fill a slot that was not empty when the log began: send earlier prompts of that length."""
        held = logged.held if logged.held is not None else held_by_shares(logged)
        shared = max(prefixes_by_threshold(logged, self.n_swa), default=0)
        common = max(logged.lcp or 0, logged.prefix_end or 0, shared, logged.restored or 0)
        needed = max(held or 0, logged.seen, common, (logged.cache_n or 0) if not self.lines else 0)
        if logged.loaded or logged.slot in self.slots or not needed:
            return
        ends, answered = earlier_prompts(logged, needed, grammars()[self.session.engine].end)
        text = SlotText()
        for size in ends:
            word = next(self.word_names)
            self.words[word] = size - text.size
            text = text.append_word(word, size - text.size)
            line, last = text.notation(word), answered > 1 and size == ends[-1]
            if last:
                self.words[word.lower()] = answered
                line += f">{word.lower()}{answered}"
            line += f"@{logged.slot}" if self.several else ""
            sent = self._send([line])
            if sent is None:
                del self.words[word]
                return
            self.lines.append(line)
            left = text.append_word(word.lower(), answered).prefix(size + answered - 1) if last else text
            self.slots[sent.slot] = left._replace(prompt=size)

    def _keep(self, slot: int, text: SlotText) -> None:
        """Set the contents of a slot; its previous contents become a stored conversation."""
        old = self.slots.pop(slot, None)
        if old is not None:
            self.stored.append(old)
        self.slots[slot] = text

    def _choices(self, logged: LoggedRequest) -> Iterator[Choice]:
        """Yield the possible beginnings of a prompt, simplest first; equal beginnings are offered once."""
        seen = set()
        for choice in islice(self._offered(logged), MOST * MOST):
            kept = choice.base.prefix(choice.lcp).parts
            if kept not in seen:
                seen.add(kept)
                yield choice

    def _offered(self, logged: LoggedRequest) -> Iterator[Choice]:
        """Yield the possible beginnings of a prompt, simplest first, possibly with repetitions."""
        n_tokens = logged.n_tokens or 0
        contents = self.slots.get(logged.slot, SlotText())
        if logged.loaded:
            yield from self._from_stored(logged, n_tokens)
        elif (lcp := logged.lcp if logged.lcp is not None else logged.prefix_end) is not None:
            yield Choice(contents, min(lcp, n_tokens), "")
            return
        elif logged.f_keep is not None and logged.chosen == "lcp" and contents.size:
            yield from (Choice(contents, lcp, why) for lcp, why in prefix_by_shares(logged, contents, n_tokens))
            return
        else:
            known = prefixes_by_threshold(logged, self.n_swa)
            for lcp in known:
                why = f"{lcp} tokens in common, inferred from the checkpoint threshold"
                yield Choice(contents, min(lcp, n_tokens, contents.size), why)
            if known and contents.size:
                return
            if not logged.cache_n:
                yield Choice(SlotText(), 0, "")
            yield from self._guessed(logged, contents, n_tokens)
        yield from self._from_stored(logged, n_tokens)
        yield Choice(SlotText(), 0, "nothing in common with earlier requests")

    def _guessed(self, logged: LoggedRequest, contents: SlotText, n_tokens: int) -> Iterator[Choice]:
        """Yield beginnings taken from the slot when no share is printed (slot selected by LRU or by id). The reused
        tokens are a lower bound of the common prefix."""
        least = logged.cache_n or 0
        for lcp in dict.fromkeys((least, least + 1, contents.size, contents.prompt)):
            if least <= lcp <= min(n_tokens, contents.size):
                yield Choice(contents, lcp, f"{lcp} tokens in common with the slot")

    def _from_stored(self, logged: LoggedRequest, n_tokens: int) -> Iterator[Choice]:
        """Yield beginnings taken from conversations that left their slots, most recent first."""
        least = logged.lcp if logged.loaded and logged.lcp is not None else logged.cache_n or 0
        for text in reversed([*self.stored, *self.slots.values()]):
            if logged.loaded and logged.held not in (None, text.size):
                continue
            for lcp in dict.fromkeys((least, least + 1, min(text.size, n_tokens), text.prompt)):
                if least <= lcp <= min(n_tokens, text.size) and lcp:
                    yield Choice(text, lcp, f"{lcp} tokens in common with an earlier conversation")

    def _try(
        self, logged: LoggedRequest, choice: Choice, playing: _RequestGroup | None, begin: Server | None
    ) -> _SentRequest | None:
        """Send a request with a choice to a server in the state ``begin``, and leave the server in the state after
        it. None if the simulator refuses the request."""
        n_tokens = logged.n_tokens or 0
        word = next(self.word_names)
        kept = choice.base.prefix(choice.lcp)
        for low, high in logged.chunks if choice.lcp == logged.lcp else ():
            kept = kept.append_piece(choice.base, low, min(high, low + n_tokens - kept.size))
        prompt = kept.append_word(word, n_tokens - kept.size)
        size = logged.predicted_n or 1
        known = dict(self.words)
        self.words |= {word: n_tokens - kept.size} if n_tokens > kept.size else {}
        self.words[word.lower()] = size
        text = prompt.notation(word) + f">{word.lower()}{size}"
        found, sent = self._sent(text, "", playing)
        if self.several and sent is not None and sent.slot != logged.slot:
            if playing is None:
                self._reset(self._copy_of(begin))            # not the logged slot: name it in the request
            found, sent = self._sent(text, f"@{logged.slot}", playing)
        self.words = known
        if sent is None:
            return None
        held = prompt.append_word(word.lower(), size).prefix(n_tokens + size - 1)
        return _SentRequest(found, sent, choice, word, n_tokens - kept.size, SlotText().append_word(word.lower(), size),
                       SlotText(held.parts, n_tokens))

    def _sent(self, text: str, where: str, playing: _RequestGroup | None) -> tuple[str, RunningPrompt | None]:
        """Send a request after all others, or together with its group. Return its notation and its running prompt."""
        text += where
        if playing is None:
            return text, self._send([text])
        if playing.texts:
            text += f"{{together+{playing.after}}}" if playing.after else "{together}"
        self._reset(self._copy_of(playing.base))
        return text, self._send([*playing.texts, text])


class _RequestGroup(NamedTuple):
    """Requests sent together."""

    texts: list[str]           # requests so far, in the notation
    base: Server | None        # server before the first of them
    after: int = 0             # server loop iterations between the last of them and the next

    def launched_after(
        self, builder: ScenarioBuilder, over: Sequence[tuple[LoggedRequest, _SentRequest]]
    ) -> _RequestGroup:
        """Return the group for the next request, which the server launched when the requests of ``over`` had ended."""
        texts = [played.text for _, played in over]
        return self._replace(after=builder.rounds(self.base, self.texts, texts) if over else 0)


class _SentRequest(NamedTuple):
    """Request that was sent: its notation, the tokens that it reused, and the slot contents that it leaves."""

    text: str                  # its notation
    sent: RunningPrompt
    choice: Choice             # beginning of its prompt
    word: str                  # word for the new part of its prompt
    new: int                   # tokens of the new part
    content: SlotText          # its answer
    held: SlotText             # slot contents after it
