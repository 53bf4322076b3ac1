"""Plays the requests of a log one by one, and takes for what is open the first value that agrees with the log."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.engines.base import Answer
from cachesim.engines.contract import Server, copied
from cachesim.engines.registry import ENGINES
from cachesim.errors import BadInput
from cachesim.logs.contents import Text, names
from cachesim.logs.prefix import MOST, held_by_shares, ladder, prefix_by_shares, thold
from cachesim.logs.rebuilt import Choice, Rebuild, Rebuilt
from cachesim.logs.session import Logged, Session
from cachesim.notation.parse import parse
from cachesim.scenarios.notation import from_line
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import Silent, Stage


class Builder:
    """The state of the server in words, request by request, and a simulated server that is as far."""

    def __init__(self, session: Session, profile: str, model: str, server: Mapping[str, Any]) -> None:
        self.session, self.out = session, Rebuild(profile, model, server)
        self.slots: dict[int, Text] = {}
        self.stored: list[Text] = []
        self.lines: list[str] = []
        self.words: dict[str, int] = {}
        self.names = names()
        self.last = _Last()
        blank = from_line("A1", model=model, profiles=(profile,), server=server)
        self.flags = blank.server
        self.stage = Stage(blank, profile, "none", Path("."), self.last, profile)
        slots = {one.slot for one in session.requests}
        self.several = len(slots) > 1 and ENGINES[blank.engine].manual.slots

    def build(self) -> Rebuild:
        for logged in self.session.requests:
            self._add(logged)
        self.out.line = "/".join(self.lines)
        return self.out

    def _add(self, logged: Logged) -> None:
        one = Rebuilt(logged)
        self.out.requests.append(one)
        if logged.n_tokens is None or logged.refused:
            one.left_out = "it was refused" if logged.refused else "the log does not say how long its prompt is"
            return
        self._known_before(logged)
        choices = list(dict.fromkeys(islice(self._choices(logged), MOST)))
        begin, found = copied(self.stage.server), None
        for number, choice in enumerate(choices):
            if number:
                self._back(copied(begin))
            played = self._try(logged, choice)
            found = found or played
            if played is not None and logged.cache_n in (None, played.answer.cache_n):
                found = played
                break
        else:                                             # none gives what the log says: the simplest stands
            self._back(begin)
            found = self._try(logged, choices[0])
        if found is None:
            one.left_out = "it cannot be played with these options"
            return
        self._take(one, found)

    def _take(self, one: Rebuilt, found: _Played) -> None:
        one.step, one.text = len(self.lines), found.text
        one.got, one.slot, one.assumed = found.answer.cache_n, found.answer.id_slot, found.choice.why
        if one.logged.guessed:
            one.assumed = "; ".join(filter(None, ("its prompt is taken to end where the log last saw it", one.assumed)))
        one.lcp, one.before = found.choice.lcp, found.choice.base
        self.lines.append(found.text)
        self.words.update({found.word: max(1, found.new)} if found.new else {})
        self.words[found.word.lower()] = found.content.size
        self._keep(found.answer.id_slot, found.held)

    def _known_before(self, logged: Logged) -> None:
        """A slot that held something before the log begins gets a conversation of that length."""
        held = logged.held if logged.held is not None else held_by_shares(logged)
        common = max(logged.lcp or 0, logged.prefix_end or 0, *(thold(logged) or (0,)), logged.restored or 0)
        needed = max(held or 0, logged.seen, common, (logged.cache_n or 0) if not self.lines else 0)
        if logged.loaded or logged.slot in self.slots or not needed:
            return
        text = Text()
        for size in ladder(logged, needed):
            word = next(self.names)
            self.words[word] = size - text.size
            text = text.then(word, size - text.size)
            line = text.written(word) + (f"@{logged.slot}" if self.several else "")
            answer = self._send(line)
            if answer is None:
                del self.words[word]
                return
            self.lines.append(line)
            self.slots[answer.id_slot] = text._replace(prompt=size)

    def _keep(self, slot: int, text: Text) -> None:
        old = self.slots.pop(slot, None)
        if old is not None:
            self.stored.append(old)
        self.slots[slot] = text

    def _choices(self, logged: Logged) -> Iterator[Choice]:
        """What the prompt may go on from, the simplest first."""
        n_tokens = logged.n_tokens or 0
        mine = self.slots.get(logged.slot, Text())
        if logged.loaded:
            yield from self._from_stored(logged, n_tokens)
        elif (lcp := logged.lcp if logged.lcp is not None else logged.prefix_end) is not None:
            yield Choice(mine, min(lcp, n_tokens), "")
            return
        elif logged.f_keep is not None and logged.chosen == "lcp" and mine.size:
            yield from (Choice(mine, lcp, why) for lcp, why in prefix_by_shares(logged, mine, n_tokens))
            return
        else:
            for lcp in thold(logged):
                why = f"{lcp} tokens in common, by the threshold of its checkpoints"
                yield Choice(mine, min(lcp, n_tokens, mine.size), why)
            if not logged.cache_n:
                yield Choice(Text(), 0, "")
            yield from self._guessed(logged, mine, n_tokens)
        yield from self._from_stored(logged, n_tokens)
        yield Choice(Text(), 0, "nothing in common with anything before")

    def _guessed(self, logged: Logged, mine: Text, n_tokens: int) -> Iterator[Choice]:
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

    def _try(self, logged: Logged, choice: Choice) -> _Played | None:
        """Send this request with one choice; the server is then behind it. None if it cannot be played."""
        n_tokens = logged.n_tokens or 0
        word = next(self.names)
        kept = choice.base.first(choice.lcp)
        prompt = kept.then(word, n_tokens - kept.size)
        size = logged.predicted_n or 1
        known = dict(self.words)
        self.words |= {word: n_tokens - kept.size} if n_tokens > kept.size else {}
        self.words[word.lower()] = size
        text = prompt.written(word) + f">{word.lower()}{size}"
        before = copied(self.stage.server) if self.several else None
        answer = self._send(text)
        if before is not None and answer is not None and answer.id_slot != logged.slot:
            self._back(before)                            # another slot than in the log: the request names it
            text += f"@{logged.slot}"
            answer = self._send(text)
        self.words = known
        if answer is None:
            return None
        held = prompt.then(word.lower(), size).first(n_tokens + size - 1)
        return _Played(text, answer, choice, word, n_tokens - kept.size, Text().then(word.lower(), size),
                       Text(held.parts, n_tokens))

    def _back(self, server: Server) -> None:
        self.stage.server, self.stage.log = server, server.log

    def _send(self, text: str) -> Answer | None:
        """The answer to one more request, None if it cannot be played."""
        spelled = re.sub(r"[A-Za-z_]+(?![A-Za-z_\d])", lambda found: f"{found[0]}{self.words[found[0]]}", text)
        try:
            line = parse(spelled)
            for step in make_steps(line.steps, self.words, self.flags):
                self.stage.send(len(self.lines), [step])
        except BadInput:
            return None
        return self.last.answer


class _Played(NamedTuple):
    """A request that was sent: its line, what it reused, and what it leaves in its slot."""

    text: str
    answer: Answer
    choice: Choice
    word: str
    new: int
    content: Text
    held: Text


class _Last(Silent):
    """Keeps the last answer."""

    answer = Answer(-1)

    def answered(self, number: int, request: Any, answer: Answer) -> None:
        self.answer = answer
