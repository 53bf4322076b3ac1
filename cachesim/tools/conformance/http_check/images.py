"""Images for a server: small PNG files of equal size with different contents, chats with them, and their histories.

An image is a run of items (``cachesim.base.media_items``) in a prompt. It is sent in a chat, between texts: a prompt
that ends with an image, or a token array with the tokens of one, ends some servers.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, Sequence

from cachesim.base.media_items import is_item, item_at
from cachesim.base.tokens import Tokens
from cachesim.model.hash_mixing import mix_int
from cachesim.tools.conformance.http_check.openai_client import OpenAIClient, Pieces

SIDE, TILE = 64, 8           # of an image and of its plain tiles [pixels]


def png(seed: int) -> bytes:
    """Return an image of tiles whose colours depend on the seed."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    tiles = SIDE // TILE
    state, rows = mix_int(seed), b""
    for _ in range(tiles):
        row = b""
        for _ in range(tiles):
            state = mix_int(state)
            row += (state & 0xFFFFFF).to_bytes(3, "big") * TILE
        rows += (b"\0" + row) * TILE                 # filter 0: the bytes as they are
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def image_part(seed: int) -> dict[str, Any]:
    """Return the part of a chat message that is an image."""
    data = base64.b64encode(png(seed)).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


class PiecesAndImages(Pieces):
    """Prompts as the content of a chat message, in which images are parts."""

    def __init__(self, pieces: Pieces) -> None:
        super().__init__(pieces.pieces, pieces.base)
        self.lead = pieces.lead

    def prompt(self, tokens: Tokens) -> str | list[Any]:
        """Return the text of these pieces, or its parts if it has images."""
        if not any(map(is_item, tokens)):
            return super().prompt(tokens)
        parts, text = list[Any](), list[int]()
        for token in tokens:
            item = item_at((token,), 0)
            if item is None:
                text.append(token)
            elif item.number == 0:
                parts += [*self._text(text), image_part(token)]
                text = []
        return [*parts, *self._text(text)]

    def _text(self, tokens: Sequence[int]) -> list[dict[str, Any]]:
        return [{"type": "text", "text": super().prompt(tuple(tokens))}] if tokens else []


def image_size(client: OpenAIClient) -> int:
    """Return the tokens that an image adds to a chat. Raise Failed if the server refuses images."""
    before, behind = client.spelling.prompt((0,) * 8), client.spelling.prompt((0,) * 9)
    parts = [{"type": "text", "text": before}, image_part(1), {"type": "text", "text": behind}]
    return max(0, client.length(parts) - client.length(f"{before}{behind}"))


ROOM = 80                    # tokens of texts beside two images
SHOWN = "A8.I{i}x1.B8>4/A.J{i}x1.B>4"
"""Two images whose answers should differ."""
PATTERNS = (
    "A8.I{i}x1.B8>4/A.J{i}x1.B>4/A.I.B>4",
    "A4.I{i}x1.B8>4/A.J{i}x1.B>4/A.I.C8>4/A.J.C>4",
    "A8.I{i}x1.B8>4/A.I.C8>4/A.J{i}x1.C>4",
    "A8.I{i}x1.B8>b4/A.I.B.b.J{i}x1.C8>4/A.I.B.b.I.C>4/A.I.B.b.J.C>4",
    "A8.I{i}x1.B8.J{i}x1.C8>4/A.J.B.I.C>4/A.I.B.J.C>4",
    "A8.I{i}x1.B8>4/C40/A.J{i}x1.B>4/A.B>4",
)


def image_lines(size: int) -> tuple[str, ...]:
    """Return histories with images of this size [tokens]. None of them selects adapters: all chats share the tokens of
    a template, which another adapter would have computed."""
    return tuple(line.format(i=size) for line in PATTERNS)


def image_bursts(size: int, room: int, at_once: int) -> tuple[str, ...]:
    """Return histories with two images in chats that arrive together: ``at_once`` chats, at most ``room``, which fit
    into the context together. In the last one all chats have the second image, after a chat with the first."""
    number = min(room, at_once)
    chats = "".join(f"/A.{'JI'[place % 2]}.B>4{{together}}" for place in range(1, number - 1))
    chats = f"/A.J{size}x1.B>4{{together}}" + chats
    alike = f"/A.J{size}x1.B>4" + "/A.J.B>4{together}" * (number - 1)
    first = f"A8.I{size}x1.B8>4"
    return (first + chats, f"{first}/A.I.B>4{chats}", first + alike) if number > 1 else ()
