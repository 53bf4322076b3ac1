"""Events of images in prompts."""

from __future__ import annotations

from cachesim.events.base import Event, SlotEvent, frozen


@frozen
class MediaEncode(SlotEvent, ev="media_encode"):
    """An image is encoded. ``idx``: index of its first item in the prompt."""

    idx: int
    n_chunks: int


@frozen
class MediaDecode(Event, ev="media_decode"):
    """A piece of an image is evaluated: the n-th ``of`` several."""

    n: int
    of: int
    n_tokens: int


@frozen
class MediaError(SlotEvent, ev="error"):
    """An error that the log prints with the slot."""

    text: str
