"""Tests of the images that are sent: files, chats and histories."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from cachesim.base.media_items import image_items
from cachesim.model.hash_mixing import mix_int
from cachesim.tools.conformance.client_history import TokenDictionary, parse_history
from cachesim.tools.conformance.http_check.images import (
    SIDE,
    TILE,
    PiecesAndImages,
    image_bursts,
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
    http = InProcess(KeyedServer(chat=True, base=9).complete)
    image_size(OpenAIClient(http, RequestFormat(CHAT, False, {}), PIECES))
    with_image, without = (body["messages"][-1]["content"] for _, body in http.asked)
    assert [part["type"] for part in with_image] == ["text", "image_url", "text"] and with_image[1] == image_part(1)
    assert without == with_image[0]["text"] + with_image[2]["text"] == " a" * 17
    with pytest.raises(Failed):
        size(KeyedServer(chat=True, blind=True))


def test_no_prompt_of_a_history_ends_with_an_image():
    for line in image_lines(5):
        history = parse_history(line)
        assert history.has_images and all(step.prompt[-1].word not in "IJ" for step in history.asked)


def test_the_first_tile_has_the_first_three_bytes_of_the_mixed_seed():
    rows = pixels(png(5))
    first, second = (mix_int(mix_int(5)), mix_int(mix_int(mix_int(5))))
    colours = [(one & 0xFFFFFF).to_bytes(3, "big") for one in (first, second)]
    assert rows[0][: 3 * TILE] == colours[0] * TILE and rows[0][3 * TILE : 6 * TILE] == colours[1] * TILE
    assert rows[TILE - 1] == rows[0] != rows[TILE]


@pytest.mark.parametrize(("room", "at_once", "bursts"), [
    (9, 3, ("A8.I5x1.B8>4/A.J5x1.B>4{together}/A.I.B>4{together}",
            "A8.I5x1.B8>4/A.I.B>4/A.J5x1.B>4{together}/A.I.B>4{together}",
            "A8.I5x1.B8>4/A.J5x1.B>4/A.J.B>4{together}/A.J.B>4{together}")),
    (2, 9, ("A8.I5x1.B8>4/A.J5x1.B>4{together}", "A8.I5x1.B8>4/A.I.B>4/A.J5x1.B>4{together}",
            "A8.I5x1.B8>4/A.J5x1.B>4/A.J.B>4{together}")),
    (1, 9, ()), (9, 1, ()),
])  # fmt: skip
def test_chats_with_two_images_arrive_together_as_far_as_they_fit(room, at_once, bursts):
    assert image_bursts(5, room, at_once) == bursts


def test_a_missing_space_before_answers_is_that_of_the_pieces():
    pieces = Pieces([" a", " b"], 3)
    pieces.lead = " "
    made = PiecesAndImages(pieces)
    assert (made.lead, made.base, list(made.pieces)) == (" ", 3, [" a", " b"])
