"""Images, sounds and files in a message, as their size and a digest of their bytes or of their address.

Two parts are equal if they carry the same bytes, whatever their encoding and whatever marks (``cache_control``) the
client puts beside them. Neither bytes nor addresses are kept.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any, Iterator

from cachesim.tools.request_bodies.body import IMAGE, BodyText, encoded

MEDIA = ("image", "image_url", "input_image", "input_audio", "audio", "audio_url", "video", "video_url", "file",
         "input_file", "document")  # fmt: skip
"""Types of content blocks of all APIs that are not text."""
MARKER = "<__media__>"
"""Text in a raw prompt of llama-server that stands for the next entry of ``multimodal_data``."""
_BESIDE = frozenset({"cache_control", "type", "media_type", "mime_type", "format", "id", "status", "filename"})
"""Keys that do not change the data."""
_ENCODED = frozenset({"data", "file_data"})


def media_part(value: dict[str, Any], path: str) -> BodyText:
    """Return a content block of a type in ``MEDIA`` as a part."""
    return _part(value["type"], [(key, entry) for key, entry in value.items() if key not in _BESIDE], path)


def media_list(values: Any, path: str) -> list[BodyText]:
    """Return a list of base64 texts as parts: ``images`` of Ollama, ``multimodal_data`` of llama-server."""
    return [_part("image", [("data", value)], f"{path}[{i}]") for i, value in enumerate(values)] \
        if isinstance(values, list) else []  # fmt: skip


def split_at_media(text: str, values: Any, path: str, media_path: str) -> Iterator[tuple[str, str] | BodyText]:
    """Yield the texts of a raw prompt with their paths, and its media at their markers. Media without a marker follow
    the text."""
    media, at = media_list(values, media_path), 0
    for part in media:
        end = text.find(MARKER, at)
        if end < 0:
            break
        yield (f"{path}[{at}:]" if at else path), text[at:end]
        yield part
        at = end + len(MARKER)
    yield (f"{path}[{at}:]" if at else path), text[at:]
    yield from media[text.count(MARKER) :]


def _part(kind: str, values: list[tuple[str, Any]], path: str) -> BodyText:
    digest, size = hashlib.sha256(), 0
    for name, data in _leaves(values):
        digest.update(b"%d %d " % (len(name), len(data)) + name + data)
        size += len(data)
    return BodyText(IMAGE, path, f"<{kind} {size} bytes {digest.hexdigest()[:16]}>")


def _leaves(values: list[tuple[str, Any]]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the bytes of every value, in the order of the names."""
    for key, value in sorted(values, key=lambda pair: pair[0]):
        if isinstance(value, dict):
            yield from _leaves([(str(name), entry) for name, entry in value.items() if name not in _BESIDE])
        elif isinstance(value, list):
            for entry in value:
                yield from _leaves([(key, entry)])
        elif isinstance(value, str):
            yield _bytes(key, value)
        else:
            yield encoded(key), json.dumps(value).encode()


def _bytes(key: str, text: str) -> tuple[bytes, bytes]:
    """Return the name and the bytes of a text: decoded for base64 and for data URLs, which count as the same data."""
    address, comma, data = text.partition(",")
    inline = address[:5].lower() == "data:" and address.endswith(";base64") and bool(comma)
    if inline or key in _ENCODED:
        try:
            return b"data", base64.b64decode("".join((data if inline else text).split()), validate=True)
        except ValueError:
            pass
    return encoded(key), encoded(text)
