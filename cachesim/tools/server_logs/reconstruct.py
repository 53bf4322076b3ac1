"""Plays the requests of a log one by one, and takes for what is open the first value that agrees with the log."""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.contract import Server
from cachesim.engines.registry import ENGINES
from cachesim.tools.server_logs.recognise import grammars
from cachesim.tools.server_logs.reconstruction import Choice, Rebuild, Rebuilt
from cachesim.tools.server_logs.replay_candidates import Playing, RunningPrompt
from cachesim.tools.server_logs.session import Logged, LogSession, overlapping
from cachesim.tools.server_logs.slot_contents import (
    MOST,
    SlotText,
    held_by_shares,
    ladder,
    names,
    prefix_by_shares,
    thold,
)

ENDS = "its prompt is taken to end where the log last saw it"
GOES_ON = "its prompt is taken to go on from the longest one before it"
AGAIN = 8                    # choices that are tried where each means to play everything again


class Builder(Playing):
    """The state of the server in words, request by request, and a simulated server that is as far."""

    def __init__(self, session: LogSession, profile: str, model: str, server: Mapping[str, Any]) -> None:
        super().__init__(profile, model, server)
        self.session, self.out = session, Rebuild(profile, model, server)
        self.slots: dict[int, SlotText] = {}
        self.stored: list[SlotText] = []
        self.names, self.most, self.cut = names(), 0, False
        n_swa = session.facts.get("n_swa")
        self.n_swa = n_swa if isinstance(n_swa, int) and n_swa > 1 else 0
        slots = {one.slot for one in session.requests}
        self.several = len(slots) > 1 and ENGINES[self.blank.engine].manual.slots

    def build(self, most: int, best: Rebuild | None = None) -> Rebuild:
        """Play the requests, as far as ``most`` units of work go, not all = ``cut``. The first server that is tried has
        only the simplest choices where half of that is done; one that is tried against ``best`` is given up where the
        rest cannot make it better."""
        self.most, owed = most if best else most // 2, 0
        for members in overlapping(self.session.requests) if self.several else ([one] for one in self.session.requests):
            *others, last = (one.predicted_n or 0 for one in members)
            self.cut = self.work + (owed + sum(others)) * self.round > most
            if self.cut:
                break
            self._add_all(members)
            owed = sum(others) + last
            if best is not None and not self.out.can_pass(best, self.session.requests[len(self.out.requests) :]):
                break
        self.cut = self.cut or bool(best and self.work > most and self.out.untried)
        self.out.line = "/".join(self.lines)
        return self.out

    def _add_all(self, members: Sequence[Logged]) -> None:
        """Requests that were in work at the same time, in the order of their start; mostly one."""
        playing = _Together([], self._copy()) if len(members) > 1 else None
        kept: list[tuple[Logged, _Played]] = []
        for logged in members:
            one = Rebuilt(logged)
            self.out.requests.append(one)
            if logged.n_tokens is None or logged.refused:
                one.left_out = "it was refused" if logged.refused else "the log does not say how long its prompt is"
                continue
            if playing is None or not playing.texts:
                self._known_before(logged)
                playing = playing and playing._replace(base=self._copy())
            over = [pair for pair in kept if pair[0].lines[1] < logged.lines[0]]
            for pair in over:
                self._keep(pair[0].slot, pair[1].held)
            kept = [pair for pair in kept if pair not in over]
            found = self._best(logged, playing and playing.behind(self, over))
            if found is None:
                one.left_out = "it cannot be played with these options"
                continue
            self._take(one, found)
            kept.append((logged, found))
            if playing is not None:
                playing.texts.append(found.text)
        for _, found in sorted(kept, key=lambda pair: pair[0].lines[1]):
            self._keep(found.sent.slot, found.held)

    def _best(self, logged: Logged, playing: _Together | None) -> _Played | None:
        """The request with the first choice that agrees with the log, else the simplest; the server is behind it. Where
        no more may be sent, only the simplest is tried."""
        choices = list(dict.fromkeys(islice(self._choices(logged), MOST)))
        first, tries = None, 0
        begin = None if playing else self._copy()
        most = AGAIN if begin is None and playing is None else MOST
        for choice in choices:
            if tries and (tries == most or self.work > self.most):
                break
            if tries and not playing:
                self._back(self._again(begin))
            tries += 1
            played = self._try(logged, choice, playing, begin)
            first = first or played
            if played is not None and logged.cache_n in (None, played.sent.cache_n):
                return played
        if tries < len(choices):
            self.out.untried.add(len(self.out.requests) - 1)
        if tries == 1 and first is not None:
            return first
        if not playing:
            self._back(self._again(begin))
        return self._try(logged, first.choice, playing, begin) if first is not None else None

    def _take(self, one: Rebuilt, found: _Played) -> None:
        one.step, one.text = len(self.lines), found.text
        one.got, one.slot, one.assumed = found.sent.cache_n, found.sent.slot, found.choice.why
        if one.logged.guessed:
            how = ENDS if one.logged.named else GOES_ON
            one.assumed = "; ".join(filter(None, (how, one.assumed)))
        one.lcp, one.before = found.choice.lcp, found.choice.base
        self.lines.append(found.text)
        self.words.update({found.word: max(1, found.new)} if found.new else {})
        self.words[found.word.lower()] = found.content.size

    def _known_before(self, logged: Logged) -> None:
        """A slot that held something before the log begins gets a conversation of that length."""
        held = logged.held if logged.held is not None else held_by_shares(logged)
        shared = max(thold(logged, self.n_swa), default=0)
        common = max(logged.lcp or 0, logged.prefix_end or 0, shared, logged.restored or 0)
        needed = max(held or 0, logged.seen, common, (logged.cache_n or 0) if not self.lines else 0)
        if logged.loaded or logged.slot in self.slots or not needed:
            return
        ends, answered = ladder(logged, needed, grammars()[self.session.engine].end)
        text = SlotText()
        for size in ends:
            word = next(self.names)
            self.words[word] = size - text.size
            text = text.then(word, size - text.size)
            line, last = text.written(word), answered > 1 and size == ends[-1]
            if last:
                self.words[word.lower()] = answered
                line += f">{word.lower()}{answered}"
            line += f"@{logged.slot}" if self.several else ""
            sent = self._send([line])
            if sent is None:
                del self.words[word]
                return
            self.lines.append(line)
            left = text.then(word.lower(), answered).first(size + answered - 1) if last else text
            self.slots[sent.slot] = left._replace(prompt=size)

    def _keep(self, slot: int, text: SlotText) -> None:
        old = self.slots.pop(slot, None)
        if old is not None:
            self.stored.append(old)
        self.slots[slot] = text

    def _choices(self, logged: Logged) -> Iterator[Choice]:
        """What the prompt may go on from, the simplest first: texts with the same beginning are one choice."""
        seen = set()
        for choice in islice(self._offered(logged), MOST * MOST):
            kept = choice.base.first(choice.lcp).parts
            if kept not in seen:
                seen.add(kept)
                yield choice

    def _offered(self, logged: Logged) -> Iterator[Choice]:
        n_tokens = logged.n_tokens or 0
        mine = self.slots.get(logged.slot, SlotText())
        if logged.loaded:
            yield from self._from_stored(logged, n_tokens)
        elif (lcp := logged.lcp if logged.lcp is not None else logged.prefix_end) is not None:
            yield Choice(mine, min(lcp, n_tokens), "")
            return
        elif logged.f_keep is not None and logged.chosen == "lcp" and mine.size:
            yield from (Choice(mine, lcp, why) for lcp, why in prefix_by_shares(logged, mine, n_tokens))
            return
        else:
            known = thold(logged, self.n_swa)
            for lcp in known:
                why = f"{lcp} tokens in common, by the threshold of its checkpoints"
                yield Choice(mine, min(lcp, n_tokens, mine.size), why)
            if known and mine.size:
                return
            if not logged.cache_n:
                yield Choice(SlotText(), 0, "")
            yield from self._guessed(logged, mine, n_tokens)
        yield from self._from_stored(logged, n_tokens)
        yield Choice(SlotText(), 0, "nothing in common with anything before")

    def _guessed(self, logged: Logged, mine: SlotText, n_tokens: int) -> Iterator[Choice]:
        """No share is printed (a slot selected by LRU or by its id): what was reused is a bound of what is common."""
        least = logged.cache_n or 0
        for lcp in dict.fromkeys((least, least + 1, mine.size, mine.prompt)):
            if least <= lcp <= min(n_tokens, mine.size):
                yield Choice(mine, lcp, f"{lcp} tokens in common with what the slot held")

    def _from_stored(self, logged: Logged, n_tokens: int) -> Iterator[Choice]:
        """Conversations that have left their slots, the last first: one of them may have come back."""
        least = logged.lcp if logged.loaded and logged.lcp is not None else logged.cache_n or 0
        for text in reversed([*self.stored, *self.slots.values()]):
            if logged.loaded and logged.held not in (None, text.size):
                continue
            for lcp in dict.fromkeys((least, least + 1, min(text.size, n_tokens), text.prompt)):
                if least <= lcp <= min(n_tokens, text.size) and lcp:
                    yield Choice(text, lcp, f"{lcp} tokens in common with an earlier conversation")

    def _try(
        self, logged: Logged, choice: Choice, playing: _Together | None, begin: Server | None
    ) -> _Played | None:
        """Send this request with one choice to the server, which is as at ``begin``; it is then behind it. None if it
        cannot be played."""
        n_tokens = logged.n_tokens or 0
        word = next(self.names)
        kept = choice.base.first(choice.lcp)
        for low, high in logged.chunks if choice.lcp == logged.lcp else ():
            kept = kept.goes_on(choice.base, low, min(high, low + n_tokens - kept.size))
        prompt = kept.then(word, n_tokens - kept.size)
        size = logged.predicted_n or 1
        known = dict(self.words)
        self.words |= {word: n_tokens - kept.size} if n_tokens > kept.size else {}
        self.words[word.lower()] = size
        text = prompt.written(word) + f">{word.lower()}{size}"
        found, sent = self._sent(text, "", playing)
        if self.several and sent is not None and sent.slot != logged.slot:
            if playing is None:
                self._back(self._again(begin))            # another slot than in the log: the request names it
            found, sent = self._sent(text, f"@{logged.slot}", playing)
        self.words = known
        if sent is None:
            return None
        held = prompt.then(word.lower(), size).first(n_tokens + size - 1)
        return _Played(found, sent, choice, word, n_tokens - kept.size, SlotText().then(word.lower(), size),
                       SlotText(held.parts, n_tokens))

    def _sent(self, text: str, where: str, playing: _Together | None) -> tuple[str, RunningPrompt | None]:
        """A request behind everything, or behind those that it is sent together with: how it is written, and where it
        is."""
        text += where
        if playing is None:
            return text, self._send([text])
        if playing.texts:
            text += f"{{together+{playing.after}}}" if playing.after else "{together}"
        self._back(self._again(playing.base))
        return text, self._send([*playing.texts, text])


class _Together(NamedTuple):
    """Requests that are sent together: those so far, the server before the first, and how many rounds behind the last
    of them the next one is sent."""

    texts: list[str]
    base: Server | None
    after: int = 0

    def behind(self, builder: Builder, over: Sequence[tuple[Logged, _Played]]) -> _Together:
        """For the next request, which was launched when these were over."""
        texts = [played.text for _, played in over]
        return self._replace(after=builder.rounds(self.base, self.texts, texts) if over else 0)


class _Played(NamedTuple):
    """A request that was sent: its line, what it reused, and what it leaves in its slot."""

    text: str
    sent: RunningPrompt
    choice: Choice
    word: str
    new: int
    content: SlotText
    held: SlotText
