"""Tests of the images that are sent: files, chats and histories."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from cachesim.base.media_items import image_items
from cachesim.tools.conformance.client_history import TokenDictionary, parse_history
from cachesim.tools.conformance.http_check.images import (
    SIDE,
    PiecesAndImages,
    image_lines,
    image_part,
    image_size,
    png,
)
from cachesim.tools.conformance.http_check.openai_client import CHAT, OpenAIClient, Pieces, RequestFormat
from cachesim.tools.conformance.protocol import Failed
from tests.unit.tools.conformance.http_check.in_process import InProcess
from tests.unit.tools.conformance.http_check.keyed_stand_in import IMAGE, KeyedServer

PIECES = Pieces([" a", " b", " c"])


def pixels(data):
    """Return the rows of an image, after checking the file."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size]) == (zlib.crc32(kind + body),)
        chunks[kind], at = body, at + 12 + size
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (SIDE, SIDE, 8, 2, 0, 0, 0) and chunks[b"IEND"] == b""
    raw = zlib.decompress(chunks[b"IDAT"])
    rows = [raw[at : at + 1 + 3 * SIDE] for at in range(0, len(raw), 1 + 3 * SIDE)]
    assert len(rows) == SIDE and all(row[0] == 0 for row in rows)
    return [row[1:] for row in rows]


def test_two_images_have_one_size_and_other_contents():
    one, two = pixels(png(1)), pixels(png(2))
    differ = sum(a != b for x, y in zip(one, two, strict=True) for a, b in zip(x, y, strict=True))
    assert png(1) == png(1) and differ > 0.9 * SIDE * SIDE * 3


def test_an_image_is_a_part_between_texts():
    spelling, image = PiecesAndImages(PIECES), image_items("x", 4, 4)
    part = image_part(image[0])
    before, behind = {"type": "text", "text": " a b"}, {"type": "text", "text": " c"}
    assert spelling.prompt((0, 1, *image, 2)) == [before, part, behind]
    assert spelling.prompt((*image, *image, 2)) == [part, part, behind]
    assert spelling.prompt((0, 1)) == " a b"
    data = base64.b64decode(part["image_url"]["url"].removeprefix("data:image/png;base64,"))
    assert data == png(image[0])


def test_words_are_one_image_in_a_run_and_another_in_the_next():
    prompts = [step.request.prompt for step in parse_history("A1.I4x1.B1/A.J4x1.B/A.I.C1").scenario.steps]
    one, two, three = [TokenDictionary(range(64), "7").real(prompt)[1:5] for prompt in prompts]
    assert one == three != two and TokenDictionary(range(64), "8").real(prompts[0])[1:5] != one


def test_an_image_is_measured_by_what_it_adds_to_a_chat():
    def size(server):
        return image_size(OpenAIClient(InProcess(server.complete), RequestFormat(CHAT, False, {}), PIECES))

    assert size(KeyedServer(chat=True, base=9)) == IMAGE
    with pytest.raises(Failed):
        size(KeyedServer(chat=True, blind=True))


def test_no_prompt_of_a_history_ends_with_an_image():
    for line in image_lines(5):
        history = parse_history(line)
        assert history.has_images and all(step.prompt[-1].word not in "IJ" for step in history.asked)
