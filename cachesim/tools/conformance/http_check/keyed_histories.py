"""Histories of a server's adapters and images, after a test whether a wrong adapter or image would show.

Each is judged by its cold answers. If the cold answers under two adapters, or with two images, are equal, a reuse of
the wrong one would be invisible: the property is then undecided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterator, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.media_items import is_item
from cachesim.tools.conformance.client_history import History, parse_history
from cachesim.tools.conformance.history_player import HistoryRun, Outcome
from cachesim.tools.conformance.http_check.adapters import OFF, adapter_bursts, adapter_lines
from cachesim.tools.conformance.http_check.compare_answers import NearAnswers, gap
from cachesim.tools.conformance.http_check.dialect import TEXT, detect_client
from cachesim.tools.conformance.http_check.http_client import Exhausted
from cachesim.tools.conformance.http_check.images import (
    ROOM,
    SHOWN,
    PiecesAndImages,
    image_bursts,
    image_lines,
    image_size,
)
from cachesim.tools.conformance.http_check.known_faults import measure
from cachesim.tools.conformance.http_check.openai_client import CHAT, OpenAIClient, Pieces, RequestFormat
from cachesim.tools.conformance.http_check.warm_run import ServerRunner
from cachesim.tools.conformance.properties import VERSUS_COLD, checks
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply
from cachesim.tools.conformance.report_builder import KeyedHistories

TRIED = 8                    # adapters that are tried for two with different answers
EQUAL = "cold answers {} differ by no more than the tolerance: a wrong one would not show"
LEGAL_IMAGES = ("A8.I{i}x1.B8/A.I.B", "A30.I{i}x1.B8/A.I.B.C1", "A8.I{i}x1.B64/A.I.B[:60].C5")
"""Prompts with the same image split differently, for the noise."""
TEXT_CHATS = ("A8.B16>4/A.C8>4/A.B.D8>4", "A16>4/B40>4/A.C4>4")
"""Chats without images. If they are answered wrong, a wrong answer to an image shows nothing about images."""


class ServerStages:
    """Runs histories without images as token prompts (``text``) and those with images as chats (``images``)."""

    images: ServerRunner | None = None
    image_tokens = 0                     # tokens of an image, 0 = the server takes none
    why = ""                             # reason why images that the server takes cannot be sent

    def __init__(self, text: ServerRunner) -> None:
        self.text = text

    def play(self, history: History) -> HistoryRun:
        """Run a history. Raise BadInput if it has images and the server takes none."""
        if not history.has_images:
            return self.text.play(history)
        if self.images is None:
            raise BadInput(f"{history.line}: {self.why or 'the server takes no images'}", file=self.text.http.url)
        played = self.images.play(history)
        self.text.end = self.text.end or self.images.end
        return played

    def play_undrafted(self, history: History) -> HistoryRun:
        """Run a history without images and without drafts."""
        return HistoryRun(history, gap="chats") if history.has_images else self.text.play_undrafted(history)

    def answer(self, ask: CacheRequest) -> Outcome:
        """Return the cold reply to a request without images."""
        if any(map(is_item, ask.prompt)):
            return Failed("a prompt with an image is not varied")
        return self.text.answer(ask)

    def find_images(self) -> None:
        """Detect whether the server takes images, and how they are sent."""
        server, http = self.text.server, self.text.http
        if server.vision is False or self.images is not None:
            return
        try:
            named = {"model": server.name} if server.client is not None else {}
            trial = OpenAIClient(http, RequestFormat(CHAT, False, named), Pieces([TEXT]))
            self.image_tokens = image_size(trial)
            if not self.image_tokens:
                raise Failed("an image adds no token to a prompt")
            client = detect_client(http, server.name, ((CHAT, False),))
            assert isinstance(client.spelling, Pieces)
            client = OpenAIClient(http, client.way, PiecesAndImages(client.spelling))
        except (BadInput, Failed, Exhausted) as bad:
            cause = bad.cause if isinstance(bad, BadInput) else bad
            self.why = f"images cannot be sent: {cause}" if server.vision or self.image_tokens else ""
            return
        served = replace(server, dialect="openai", client=client, tokens=client.spelling.tokens,
                         drafts=False)  # fmt: skip
        self.images = ServerRunner(http, served, self.text.same, self.text.seed)

    def measure_images(self, most: int) -> float:
        """Return the noise of prompts with images. If one gets no answer, no more are sent."""
        lines = [line.format(i=self.image_tokens) for line in LEGAL_IMAGES]
        try:
            return measure(self.images, most, lines) if self.images is not None else 0.0
        except BadInput as bad:
            self.images, self.why = None, f"images cannot be sent: {bad.cause}"
        return 0.0


def keyed_histories(stages: ServerStages, tolerance: float, n: int, most: int,
                    at_once: int) -> Iterator[tuple[str, KeyedHistories]]:  # fmt: skip
    """Yield the histories of "adapter" and "image", each if the server has them. ``n``: tokens of a prompt; ``most``:
    of the longest; ``at_once``: requests that arrive together."""
    adapters = stages.text.server.adapters
    chosen = tuple(_telling(stages, tolerance)) if adapters else ()
    if adapters:
        plain = any(not one.invoked for one in adapters)
        why = EQUAL.format("under an adapter and without it") if plain else "aLoRA adapters are not asked for"
        lines, together = (adapter_lines(chosen, n), adapter_bursts(chosen, n, at_once)) if chosen else ((), ())
        yield "adapter", KeyedHistories(lines, "" if chosen else why, together)
        yield "base", KeyedHistories((), "" if chosen else why)          # the same histories
    if stages.images is None:
        if stages.why:
            yield "image", KeyedHistories((), stages.why)
        return
    size = stages.image_tokens
    if 2 * size + ROOM > most:
        yield "image", KeyedHistories((), f"two images of {size} tokens do not fit into a prompt of {most}")
    elif not _far(_cold(stages, SHOWN.format(i=size)), tolerance):
        yield "image", KeyedHistories((), EQUAL.format("to two images"))
    elif any(_wrong(stages.images, line, tolerance) and _wrong(stages.images, line, tolerance) for line in TEXT_CHATS):
        yield "image", KeyedHistories((), "chats without images are answered wrong, too")
    else:
        yield "image", KeyedHistories(image_lines(size), "", image_bursts(size, most // (2 * size + ROOM), at_once))


def _telling(stages: ServerStages, tolerance: float) -> Iterator[str]:
    """Yield lists of an adapter each whose cold answers differ from each other and from the answer without any."""
    lists = [f"{number}:1" for number, one in enumerate(stages.text.server.adapters) if not one.invoked][:TRIED]
    line = f"A40>4{{lora={OFF}}}" + "".join(f"/A>4{{lora={text}}}" for text in lists)
    first, *others = _cold(stages, line) or [None]
    known = [first]
    for text, answer in zip(lists, others, strict=False):
        if all(_far([one, answer], tolerance) for one in known):
            known.append(answer)
            yield text


def _cold(stages: ServerStages, line: str) -> list[Any]:
    """Return the cold answers to a history, None for an answer that is missing."""
    played = stages.play(parse_history(line))
    return [one.fingerprint if isinstance(one, Reply) else None for one in played.cold]


def _wrong(runner: ServerRunner, line: str, tolerance: float) -> bool:
    """True if an answer differs from a cold run's."""
    played = runner.play(parse_history(line))
    return any(not check.ok for check in checks(played, NearAnswers(tolerance)) if check.name in VERSUS_COLD)


def _far(answers: Sequence[Any], tolerance: float) -> bool:
    """True if the first two answers are known and differ."""
    return len(answers) > 1 and None not in answers[:2] and gap(answers[0], answers[1]) > tolerance
