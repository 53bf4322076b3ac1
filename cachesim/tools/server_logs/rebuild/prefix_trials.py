"""Reconstruction of the requests of a log in order: unknown prefixes are tried until the simulation reproduces the
log."""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.contract import Server
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.engines.shared.slot_events import CkptCreate
from cachesim.model.spec import parse
from cachesim.scenarios.notation.normalise import letters
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest, overlapping
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.lines.tied_requests import BEGINS
from cachesim.tools.server_logs.rebuild.assumed_lengths import AssumedLength, assumed_lengths
from cachesim.tools.server_logs.rebuild.before_the_log import (
    OTHER_PROMPT,
    earlier_checkpoints,
    earlier_conversations,
    earlier_prompts,
    examined_checkpoints,
    held_before,
    held_by_window,
    listed_checkpoints,
    prompt_between,
    shared_beginning,
    used_slots,
)
from cachesim.tools.server_logs.rebuild.candidate_server import CandidateServer, RunningPrompt
from cachesim.tools.server_logs.rebuild.compared_texts import compared_texts
from cachesim.tools.server_logs.rebuild.line_agreement import (
    contradictions,
    early_lines,
    events_by_task,
    printed_lines,
)
from cachesim.tools.server_logs.rebuild.prompt_choices import SlotTexts
from cachesim.tools.server_logs.rebuild.reconstruction import (
    PromptChoice,
    ReconstructedRequest,
    Reconstruction,
    SentRequest,
)
from cachesim.tools.server_logs.rebuild.request_order import (
    chain_requests,
    entries_within,
    last_batch,
    loops_between,
    tried_loops,
)
from cachesim.tools.server_logs.rebuild.slot_contents import (
    BATCHES,
    MOST,
    UBATCH,
    SlotText,
    prefixes_by_threshold,
)

COMPLETION = "completion"    # kind of task that is simulated if the log shows no other
AGAIN = 8                    # choices to try if each requires a run from the beginning
LATER = 8                    # later requests of a slot that may resume within a prompt
UNCACHED = "cache_prompt = false, in the request or by --no-cache-prompt"
FURTHER = 4                  # choices to try after one that agrees on the reused tokens but contradicts a line


class ScenarioBuilder(CandidateServer):
    """Builder of a scenario: the contents of all slots as words after each request, with a simulated server in that
    state."""

    def __init__(self, session: LogSession, profile: str, model: str, server: Mapping[str, Any]) -> None:
        super().__init__(profile, model, server)
        self.session = session
        self.out = Reconstruction(profile, model, server)
        self.named = 0                                  # words that have a name
        self.most = 0                                   # work units that alternative prefixes may take
        self.stopped_early = False
        self.marks: tuple[int, ...] = ()                # user messages of the last request that has some
        self.running: list[tuple[ReconstructedRequest, RunningPrompt]] = []
        self.started = not BEGINS.isdisjoint(session.kinds)
        chain = chain_requests(session.requests)
        self.lengths = assumed_lengths(chain, grammars()[session.engine].end)
        self.chain = {id(link.logged): link for link in chain}
        self.task_kind = _task_kind(session)
        self.begun: set[int] = set()                    # slots that a logged request has used, or is about to
        began_empty = self.started or any(map(_found_nothing, session.requests[:1]))
        begun_with = {id(link.logged): entries_within(link) for link in chain}
        compared = compared_texts(session.requests)
        self.texts = SlotTexts(_window(session, model), began_empty, begun_with, compared)
        self.shared = shared_beginning(session.requests)
        self.fillers = 0                                # lines sent before the log's, to slots of unknown contents
        slots = {request.slot for request in session.requests}
        is_one_given = any(request.is_slot_given for request in session.requests)
        self.names_slots = (len(slots) > 1 or is_one_given) and ENGINES[self.blank.engine].manual.slots

    def build(self, most: int, best: Reconstruction | None = None) -> Reconstruction:
        """Simulate the requests within a budget of ``most`` work units; set ``stopped_early`` if it is exhausted. The
        first candidate (``best`` is None) may spend half of it on alternative prefixes; after that, only the simplest
        choices are tried. Later candidates stop as soon as they cannot surpass ``best``."""
        self.most, owed = most if best else most // 2, 0
        requests = self.session.requests
        if not self.started:
            self._fill_prompt_cache()
            self._fill_used_slots()
        for members in overlapping(requests) if self.names_slots else ([request] for request in requests):
            *others, last = (request.predicted_n or 0 for request in members)
            self.stopped_early = self.work + (owed + sum(others)) * self.round > most
            if self.stopped_early:
                break
            self._add_all(members)
            owed = sum(others) + last
            if best is not None and not self.out.can_exceed(best, self.session.requests[len(self.out.requests) :]):
                break
        self.stopped_early = self.stopped_early or bool(best and self.work > most and self.out.untried_requests)
        self._check_prompts()
        self.out.line = "/".join(self.lines)
        return self.out

    def _check_answers(self) -> None:
        """Compare the lines of the requests sent last with the events of the simulated server."""
        for (request, sent), found in zip(self.running, events_by_task(self.events), strict=False):
            lines = printed_lines(request.logged, self.session.engine, self.started)
            request.contradicted = contradictions(lines, found, sent.printed)
        self.running = []

    def _check_prompts(self) -> None:
        """Like ``_check_answers``, for requests whose answers are not generated."""
        for (request, sent), found in zip(self.running, events_by_task(self.events), strict=False):
            lines = early_lines(printed_lines(request.logged, self.session.engine, self.started), request.n_tokens or 0)
            request.contradicted = contradictions(lines, found, sent.printed)

    def _add_all(self, members: Sequence[LoggedRequest]) -> None:
        """Add requests that were active at the same time, in the order of their start. Most groups have a single
        request. The others are first compared with the lines before the next launch alone, because the requests that
        follow change the batches after it."""
        self._finish_answers()
        self.running = []
        for logged in members:
            if not logged.is_refused:
                self._fill_slot(logged)
        if len(members) == 1:
            self._add_group(members, None)
            return
        before = self._progress()
        self._add_group(members, _RequestGroup([], before.server, by_launch=True))
        self._finish_answers()
        contradicted = self._contradicted_by(members)
        if not contradicted or self.work > self.most:
            return
        by_launch = self._progress()
        self._return_to(before)
        self._add_group(members, _RequestGroup([], before.server))
        self._finish_answers()
        if self._contradicted_by(members) >= contradicted:
            self._return_to(by_launch)

    def _new_word(self) -> str:
        """Return the name of a further word. An answer has the name of its prompt in lower case."""
        self.named += 1
        return letters(self.named - 1)

    def _progress(self) -> _Progress:
        """Return a copy of the state after the requests so far, all of which are answered."""
        return _Progress(
            server=self._copy(),
            requests=[*self.out.requests],
            untried=self.out.untried_requests.copy(),
            lines=[*self.lines],
            words=self.words.copy(),
            texts=self.texts.copy(),
            marks=self.marks,
            named=self.named,
        )

    def _return_to(self, progress: _Progress) -> None:
        """Return to an earlier state, which can be used again."""
        self.out.requests, self.out.untried_requests = [*progress.requests], progress.untried.copy()
        self.lines, self.words = [*progress.lines], progress.words.copy()
        self.texts, self.marks = progress.texts.copy(), progress.marks
        self.named = progress.named
        self.running = []
        self._reset(self._copy_of(progress.server))

    def _contradicted_by(self, members: Sequence[LoggedRequest]) -> int:
        """Return how many lines and numbers of the requests added last contradict the simulation."""
        added = self.out.requests[-len(members) :]
        return sum(len(request.contradicted) + (request.agrees is False) for request in added)

    def _add_group(self, members: Sequence[LoggedRequest], playing: _RequestGroup | None) -> None:
        """Add requests that the server launched one after another; ``playing`` None: a single one."""
        kept: list[tuple[LoggedRequest, SentRequest]] = []
        for logged in members:
            request = ReconstructedRequest(logged)
            self.out.requests.append(request)
            if not self._lengths_of(request) or logged.is_refused:
                request.left_out = "refused by the server" if logged.is_refused else "no prompt length in the log"
                continue
            over = [pair for pair in kept if pair[0].lines[1] < logged.lines[0]]
            for pair in over:
                self.texts.keep(pair[0].slot, pair[1].held)
            kept = [pair for pair in kept if pair not in over]
            found = self._launched(request, members, playing)
            if found is None:
                request.left_out = "not possible with these options"
                continue
            self._take(request, found)
            self.texts.left[id(logged)] = found.held
            if not self.texts.shared.size:
                self.texts.shared = found.held.prefix(self.shared)
            kept.append((logged, found))
            if playing is not None:
                playing.texts.append(found.text)
        for _, found in sorted(kept, key=lambda pair: pair[0].lines[1]):
            self.texts.keep(found.sent.slot, found.held)

    def _launched(
        self, request: ReconstructedRequest, members: Sequence[LoggedRequest], playing: _RequestGroup | None
    ) -> SentRequest | None:
        """Simulate a request as ``_best`` does. In a group (``members``), try the numbers of server loop iterations
        after its predecessor until the lines of the group agree, as far as its prompt was evaluated."""
        logged = request.logged
        launches = [one.lines[0] for one in members if one.lines[0] > logged.lines[0]]
        if playing is not None and playing.by_launch and launches:
            playing = playing._replace(until=launches[0])
        if playing is None or not playing.texts:
            return self._best(request, playing)
        sent = [one.logged for one, _ in self.running]
        end = min([*launches[:1], max(last_batch(logged), logged.lines[0]) + 1])     # the rest is not simulated yet
        best: tuple[int, _RequestGroup] | None = None
        for loops in tried_loops(loops_between(sent[-1], logged), [*sent, logged]):
            group = playing._replace(after=loops)
            found = self._best(request, group)
            if found is None:
                return None
            own = [line for line in found.contradicted if line.line < end]
            differing = len(own) + self._contradicted(end)
            if not differing:
                return found
            if best is None or differing < best[0]:
                best = differing, group
            if self.work > self.most:
                break
        return self._best(request, best[1]) if best else None

    def _contradicted(self, end: int) -> int:
        """Return how many lines of the earlier requests of a group, before a line, contradict the simulation."""
        total = 0
        for (one, sent), found in zip(self.running, events_by_task(self.events), strict=False):
            printed = printed_lines(one.logged, self.session.engine, self.started)
            lines = [line for line in printed if line.number < end]
            total += len(contradictions(lines, found, sent.printed))
        return total

    def _lengths_of(self, request: ReconstructedRequest) -> Sequence[AssumedLength]:
        """Return the possible lengths of the prompt of the request added last."""
        return self.lengths[len(self.out.requests) - 1] if self.out.requests[-1] is request else ()

    def _best(self, request: ReconstructedRequest, playing: _RequestGroup | None) -> SentRequest | None:
        """Simulate a request with the first choice that agrees with the log, else the simplest, and leave the server in
        the state after it. When the budget is spent, only the simplest choice is tried."""
        logged = request.logged
        choices = list(dict.fromkeys(islice(self.texts.choices(logged, self._lengths_of(request)), MOST)))
        choices[1:1] = self._uncached(logged, choices[:1])
        choices[:0] = self._resumed_later(logged, choices[:1])
        best: SentRequest | None = None
        found: SentRequest | None = None
        tries = agreeing = 0
        word = self._new_word()
        begin = None if playing else self._copy()
        most = AGAIN if begin is None and playing is None else MOST
        while choices and not (tries and (tries == most or agreeing > FURTHER or self.work > self.most)):
            choice = choices.pop(0)
            if tries and not playing:
                self._reset(self._copy_of(begin))
            tries += 1
            found = self._try(logged, choice, word, playing=playing, begin=begin)
            if found is not None and found.agrees_with(logged):
                if not found.contradicted and (logged.created or {*choice.marks} <= self._created()):
                    return found
                is_explained = not choice.marks or (playing is not None and {*choice.marks} <= self._created())
                if best is None or not agreeing or (is_explained and found.is_nearer(best)):
                    best = found
                agreeing += 1
                marked = self._user_messages(logged, choice, is_alone=playing is None)
                choices[:0] = [choice._replace(marks=marks) for marks in marked]
            best = best or found
        if choices and not agreeing:
            self.out.untried_requests.add(len(self.out.requests) - 1)
        if found is best or best is None:
            return best
        if not playing:
            self._reset(self._copy_of(begin))
        return self._try(logged, best.choice, word, playing=playing, begin=begin)

    def _created(self) -> set[int]:
        """Return the tokens of the checkpoints that the simulated server created for the request sent last."""
        own = events_by_task(self.events)[-1:]
        return {event.n_tokens for events in own for event in events if isinstance(event, CkptCreate)}

    def _uncached(self, logged: LoggedRequest, choices: Sequence[PromptChoice]) -> list[PromptChoice]:
        """Return these choices for a request that may have set ``cache_prompt`` to false: it reused nothing although it
        has a common prefix with its slot, and the server names no other reason."""
        takes = "cache_prompt" in ENGINES[self.blank.engine].manual.takes
        fits = takes and logged.cache_n == 0 and not logged.full
        return [choice._replace(is_cached=False, why=UNCACHED) for choice in choices if fits and choice.lcp]

    def _resumed_later(self, logged: LoggedRequest, choices: Sequence[PromptChoice]) -> list[PromptChoice]:
        """Return these choices with a user message where a later request of the slot resumes, before the end of what it
        shares: a server creates a checkpoint where the last user message begins."""
        takes = "user_starts" in ENGINES[self.blank.engine].manual.takes and not logged.created
        end = grammars()[self.session.engine].end
        at = self._resumption(logged) if takes else 0
        return [choice._replace(marks=(at,)) for choice in choices if 0 < at < choice.length.n_tokens - end]

    def _resumption(self, logged: LoggedRequest) -> int:
        """Return the tokens after which the first later request of a slot resumes that did so within this request's
        evaluated tokens, 0 if none did. The requests between them kept these tokens."""
        begun = logged.least("cache_n")
        for step in islice(self.chain[id(logged)].walk_later(), LATER):
            reused = step.logged.cache_n
            if reused is None:
                return 0
            if begun < reused and step.is_resumed_within:
                return reused if step.is_kept else 0
        return 0

    def _user_messages(self, logged: LoggedRequest, choice: PromptChoice, is_alone: bool) -> Iterator[tuple[int, ...]]:
        """Yield tokens at which user messages may begin: checkpoints of the log that the simulated server does not
        create for the request sent last, except a micro-batch before the end; then also those of the request before.
        A request that was not alone shares its batches, which end at other tokens near the end of its prompt."""
        if choice.marks or "user_starts" not in ENGINES[self.blank.engine].manual.takes:
            return
        made = self._created()
        n_tokens, end = choice.length.n_tokens, grammars()[self.session.engine].end
        made |= {n_tokens - end - size for size in BATCHES}
        missing = {at for at in {*logged.created} - made if 0 < at < n_tokens}
        early = {at for at in missing if at < n_tokens - end - UBATCH}
        if not is_alone and early and early != missing:
            yield tuple(sorted(early))
        if missing:
            yield tuple(sorted(missing))
            yield tuple(sorted(missing | {*self.marks}))

    def _take(self, request: ReconstructedRequest, found: SentRequest) -> None:
        """Add a request and its words to the scenario."""
        length = found.choice.length
        request.step = len(self.lines)
        request.text = found.text
        request.simulated_n = found.sent.cache_n
        request.slot = found.sent.slot
        request.n_tokens = length.n_tokens
        request.is_bounded = length.is_bounded
        task = "" if self.task_kind == COMPLETION else f"{self.task_kind} request, as in all access lines of the log"
        request.assumed = "; ".join(filter(None, (task, length.why, found.choice.why)))
        if found.choice.marks:
            restored = "the log has checkpoints" if request.logged.created else "a later request resumes"
            where = f"user messages begin at {', '.join(f'{at:,}' for at in found.choice.marks)}"
            request.assumed = "; ".join(filter(None, (request.assumed, f"{where}, where {restored}")))
        request.lcp, request.before = found.choice.lcp, found.choice.base
        self.marks = found.choice.marks or self.marks
        self.running.append((request, found.sent))
        self.lines.append(found.text)
        self.words.update({found.word: max(1, found.new)} if found.new else {})
        self.words[found.word.lower()] = found.content.size

    def _fill_slot(self, logged: LoggedRequest) -> None:
        """Fill a slot that was not empty when the log began: send earlier prompts of that length."""
        held = held_before(logged)
        shared = max(prefixes_by_threshold(logged, self.texts.n_swa), default=0)
        common = max(logged.least("lcp"), shared, logged.restored or 0, logged.restored_end or 0)
        reused = logged.least("cache_n") if len(self.lines) == self.fillers else 0
        needed = max(held or 0, logged.seen, common, reused, held_by_window(logged))
        is_begun = logged.slot in self.begun
        self.begun.add(logged.slot)
        earlier = [] if self.started or is_begun else earlier_checkpoints(self.chain[id(logged)])
        end = grammars()[self.session.engine].end
        needed = max([needed, *(at + end for at in earlier)])
        if logged.is_loaded or is_begun or not needed:
            return
        ends, answered = earlier_prompts(logged, needed, end, earlier)
        where = f"@{logged.slot}" if self.names_slots else ""
        begins = self.texts.shared.prefix(needed - 1)
        examined = examined_checkpoints(logged)
        has_messages = "user_starts" in ENGINES[self.blank.engine].manual.takes
        before = self._progress() if has_messages and len(ends) > 1 and examined.issuperset(earlier) else None
        self._send_earlier(begins, ends, answered, where)
        if before is None or self._has_examined(logged):
            return
        several = self._progress()
        self._return_to(before)
        inside = sorted(at for at in examined if at < ends[-1] - end)
        self._send_earlier(begins, ends[-1:], answered, where, inside)
        if not self._has_examined(logged):
            self._return_to(several)

    def _has_examined(self, logged: LoggedRequest) -> bool:
        """True if the slot of a request has the checkpoints that the server examined for it. Below a restored one it
        may have others."""
        self._finish_answers()
        examined = examined_checkpoints(logged)
        least = 0 if logged.full else min(examined)
        held = self.stage.server.inspection.checkpoints(logged.slot)
        return {at for at in held if at >= least} == examined

    def _fill_prompt_cache(self) -> None:
        """Send the conversations that a prompt cache held when the log began, and another prompt after them."""
        end = grammars()[self.session.engine].end
        for earlier in earlier_conversations(self.session.requests):
            listed = listed_checkpoints(self.chain[id(earlier.loaded_by)])
            marks = listed or ([earlier.resumed] if earlier.resumed else [])
            inside = [at for at in marks if at + end <= earlier.n_tokens]
            ends, answered = earlier_prompts(earlier.loaded_by, earlier.n_tokens, end, inside)
            text = self._send_earlier(self.texts.shared, ends, answered, "")
            if not self.texts.shared.size:
                self.texts.shared = text.prefix(earlier.shared)
        between = prompt_between(self.session.requests[0]) if self.lines else 0
        if between:
            self._send_earlier(self.texts.shared.prefix(between - 1), [between], 1, "")

    def _fill_used_slots(self) -> None:
        """Send prompts to slots that were used before the log, so that a server prefers a slot never used."""
        requests = self.session.requests
        used = used_slots(requests, self.stage.server.inspection.n_slots) if self.names_slots else []
        for slot in used:
            first = next((request for request in requests if request.slot == slot), None)
            if first is not None and not first.is_refused:
                self._fill_slot(first)
        for slot in used:
            if slot not in self.texts.slots:
                before = len(self.lines)
                self._send_earlier(self.texts.shared.prefix(OTHER_PROMPT - 1), [OTHER_PROMPT], 1, f"@{slot}")
                self.fillers += len(self.lines) - before

    def _send_earlier(
        self, text: SlotText, ends: Sequence[int], answered: int, where: str, messages: Sequence[int] = ()
    ) -> SlotText:
        """Send prompts of these lengths, each a prefix of the next, that begin with a text. The last has an answer of
        ``answered`` tokens. In each, user messages begin at ``messages``. Return the last prompt."""
        for number, size in enumerate(ends):
            word = self._new_word()
            self.words[word] = size - text.size
            text = text.append_word(word, size - text.size)
            line, last = text.notation(word, messages), answered > 1 and size == ends[-1]
            if last:
                self.words[word.lower()] = answered
                line += f">{word.lower()}{answered}"
            line += where
            sent = self._send([line])
            if sent is None:
                del self.words[word]
                return text
            self.lines.append(line)
            left = text.append_word(word.lower(), answered).prefix(size + answered - 1) if last else text
            if number:
                self.texts.slots[sent.slot] = left._replace(prompt=size)
            else:
                self.texts.keep(sent.slot, left._replace(prompt=size))
        return text

    def _try(
        self,
        logged: LoggedRequest,
        choice: PromptChoice,
        word: str,
        playing: _RequestGroup | None,
        begin: Server | None,
    ) -> SentRequest | None:
        """Send a request with a choice to a server in the state ``begin``, and leave the server in the state after
        it. ``word``: name of its new text. None if the simulator refuses the request."""
        n_tokens = choice.length.n_tokens
        kept = choice.base.prefix(choice.lcp)
        for low, high in logged.chunks if choice.lcp == logged.chunk_start else ():
            kept = kept.append_piece(choice.base, low, min(high, low + n_tokens - kept.size))
        prompt = kept.append_word(word, n_tokens - kept.size)
        size = _answer_length(logged, n_tokens)
        known = dict(self.words)
        self.words |= {word: n_tokens - kept.size} if n_tokens > kept.size else {}
        self.words[word.lower()] = size
        text = prompt.notation(word, choice.marks) + f">{word.lower()}{size}" + ("" if choice.is_cached else "!")
        text += f"{{n_keep={logged.n_keep}}}" if logged.n_keep else ""
        text += f"{{task={self.task_kind}}}" if self.task_kind != COMPLETION else ""
        found, sent = self._sent(text, f"@{logged.slot}" if self.names_slots and logged.is_slot_given else "", playing)
        if self.names_slots and sent is not None and sent.slot != logged.slot:
            if playing is None:
                self._reset(self._copy_of(begin))            # not the logged slot: name it in the request
            found, sent = self._sent(text, f"@{logged.slot}", playing)
        self.words = known
        if sent is None:
            return None
        held = prompt.append_word(word.lower(), size).prefix(n_tokens + size - 1)
        own = events_by_task(self.events)[-1:]
        early = early_lines(printed_lines(logged, self.session.engine, self.started), n_tokens)
        until = None if playing is None else playing.until
        compared = [line for line in early if until is None or line.number < until]
        lines = contradictions(compared, own[0], sent.printed) if own else []
        return SentRequest(
            text=found,
            sent=sent,
            choice=choice,
            word=word,
            new=n_tokens - kept.size,
            content=SlotText().append_word(word.lower(), size),
            held=SlotText(held.parts, n_tokens),
            contradicted=lines,
        )

    def _sent(self, text: str, where: str, playing: _RequestGroup | None) -> tuple[str, RunningPrompt | None]:
        """Send a request after all others, or together with its group. Return its notation and its running prompt."""
        text += where
        if playing is None:
            return text, self._send([text])
        if playing.texts:
            text += f"{{together+{playing.after}}}" if playing.after else "{together}"
        self._reset(self._copy_of(playing.base))
        return text, self._send([*playing.texts, text])


def _task_kind(session: LogSession) -> str:
    """Return the kind of task that all access lines of a log name; "completion" without access lines, or with several
    kinds."""
    return next(iter(session.tasks)) if len(session.tasks) == 1 else COMPLETION


def _window(session: LogSession, model: str) -> int:
    """Return the window [tokens] that the log prints, else that of the layers of a candidate; 0 without a window, and
    for a tiny model that is given by its name."""
    n_swa = session.facts.get("n_swa")
    if isinstance(n_swa, int) and n_swa > 1:
        return n_swa
    if model in ENGINES[session.engine].manual.models:
        return 0
    layers = split_sizes(model)[0].rpartition("-")[2]
    return max(layer.window for layer in parse(layers).layers)


def _found_nothing(logged: LoggedRequest) -> bool:
    """True if the log shows that a request was the first of its server, or found an empty cache."""
    fetched = [] if logged.tied is None else logged.tied.of("fetch")
    return logged.task == 0 or any(line.number_of("prompts") == 0 for line in fetched)


def _answer_length(logged: LoggedRequest, n_tokens: int) -> int:
    """Return the tokens of an answer: as printed, else those that the slot held after the prompt, and the last."""
    if logged.predicted_n:
        return logged.predicted_n
    is_known = logged.end is not None and not logged.truncated and not logged.shifts
    return max(1, logged.end + 1 - n_tokens) if is_known and logged.end is not None else 1


class _Progress(NamedTuple):
    """State of a builder after some requests."""

    server: Server | None
    requests: list[ReconstructedRequest]
    untried: set[int]
    lines: list[str]
    words: dict[str, int]
    texts: SlotTexts
    marks: tuple[int, ...]
    named: int


class _RequestGroup(NamedTuple):
    """Requests sent together."""

    texts: list[str]           # requests so far, in the notation
    base: Server | None        # server before the first of them
    after: int = 0             # server loop iterations between the last of them and the next
    by_launch: bool = False    # each is compared with the lines before the launch of the next
    until: int | None = None   # line before which the next one is compared, None = all its lines
