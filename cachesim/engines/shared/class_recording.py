"""Recordings of the classes of a real server, driven step by step without a model."""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.engines.base import Answer, Request


class PlayedStep(NamedTuple):
    """What a server did in a step of a recording: fields with the values that the recording should have, and answers to
    judge, each with the number of its request."""

    fields: Mapping[str, Any]
    said: Sequence[tuple[int, Request, Answer]] = ()


class ClassRecording(NamedTuple):
    """Recordings of the classes of a real server, driven step by step without a model. ``setup`` returns model and
    options from a header's ``config``; ``play`` returns a function that performs a step of the recording on a server;
    ``wrong`` returns the requests that a step of the recording marks as wrong."""

    setup: Callable[[Mapping[str, Any]], tuple[str, Mapping[str, Any]]]
    play: Callable[[Any, Mapping[str, Any]], Callable[[Mapping[str, Any]], PlayedStep]]
    wrong: Callable[[Mapping[str, Any]], AbstractSet[int]]
    undecided: Callable[[Mapping[str, Any]], str] = lambda header: ""  # why answers cannot be judged, "" = they can
