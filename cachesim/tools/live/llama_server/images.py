"""Images of a recording: files drawn from the items of a scenario, and prompts as the server receives them.

The server reads a prompt with images as text with markers, beside the files. It tokenizes the text between two images
by itself, and puts the texts of the projector around each image.
Source: llama.cpp tools/server/server-common.cpp process_mtmd_prompt, tools/mtmd/mtmd.cpp mtmd_tokenizer (b11549).
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from hashlib import sha256, shake_256
from typing import Any, Callable, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.media_items import MediaItem, image_items, is_item, item_at, next_image
from cachesim.base.tokens import Tokens
from cachesim.engines.shared.vocab import PIECES
from cachesim.tools.live.llama_server.gguf_projectors import PROJECTORS, projector_in
from cachesim.tools.live.llama_server.process import MEDIA_MARKER

_LONGEST_FIRST = re.compile("|".join(map(re.escape, sorted(PIECES, key=len, reverse=True))))
_TOKENS = {text: token for token, text in enumerate(PIECES)}
Step = dict[str, Any]


class Images:
    """Images of a server that was started with these flags."""

    def __init__(self, flags: Sequence[str]) -> None:
        self.kind = projector_in(flags)
        self._made: dict[int, Tokens] = {}                      # first item in a scenario -> items in the recording
        self._sent: dict[int, dict[str, Any]] = {}              # first item in the recording -> entry of its header

    def placed(self, step: Mapping[str, Any]) -> Step:
        """Return a step with the prompts that the server will have. Raise BadInput without a projector, and for an
        image of a size that this projector does not make."""
        return _with_prompts(step, self._placed)

    def named(self, step: Mapping[str, Any]) -> Step:
        """Return a step in the format of a recording: with the names of images."""
        return _with_prompts(step, self._named, form="media")

    def wire(self, prompt: Sequence[int]) -> Any:
        """Return the ``prompt`` field of a request: a list of tokens without images, text and files with images."""
        if not any(map(is_item, prompt)):
            return list(prompt)
        texts, files = [""], list[str]()
        begin, end = self._around
        parts = list(_parts(prompt))
        for n, (image, tokens) in enumerate(parts):
            if image:
                files.append(self._sent[tokens[0]]["png"])
                texts.append("")
            else:                                               # the server adds the texts around images
                behind = len(end) if n else 0
                before = len(begin) if n + 1 < len(parts) else 0
                texts[-1] += "".join(PIECES[token] for token in tokens[behind : len(tokens) - before])
        return {"prompt_string": MEDIA_MARKER.join(texts), "multimodal_data": files}

    def header(self) -> dict[str, Any]:
        """Return the fields of the recording's header, {} without a projector."""
        if not self.kind:
            return {}
        begin, end = map(list, self._around)
        images = {one["name"]: {name: one[name] for name in one if name != "name"} for one in self._sent.values()}
        env = {"LLAMA_MEDIA_MARKER": MEDIA_MARKER}
        return {"env": env, "projector": {"begin": begin, "end": end}, "images": images}

    @property
    def _around(self) -> tuple[Tokens, Tokens]:
        made = PROJECTORS[self.kind]
        return tokenize(made.begin), tokenize(made.end)

    def _placed(self, prompt: Sequence[int]) -> list[int]:
        if not self.kind:
            raise BadInput("the prompt has an image", hint="server option mmproj names the kind of a projector")
        out, (begin, end) = list[int](), self._around
        for image, tokens in _parts(prompt):
            if image:
                if tokens[0] not in self._made:
                    self._made[tokens[0]] = self._draw(image, tokens[0])
                out += [*begin, *self._made[tokens[0]], *end]
            else:
                out += tokenize("".join(PIECES[token] for token in tokens))
        return out

    def _draw(self, image: MediaItem, first: int) -> Tokens:
        """Draw the image of a scenario's item; return its items in the recording."""
        made = PROJECTORS[self.kind]
        columns, rows = image.n_pos, image.n_tokens // image.n_pos
        if made.size not in (None, (columns, rows)):
            raise BadInput(f"image {columns}x{rows}: projector {self.kind} makes {made.size} embeddings of every image")
        png = draw_png(first, columns * made.pixels, rows * made.pixels)
        n_pos = image.n_tokens if made.is_flat else image.n_pos
        digest = sha256(png).hexdigest()
        items = image_items(digest, image.n_tokens, n_pos)
        self._sent[items[0]] = {"name": f"image{len(self._sent)}", "sha256": digest, "n_tokens": image.n_tokens,
                                "n_pos": n_pos, "png": base64.b64encode(png).decode()}  # fmt: skip
        return items

    def _named(self, prompt: Sequence[int]) -> list[Any]:
        out: list[Any] = []
        for image, tokens in _parts(prompt):
            out += [{"image": self._sent[tokens[0]]["name"]}] if image else tokens
        return out


def _with_prompts(step: Mapping[str, Any], change: Callable[[Sequence[int]], list[Any]],
                  **more: str) -> Step:  # fmt: skip
    """Return a step with changed prompts, where they have images, and ``more`` fields in these requests."""
    out = dict(step)
    if "steps" in out:
        out["steps"] = [_with_prompts(member, change, **more) for member in out["steps"]]
    elif any(map(is_item, out.get("request", {}).get("prompt", ()))):
        out["request"] = {**out["request"], "prompt": change(out["request"]["prompt"]), **more}
    return out


def _parts(prompt: Sequence[int]) -> Iterator[tuple[MediaItem | None, Sequence[int]]]:
    """Yield images and the texts between them, texts with None."""
    at = 0
    while at < len(prompt):
        image = item_at(prompt, at)
        end = at + image.n_tokens if image else next_image(prompt, at, len(prompt))
        yield image, prompt[at:end]
        at = end


def tokenize(text: str) -> Tokens:
    """Return the tokens of a text in the vocabulary of the tiny models."""
    return tuple(_TOKENS[piece] for piece in _LONGEST_FIRST.findall(text))


def draw_png(seed: int, width: int, height: int) -> bytes:
    """Return a PNG file of random pixels, which depends only on the arguments."""
    pixels = shake_256(str(seed).encode()).digest(3 * width * height)
    rows = b"".join(b"\0" + pixels[at : at + 3 * width] for at in range(0, len(pixels), 3 * width))
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)),
             (b"IEND", b""))  # fmt: skip
    chunks = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
              for kind, data in parts)  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
