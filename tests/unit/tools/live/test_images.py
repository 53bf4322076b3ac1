"""Tests of prompts with images as they are sent, as the server has them, and as they are recorded."""

from __future__ import annotations

import base64
import zlib

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items, is_item
from cachesim.engines.shared.vocab import PIECES
from cachesim.replay.recorded_requests import with_images
from cachesim.tools.live.llama_server.images import MEDIA_MARKER, Images, draw_png, tokenize

FLAGS = ["--mmproj", "MODELS/tiny-mmproj-qwen2vl.gguf"]
WIDE, CAT, DOG = image_items("0", 8, 4), image_items("1", 4, 2), image_items("2", 4, 2)
TEXT, MORE = (150, 151, 152), (300, 13)


def step(*parts):
    return {"op": "completion", "request": {"prompt": list(sum(parts, ())), "n_predict": 1}}


def placed(images, *parts):
    return images.placed(step(*parts))["request"]["prompt"]


def test_the_server_has_the_texts_of_the_projector_around_an_image():
    images = Images(FLAGS)
    prompt = placed(images, TEXT, WIDE, MORE)
    begin, end = tokenize("<|vision_start|>"), tokenize("<|vision_end|>")
    assert prompt[:3] == list(TEXT) and tuple(prompt[3:19]) == begin and tuple(prompt[27:41]) == end
    assert len(begin) == 16 and len(end) == 14 and all(map(is_item, prompt[19:27])) and tuple(prompt[41:]) == MORE


def test_texts_and_files_are_sent_in_order():
    images = Images(FLAGS)
    sent = images.wire(placed(images, CAT, DOG, TEXT, CAT))
    text = "".join(PIECES[token] for token in TEXT)
    assert sent["prompt_string"] == f"{MEDIA_MARKER}{MEDIA_MARKER}{text}{MEDIA_MARKER}"
    first, second, third = map(base64.b64decode, sent["multimodal_data"])
    assert first == third != second
    assert images.wire(TEXT) == list(TEXT)
    more = "".join(PIECES[token] for token in MORE)
    assert images.wire(placed(images, TEXT, CAT, MORE))["prompt_string"] == f"{text}{MEDIA_MARKER}{more}"


def test_a_recording_names_its_images():
    images = Images(FLAGS)
    made = images.placed({"op": "parallel", "steps": [step(TEXT, CAT), step(MORE), step(CAT, WIDE)]})
    named, header = images.named(made), images.header()
    assert [member["request"].get("form") for member in named["steps"]] == ["media", None, "media"]
    assert [one for one in named["steps"][0]["request"]["prompt"] if not isinstance(one, int)] == [{"image": "image0"}]
    assert [(one["n_tokens"], one["n_pos"]) for one in header["images"].values()] == [(4, 2), (8, 4)]
    again = with_images(named, header["images"])
    for ours, theirs in zip(again["steps"], made["steps"], strict=True):
        assert ours["request"]["prompt"] == theirs["request"]["prompt"]
    assert header["projector"]["end"] == list(tokenize("<|vision_end|>"))


def test_an_image_that_comes_again_is_the_same_file_with_the_same_name():
    images = Images(FLAGS)
    first = placed(images, TEXT, CAT)
    assert placed(images, TEXT, CAT, DOG)[: len(first)] == first and placed(images, TEXT, CAT) == first
    assert [*images.header()["images"]] == ["image0", "image1"]


def test_the_file_of_an_image_is_drawn_from_its_first_item():
    images = Images(FLAGS)
    [png] = images.wire(placed(images, WIDE))["multimodal_data"]
    assert base64.b64decode(png) == draw_png(WIDE[0], 4 * 8, 2 * 8)


def test_other_projectors_have_images_of_a_single_size():
    square = image_items("0", 16, 4)
    assert len(placed(Images(["MODELS/tiny-mmproj-mlp.gguf"]), TEXT, square)) == 19
    images = Images(["MODELS/tiny-mmproj-gemma3.gguf"])
    placed(images, image_items("0", 9, 3))
    assert images.header()["images"]["image0"]["n_pos"] == 9
    with pytest.raises(BadInput, match="image 4x4: projector gemma3 makes"):
        placed(images, square)
    with pytest.raises(BadInput, match="the prompt has an image"):
        placed(Images(["-c", "512"]), square)
    assert Images(["-c", "512"]).header() == {}


def test_a_text_has_the_longest_tokens():
    assert tokenize("BanaBas<think>") == (201, 65, 301, 99)


def test_a_file_depends_on_seed_and_size_only():
    assert draw_png(1, 16, 8) == draw_png(1, 16, 8) != draw_png(2, 16, 8)
    png = draw_png(1, 16, 8)
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and png[16:24] == bytes((0, 0, 0, 16, 0, 0, 0, 8))
    at = png.index(b"IDAT")
    rows = zlib.decompress(png[at + 4 : at + 4 + int.from_bytes(png[at - 4 : at], "big")])
    assert len(rows) == 8 * (1 + 3 * 16)
