"""Images, sounds and files in request bodies: a change is found in every API form, also in the first message, and
reported at its part without the bytes; and a change to any part of any message is reported at that part."""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import json
import re

import pytest
from rich.console import Console

from cachesim.tools.request_bodies.body import BodyText
from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.request_bodies.media_parts import MARKER, media_list, media_part, split_at_media
from cachesim.tools.request_bodies.report import bodies_report
from tests.unit.tools.request_bodies.made import LONG, TOOLS, found

AS_SENT = ImportOptions(profile="mlx_lm@0.30.2")        # a server that converts no body of another API

SIZE = len(MARKER)


def shown_report(got) -> str:
    console = Console(file=io.StringIO(), width=150, color_system=None)
    console.print(bodies_report(got, "", False))
    return console.file.getvalue()


def data(seed: int, size: int = 3000) -> str:
    return base64.b64encode(bytes([seed, 7]) * (size // 2)).decode()


def url(seed: int) -> str:
    return f"data:image/png;base64,{data(seed)}"


ASK, ANSWER, NEXT = "What is in this file that I send to you?", "A cat sits on a mat, and it sleeps.", "And its name?"
CHAT = {
    "image_url": lambda n: {"type": "image_url", "image_url": {"url": url(n)}},
    "image_url by address": lambda n: {"type": "image_url", "image_url": {"url": f"https://x.example/{n}.png?key=secret"}},
    "input_audio": lambda n: {"type": "input_audio", "input_audio": {"data": data(n), "format": "wav"}},
    "file": lambda n: {"type": "file", "file": {"filename": "a.pdf", "file_data": url(n)}},
    "file by id": lambda n: {"type": "file", "file": {"file_id": f"file-{n}"}},
}  # fmt: skip
ANTHROPIC = {
    "image": lambda n: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data(n)}},
    "image by url": lambda n: {"type": "image", "source": {"type": "url", "url": f"https://x.example/{n}.png?key=secret"}},
    "document": lambda n: {"type": "document", "source": {"type": "base64", "media_type": "a/pdf", "data": data(n)}},
    "document of text": lambda n: {"type": "document", "source": {"type": "text", "data": f"text number {n}"}},
}  # fmt: skip


def chat(block):
    return {"model": "m", "messages": [
        {"role": "system", "content": LONG}, {"role": "user", "content": [{"type": "text", "text": ASK}, block]},
        {"role": "assistant", "content": ANSWER}, {"role": "user", "content": NEXT}]}  # fmt: skip


def anthropic(block):
    return {**chat(block), "system": LONG, "messages": chat(block)["messages"][1:], "max_tokens": 9}


def responses(n):
    image = {"type": "input_image", "image_url": url(n)}
    return {"model": "m", "instructions": LONG, "input": [
        {"role": "user", "content": [{"type": "input_text", "text": ASK}, image]},
        {"role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]},
        {"role": "user", "content": NEXT}]}  # fmt: skip


def ollama(n):
    return {"model": "m", "messages": [
        {"role": "system", "content": LONG}, {"role": "user", "content": ASK, "images": [data(1), data(n)]},
        {"role": "assistant", "content": ANSWER}, {"role": "user", "content": NEXT}]}  # fmt: skip


def raw(n):
    text = f"{LONG}<__media__>{ASK}<__media__>{NEXT}"
    return {"prompt": {"prompt_string": text, "multimodal_data": [data(1), data(n)]}}


def generate(n):
    return {"model": "m", "prompt": f"{LONG}{ASK}", "images": [data(n)]}


FORMS = {
    **{name: (lambda n, of=of: chat(of(n)), "messages[1].content[1]") for name, of in CHAT.items()},
    **{f"Anthropic {name}": (lambda n, of=of: anthropic(of(n)), "messages[0].content[1]")
       for name, of in ANTHROPIC.items()},
    "responses": (responses, "input[0].content[1]"), "Ollama chat": (ollama, "messages[1].images[1]"),
    "Ollama generate": (generate, "images[0]"), "llama-server completion": (raw, "prompt.multimodal_data[1]"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_changed_image_is_reported_at_its_part(name, tmp_path):
    made, path = FORMS[name]
    body = made(2)
    first = copy.deepcopy(body)
    if "messages" in first:
        first["messages"] = first["messages"][:-2]
    got = found(tmp_path, first, made(3), asking=AS_SENT)
    (cause,) = [one for one in got["causes"] if not one["harmless"]]
    assert (cause["cause"], cause["path"], cause["character"]) == ("image", path, 0)
    assert got["requests"][1]["previous"] == 0 and got["requests"][1]["conversation"] == 0
    shown = shown_report(got)
    assert path in shown and re.search(r"<\w+ \d+ bytes [0-9a-f]{16}>", shown) and "no changed prompts" not in shown
    assert data(3)[:16] not in json.dumps(got) and "secret" not in json.dumps(got)


@pytest.mark.parametrize("name", FORMS)
def test_the_same_image_is_not_a_change(name, tmp_path):
    got = found(tmp_path, FORMS[name][0](2), FORMS[name][0](2))
    assert got["requests"][1]["cause"] == "same" and not got["losing"]


@pytest.mark.parametrize("name", ["document", "document of text"])
def test_a_document_that_the_server_drops_is_not_a_change(name, tmp_path):
    """llama-server b11549 converts a body of Anthropic's API without its documents."""
    got = found(tmp_path, anthropic(ANTHROPIC[name](2)), anthropic(ANTHROPIC[name](3)))
    assert got["requests"][1]["cause"] == "same"


def test_the_encoding_and_marks_of_an_image_are_not_its_data(tmp_path):
    """Line breaks in base64, the media type, and the cache mark, which a client moves to the newest message."""
    one = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data(2)}}
    other = {"type": "image", "cache_control": {"type": "ephemeral"}, "source": {
        "type": "base64", "media_type": "image/x-png", "data": "\n".join([data(2)[:76], data(2)[76:]])}}  # fmt: skip
    assert found(tmp_path, anthropic(one), anthropic(other))["requests"][1]["cause"] == "same"


def test_conversations_with_the_same_text_are_told_apart_by_their_images(tmp_path):
    one, other = chat(CHAT["image_url"](2)), chat(CHAT["image_url"](3))
    starts = [{**body, "messages": body["messages"][:2]} for body in (one, other)]
    got = found(tmp_path, *starts, one, other)
    assert [row["previous"] for row in got["requests"][2:]] == [0, 1]
    assert [row["cause"] for row in got["requests"][2:]] == ["extends", "extends"]


def test_a_changed_message_that_is_an_image_only(tmp_path):
    def body(n, *more):
        return {"messages": [{"role": "user", "content": [CHAT["image_url"](n)]}, *more]}

    got = found(tmp_path, body(1), body(2, {"role": "assistant", "content": ANSWER}, {"role": "user", "content": NEXT}))
    assert (got["requests"][1]["cause"], got["requests"][1]["path"]) == ("image", "messages[0].content[0]")
    assert got["losing"] == [1]                                # the answer is evaluated again


# A change to any part of any message is reported at that part.

PICTURE = ANTHROPIC["image"](1)
INPUT = {"type": "input_image", "image_url": url(1)}
RICH = {
    "chat": {"model": "m", "tools": TOOLS, "messages": [
        {"role": "system", "content": LONG},
        {"role": "user", "content": [{"type": "text", "text": ASK}, CHAT["image_url"](1), CHAT["input_audio"](1)]},
        {"role": "assistant", "reasoning_content": "I look at every corner of it.", "content": ANSWER, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a/long.txt"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "the file has these many lines of text"},
        {"role": "assistant", "content": [{"type": "text", "text": "It is all there, as you can see."}]},
        {"role": "user", "content": [{"type": "text", "text": "Then read the next of them."}, CHAT["file"](1)]},
    ]},
    "Anthropic": {"model": "m", "system": [{"type": "text", "text": LONG}], "messages": [
        {"role": "user", "content": [{"type": "text", "text": ASK}, PICTURE, ANTHROPIC["document"](1)]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "I look at every corner of it."},
                                          {"type": "text", "text": ANSWER},
                                          {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.c"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
            {"type": "text", "text": "the file has these many lines of text"}, PICTURE]}]},
        {"role": "assistant", "content": "It is all there, as you can see."},
        {"role": "user", "content": "Then read the next of them."},
    ]},
    "responses": {"model": "m", "instructions": LONG, "input": [
        {"role": "user", "content": [{"type": "input_text", "text": ASK}, INPUT]},
        {"type": "function_call", "name": "read", "arguments": '{"path": "a/long/name.txt"}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "the file has these many lines of text"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "It is all there, as you can see."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Then read the next of them."}]},
    ]},
    "Ollama": {"model": "m", "messages": [
        {"role": "system", "content": LONG}, {"role": "user", "content": ASK, "images": [data(1), data(2)]},
        {"role": "assistant", "content": ANSWER, "thinking": "I look at every corner of it."},
        {"role": "user", "content": "Then look at the next of them.", "images": [data(3)]},
    ]},
}  # fmt: skip
CONTENT = {"text", "content", "thinking", "reasoning_content", "arguments", "output", "instructions", "system", "url",
           "data", "file_data", "image_url", "images", "path", "description"}  # fmt: skip
"""Keys of strings that are part of a prompt."""


def places(value, path="", key=""):
    """Yield the path and the keys of every string that is part of a prompt."""
    if isinstance(value, dict):
        for name, entry in value.items():
            for inner, keys in places(entry, f"{path}.{name}".lstrip("."), name):
                yield inner, (name, *keys)
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            for inner, keys in places(entry, f"{path}[{i}]", key):
                yield inner, (i, *keys)
    elif isinstance(value, str) and key in CONTENT:
        yield path, ()


def with_change(body, keys):
    body = json.loads(json.dumps(body))                        # without shared parts
    value = body
    for key in keys[:-1]:
        value = value[key]
    text = value[keys[-1]]
    middle = len(text) // 2
    value[keys[-1]] = text[:middle] + ("QUJD" if text[middle : middle + 4] != "QUJD" else "REVG") + text[middle + 4 :] \
        if len(text) > 1000 and " " not in text else text[:middle] + "~" + text[middle:]
    assert value[keys[-1]] != text
    return body


CHANGES = [(name, path, keys) for name, body in RICH.items() for path, keys in places(body)]


@pytest.mark.parametrize("name, path, keys", CHANGES, ids=[f"{name} {path}" for name, path, _ in CHANGES])
def test_a_change_to_any_part_of_any_message_is_reported_at_that_part(name, path, keys, tmp_path):
    body = RICH[name]
    got = found(tmp_path, body, with_change(body, keys), asking=AS_SENT)
    row = got["requests"][1]
    assert row["previous"] == 0 and row["cause"] not in ("new", "extends", "same", "back"), row
    assert row["path"] and path.startswith(row["path"]), (path, row["path"])
    part = re.sub(r"\.(image_url|source|file|input_audio|input|function|arguments)\b.*", "", path)
    assert len(row["path"]) >= len(part)
    cause = next(one for one in got["causes"] if not one["harmless"])
    assert cause["cause"] == row["cause"] and cause["path"] == row["path"]


def test_the_headline_does_not_contradict_a_cause(tmp_path):
    """Every change of every part: the report says that prompts changed exactly if it names a cause."""
    for name, body in RICH.items():
        file = tmp_path / f"{name}.jsonl"
        changed = [with_change(body, keys) for of, _, keys in CHANGES if of == name]
        file.write_text("".join(json.dumps(one) + "\n" for one in (body, *changed, changed[-1])), "utf-8")
        got, _ = import_bodies([file], ImportOptions())
        shown = shown_report(got)
        assert ("no changed prompts" in shown) == all(cause["harmless"] for cause in got["causes"])


@pytest.mark.parametrize(("text", "pieces"), [
    (f"a{MARKER}b{MARKER}c", [("p", "a"), "m[0]", (f"p[{1 + SIZE}:]", "b"), "m[1]", (f"p[{2 + 2 * SIZE}:]", "c")]),
    (f"{MARKER}b", [("p", ""), "m[0]", (f"p[{SIZE}:]", "b"), "m[1]"]), ("abc", [("p", "abc"), "m[0]", "m[1]"]),
    (f"{MARKER}{MARKER}{MARKER}", [("p", ""), "m[0]", (f"p[{SIZE}:]", ""), "m[1]", (f"p[{2 * SIZE}:]", MARKER)]),
])  # fmt: skip
def test_a_raw_prompt_is_split_at_its_markers(text, pieces):
    found = split_at_media(text, ["AAAA", "BBBB"], "p", "m")
    assert [piece.path if isinstance(piece, BodyText) else piece for piece in found] == pieces


def test_a_raw_prompt_without_media_keeps_its_markers():
    assert [*split_at_media(f"a{MARKER}", None, "p", "m")] == [("p", f"a{MARKER}")]


def part(**values):
    return media_part({"type": "image", **values}, "p").text


def digest(*values):
    """Return the part that has these names and bytes."""
    found = hashlib.sha256(b"".join(b"%d %d %s%s" % (len(name), len(value), name, value) for name, value in values))
    return f"<image {sum(len(value) for _, value in values)} bytes {found.hexdigest()[:16]}>"


@pytest.mark.parametrize(("values", "leaves"), [
    ({"b": "x", "a": "yz"}, [(b"a", b"yz"), (b"b", b"x")]), ({"a": 5}, [(b"a", b"5")]),
    ({"a": None}, [(b"a", b"null")]),
    ({"a": ["x", True]}, [(b"a", b"x"), (b"a", b"true")]), ({"a": {"c": "x", "b": [1]}}, [(b"b", b"1"), (b"c", b"x")]),
    ({"data": "QUI="}, [(b"data", b"AB")]), ({"file_data": "QUI="}, [(b"data", b"AB")]),
    ({"a": "QUI="}, [(b"a", b"QUI=")]),
    ({"data": "QU"}, [(b"data", b"QU")]), ({"url": "data:image/png;base64,QU I="}, [(b"data", b"AB")]),
    ({"url": "DATA:;base64,QUI="}, [(b"data", b"AB")]),
    ({"url": "data:text/plain,QUI="}, [(b"url", b"data:text/plain,QUI=")]),
    ({"url": "http:;base64,QUI="}, [(b"url", b"http:;base64,QUI=")]),
    ({"url": "data:;base64"}, [(b"url", b"data:;base64")]),
    ({"url": "data:;base64,Q"}, [(b"url", b"data:;base64,Q")]), ({"a": "\ud800"}, [(b"a", b"\xed\xa0\x80")]),
    ({"a": "x", "id": "y", "b": {"format": "z", "c": "w"}}, [(b"a", b"x"), (b"c", b"w")]),
    ({"a": {5: "x"}}, [(b"5", b"x")]), ({}, []),
])  # fmt: skip
def test_a_part_is_its_bytes_in_the_order_of_their_names(values, leaves):
    assert part(**values) == digest(*leaves)


def test_a_list_of_images_has_a_part_for_each():
    image = digest((b"data", b"AB"))
    assert media_list(["QUI=", "QUI="], "p") == [BodyText("image", f"p[{at}]", image) for at in (0, 1)]
    assert media_list("QUI=", "p") == media_list(None, "p") == []
