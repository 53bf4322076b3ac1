"""Record of a run by an observer of its own: the contents of the server and its events, without the judge."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.base.keyed_tokens import with_keys
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.registry import engine_named
from cachesim.events import Event, Launch
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.scenarios.schema import Action, Scenario, Step


class Contents(NamedTuple):
    """Contents of a server: the tokens of each slot, and of each stored object by kind."""

    slots: Mapping[int, Tokens]
    stored: tuple[tuple[str, Tokens], ...]

    def longest_share(self, prompt: Tokens) -> int:
        """Return the most tokens that the prompt has in common with a slot or a stored object."""
        texts = [*self.slots.values(), *(tokens for _, tokens in self.stored)]
        return max((common_prefix(tokens, prompt) for tokens in texts), default=0)

    def lengths(self, kind: str) -> list[int]:
        """Return the lengths of the stored objects of a kind [tokens]."""
        return sorted(len(tokens) for of, tokens in self.stored if of == kind)


class Witness(SilentObserver):
    """Observer that records the contents before and after each step, and the slot of each launched request."""

    def __init__(self) -> None:
        self.before: dict[int, Contents] = {}
        self.after: dict[int, Contents] = {}
        self.launched: dict[int, tuple[int, Tokens]] = {}
        self.prompts: dict[int, Tokens] = {}
        self.texts: dict[int, Tokens] = {}                 # prompt and answer
        self.answers: dict[int, Answer] = {}

    def started(self, server: Server) -> None:
        """Attach to a server that has started."""
        self.server = server
        server.log.listener = self._record_launch

    def _record_launch(self, event: Event) -> None:
        if not isinstance(event, Launch) or event.slot is None:
            return
        answer = self.server.inspection.answer_at(event.slot)
        if answer is not None and not self.server.inspection.is_further(event.slot):
            self.launched.setdefault(answer.request, (event.slot, self.server.inspection.tokens_of(event.slot)))

    def begins(self, number: int, step: Step) -> None:
        """Record the contents when a step arrives."""
        self.before[number] = self._contents()

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Record the prompt, the answer and the contents after it."""
        prompt = request.prompt
        self.prompts[number] = with_keys(prompt, answer.keys) if answer.keys else prompt
        whole = prompt + tuple(answer.tokens)
        self.texts[number] = with_keys(whole, answer.keys) if answer.keys else whole
        self.answers[number] = answer
        self.after[number] = self._contents()

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """Record the contents after a step that is not a completion."""
        self.after[number] = self._contents()

    def _contents(self) -> Contents:
        inspection = self.server.inspection
        slots = {slot: inspection.tokens_of(slot) for slot in inspection.occupied_slots()}
        return Contents(slots, tuple((key[0], inspection.stored(key).tokens) for key in inspection.kept()))


class RunFacts:
    """Events and contents of a run. Steps that were sent together share their events."""

    def __init__(self, scenario: Scenario, profile: str) -> None:
        self.witness, self.steps = Witness(), scenario.steps
        self.pooled = not engine_named(scenario.engine).manual.slots
        self.log = play(scenario, profile, "provenance", self.witness)

    def group(self, number: int) -> range:
        """Return the steps that were sent together with a step."""
        first, stop = number, number + 1
        while self.steps[first].together:
            first -= 1
        while stop < len(self.steps) and self.steps[stop].together:
            stop += 1
        return range(first, stop)

    def events(self, number: int, *kinds: type[Event]) -> Iterator[Any]:
        """Yield the events of a step and of those sent together with it, of these kinds."""
        for step in self.group(number):
            yield from (event for event in self.log.of(step) if not kinds or isinstance(event, kinds))

    def happened(self, number: int, kind: type[Event], **fields: object) -> bool:
        """True if an event of this kind with these fields occurred during a step."""
        return any(all(getattr(event, name) == value for name, value in fields.items())
                   for event in self.events(number, kind))  # fmt: skip
