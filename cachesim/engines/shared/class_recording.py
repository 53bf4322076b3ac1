"""Recordings of the classes of a real server, driven step by step without a model."""

from __future__ import annotations

from functools import partial
from typing import AbstractSet, Any, Callable, Iterable, Mapping, NamedTuple

from cachesim.base.errors import BadInput, quoted
from cachesim.base.keyed_tokens import Keys
from cachesim.base.media_items import image_items
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer, Output, Request
from cachesim.events import Event, frozen


@frozen
class RecordedEvent(Event, logged=False):
    """An event that the server does not log, and that a recording of its classes holds as lists."""

    def rows(self) -> list[list[Any]]:
        """Return the event as a recording holds it: lists of its kind and its fields, without an empty list at the
        end. The original has no fields with a default."""
        ours = len(type(self).__init__.__defaults__ or ())
        row = [self.ev, *map(partial(getattr, self), self.__match_args__[: len(self.__match_args__) - ours])]
        return [row[:-1] if row[-1] in ([], ()) else row]


class PlayedStep(NamedTuple):
    """What a server did in a step of a recording: fields with the values that the recording should have, and answers to
    judge, each with the number of its request; they are made when they are read."""

    fields: Mapping[str, Any]
    said: Iterable[tuple[int, Request, Answer]] = ()


def answer_so_far(number: int, held: Tokens, outputs: list[Output], keys: Keys = ()) -> tuple[int, Request, Answer]:
    """Return the outputs of a request in a step, after these tokens, as an answer to be judged."""
    answer = Answer(number, cancelled=True, slot_tokens=held, prompt=held, outputs=outputs, keys=keys)
    return number, Request(held), answer


class StepPlayer:
    """Performs the steps of a recording on a server: a step of the operation ``op`` with the method ``_op_``, which
    returns fields. ``said``: answers of the step to judge; ``named``: fields of requests in the recording, and ours."""

    named: Mapping[str, str]
    said: Iterable[tuple[int, Request, Answer]]

    def __init__(self, server: Any, data: Mapping[str, Any]) -> None:
        self.server, self.requests = server, data["requests"]

    def __call__(self, step: Mapping[str, Any]) -> PlayedStep:
        """Perform a step."""
        self.first, self.said = len(self.server.log.events), ()
        play = getattr(self, f"_op_{step['op']}", None)
        if play is None:
            raise BadInput(f"unknown operation {quoted(step['op'])}")
        fields = play(step)
        return PlayedStep(fields, self.said)

    def rows(self, stop: int | None = None) -> list[list[Any]]:
        """Return the recorded events of the step, those before ``stop``, and go on after them."""
        found, self.first = self.server.log.events[self.first : stop], stop or len(self.server.log.events)
        return [row for event in found if isinstance(event, RecordedEvent) for row in event.rows()]

    def _op_add(self, step: Mapping[str, Any]) -> dict[str, Any]:
        sent = self.requests[str(step["req"])]
        prompt = list(sent["prompt"])
        for first, length, name in sent.get("images", ()):
            prompt[first : first + length] = image_items(name, length, length)
        self._send({**sent, "prompt": prompt})
        return {"req": self.server.slots[-1].id}

    def _send(self, sent: Mapping[str, Any]) -> None:
        """Submit and receive a request of the recording."""
        extra = {ours: sent[name] for name, ours in self.named.items() if name in sent}
        answer = tuple(sent["answer"])
        self.server.submit(Request(tuple(sent["prompt"]), len(answer), forced=answer,
                                   cache_prompt=not sent.get("skip_read"), extra=extra))  # fmt: skip
        self.server.take_tasks()

    def _op_abort(self, step: Mapping[str, Any]) -> dict[str, Any]:
        self.server.abort(self.server.slots[step["req"]])
        return {"ev": self.rows()}


def marked(step: Mapping[str, Any], mark: str) -> set[int]:
    """Return the requests of a step of a recording that have this mark."""
    return {int(request) for request, marks in step.get("bad", {}).items() if mark in marks}


class ClassRecording(NamedTuple):
    """Recordings of the classes of a real server, driven step by step without a model. ``setup`` returns model and
    options from a header's ``config``; ``play`` returns a function that performs a step of the recording on a server;
    ``wrong`` returns the requests that a step of the recording marks as wrong."""

    setup: Callable[[Mapping[str, Any]], tuple[str, Mapping[str, Any]]]
    play: Callable[[Any, Mapping[str, Any]], Callable[[Mapping[str, Any]], PlayedStep]]
    wrong: Callable[[Mapping[str, Any]], AbstractSet[int]]
    undecided: Callable[[Mapping[str, Any]], str] = lambda header: ""  # why answers cannot be judged, "" = they can
