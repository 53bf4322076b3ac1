"""Bodies in files, folders, JSON lines, HAR files and dumps; files without a body give a single-line error."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import (
    DEEP,
    HEAD,
    SMALL,
    FoundBody,
    TextPool,
    are_bodies,
    bodies_in,
    is_body,
    read_bodies,
)
from tests.unit.tools.request_bodies.made import chat

LOG = Path(__file__).parents[1] / "server_logs" / "default_verbosity.log"
ONE, TWO = chat("one"), chat("one", "two", "three")


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def lines(*values):
    return "".join(json.dumps(one) + "\n" for one in values)


def har(*bodies, **more):
    entries = [{"request": {"method": "POST", "url": "http://x/v1/chat/completions",
                            "postData": {"mimeType": "application/json", "text": json.dumps(one), **more}}}
               for one in bodies]  # fmt: skip
    return {"log": {"version": "1.2", "entries": [{"request": {"method": "GET", "url": "http://x/"}}, *entries]}}


FORMS = {
    "one body": (ONE, 1), "a list": ([ONE, TWO], 2), "lines": (lines(ONE, TWO), 2),
    "pretty": (json.dumps(ONE, indent=2), 1),
    "mark": ("\ufeff" + json.dumps(ONE), 1), "har": (har(ONE, TWO), 2), "messages alone": (ONE["messages"], 1),
    "batch": (lines({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": ONE}), 1),
    "text in text": (lines({"flow": 1, "request": {"path": "/v1/chat/completions", "content": json.dumps(ONE)}}), 1),
    "a dump between lines": (f"POST /v1/chat/completions\nHost: x\n\nrequest: {json.dumps(ONE)}\nresponse: 200\n", 1),
    "openai completion": ({"model": "m", "prompt": "text", "max_tokens": 4}, 1),
    "several prompts": ({"prompt": ["a", "b"]}, 2), "tokens": ({"prompt": [1, 2, 3], "n_predict": 1}, 1),
    "text and tokens": ({"prompt": ["a", 5, "b"]}, 1), "prompts of tokens": ({"prompt": [[1, 2], [1, 3]]}, 2),
    "multimodal": ({"prompt": {"prompt_string": "a <image>", "multimodal_data": ["AAAA"]}}, 1),
    "responses": ({"model": "m", "instructions": "i", "input": [{"role": "user", "content": "u"}]}, 1),
    "responses, a text": ({"model": "m", "input": "hello", "stream": True}, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_bodies_are_found_in_every_form(tmp_path, name):
    value, count = FORMS[name]
    found, _ = read_bodies([put(tmp_path / "x.json", value)])
    assert len(bodies_of(found)) == count
    assert all(one.messages and all(m.parts for m in one.messages) for one in bodies_of(found))


def test_a_form_has_its_name():
    from cachesim.tools.request_bodies.body_files import FoundBody

    blocks = [{"type": "tool_result", "tool_use_id": "x", "content": "r"}]
    forms = {
        "chat completions": ONE, "Anthropic messages": {"messages": [{"role": "user", "content": blocks}]},
        "responses": {"model": "m", "input": "x", "stream": True}, "completion": {"prompt": "x"},
        "native completion": {"prompt": "x", "n_predict": 3},
    }  # fmt: skip
    for form, body in forms.items():
        assert bodies_of([FoundBody("x", body)])[0].form == form
    anthropic = FoundBody("x", {"messages": [{"role": "user", "content": "u"}]}, "/v1/messages?beta")
    assert bodies_of([anthropic])[0].form == (
        "Anthropic messages")  # fmt: skip


def test_a_folder_is_read_in_the_order_of_its_numbers(tmp_path):
    for number in (10, 9, 1):
        put(tmp_path / "d" / f"req-{number}.json", chat(f"number {number}"))
    put(tmp_path / "d" / "notes.txt", "nothing")
    put(tmp_path / "d" / ".hidden.json", ONE)
    found, left = read_bodies([tmp_path / "d"])
    assert [one.place for one in found] == ["req-1.json", "req-9.json", "req-10.json"] and left == 1


def test_a_dump_with_base64_is_read(tmp_path):
    text = base64.b64encode(json.dumps(ONE).encode()).decode()
    value = har(ONE)
    value["log"]["entries"][1]["request"]["postData"] = {"text": text, "encoding": "base64"}
    assert len(read_bodies([put(tmp_path / "x.har", value)])[0]) == 1


def test_an_answer_in_a_dump_is_found(tmp_path):
    stream = "\n".join("data: " + json.dumps({"choices": [{"delta": delta}]}) for delta in (
        {"reasoning_content": "Hm"}, {"reasoning_content": "m."}, {"content": "Yes"}, {"content": "."}))
    value = har(ONE)
    value["log"]["entries"][1]["response"] = {"status": 200, "content": {"text": stream + "\ndata: [DONE]\n"}}
    [body] = bodies_of(read_bodies([put(tmp_path / "x.har", value)])[0])
    assert [(part.kind, part.text) for part in body.answer.parts] == [("reasoning", "Hmm."), ("text", "Yes.")]


BAD = {
    "no json": ("hello", "contains no request body"), "empty": ("", "contains no request body"),
    "other json": ({"a": 1, "b": 2}, "found keys a, b"), "gemini": ({"contents": []}, "unsupported API: Gemini's API"),
    "answer": ({"choices": []}, "server response, not a"), "list": ([1, 2], "not a request body"),
    "broken": ('{"messages": [', "broken or truncated JSON"), "prompt": ({"prompt": [1.5]}, "not a request body"),
    "deep": ('{"messages": ' + "[" * 99 + "]" * 99 + "}", "nested deeper"),
    "token": ({"prompt": [1, -4]}, "prompt[1] is neither text nor a token"),
    "nothing": ({"prompt": ""}, "empty prompt"),
    "mixed": (lines({"prompt": [1, 2]}, {"prompt": "x"}), "some prompts are token lists, others are text"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_files_without_a_body_give_a_one_line_error(tmp_path, capsys, name):
    from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies

    value, what = BAD[name]
    with pytest.raises(BadInput) as error:
        import_bodies([put(tmp_path / "x.json", value)], ImportOptions())
    assert what in str(error.value) and "\n" not in str(error.value)


def test_limits_are_enforced(tmp_path, lift):
    file = put(tmp_path / "x.jsonl", lines(ONE, TWO))
    lift(BODIES=1)
    with pytest.raises(BadInput, match="at most 1 requests are allowed"):
        read_bodies([file])
    with pytest.raises(BadInput, match="at most 1 requests are allowed"):
        bodies_of(read_bodies([put(tmp_path / "many.json", {"prompt": ["a", "b"]})])[0])
    lift(BODIES=9, BODY_BYTES=100)
    with pytest.raises(BadInput, match="--limit body-bytes=N allows more"):
        read_bodies([file])


def test_the_file_with_which_all_are_too_large_is_named(tmp_path, lift):
    files = [put(tmp_path / f"{name}.jsonl", lines(ONE)) for name in "ab"]
    size = files[0].stat().st_size
    lift(BODY_BYTES=2 * size)
    assert len(read_bodies(files)[0]) == 2
    lift(BODY_BYTES=2 * size - 1)
    with pytest.raises(BadInput) as bad:
        read_bodies(files)
    assert bad.value.file == str(files[1]) and "the files together" in str(bad.value)


def test_logs_and_bodies_are_distinguished(tmp_path):
    assert not are_bodies([str(LOG)]) and not are_bodies([]) and not are_bodies(["nowhere.json"])
    docker = put(tmp_path / "docker.log", lines({"log": "slot launch_slot_: id 0 | task 0 | processing task\n"}))
    assert not are_bodies([str(docker)])
    for value, _ in FORMS.values():
        file = put(tmp_path / "x.json", value)
        assert are_bodies([str(file)]) or not file.read_text("utf-8").startswith(("{", "[", "\ufeff"))


def test_a_folder_without_bodies_is_refused(tmp_path, capsys):
    assert main(["import", str(tmp_path)]) == 2
    assert "folder contains no request bodies" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "places"), [
    ([ONE, TWO], ["f[0]", "f[1]"]), ([ONE], ["f"]), ({"log": {"entries": [{"body": ONE}, {"body": [ONE, TWO]}]}},
     ["f entries[0]", "f entries[1][0]", "f entries[1][1]"]), (ONE["messages"], ["f"]),
    ([*ONE["messages"], {"role": "user"}], []), ([{"content": "a"}], []), ([], []),
])  # fmt: skip
def test_a_body_has_the_place_at_which_it_stands(value, places):
    assert [body.place for body in bodies_in(value, "f")] == places


def nested(value, depth):
    for _ in range(depth):
        value = [value]
    return value


def test_bodies_are_sought_to_a_depth():
    assert [*bodies_in(nested(ONE, DEEP + 1), "f")] and not [*bodies_in(nested(ONE, DEEP + 2), "f")]


def test_long_equal_texts_are_kept_once():
    text = "x" * (SMALL + 1)
    bodies = [FoundBody("a", {"messages": [{"content": "".join([*text])}], "n": 3, "short": "".join(["x"] * SMALL)})
              for _ in range(2)]  # fmt: skip
    pool = TextPool()
    one, other = (pool.shared(body) for body in bodies)
    assert (one, other) == tuple(bodies) and [*pool.texts] == [text]
    assert one.body["messages"][0]["content"] is other.body["messages"][0]["content"]


def test_bodies_of_a_file_share_their_texts(tmp_path):
    [one, other], _ = read_bodies([put(tmp_path / "x.jsonl", lines(TWO, TWO))])
    assert one.body["messages"][0]["content"] is other.body["messages"][0]["content"]


@pytest.mark.parametrize(("value", "found"), [
    ({"url": "/a", "path": "/b", "response": "r", "body": ONE}, ("/a", "r")),
    ({"url": 5, "path": "/b", "output": "o", "result": "s", "body": ONE}, ("/b", "o")),
    ({"request": {"path": "/c", "body": ONE}, "url": "/a", "response": "", "res": "s"}, ("/c", "s")),
    ({"body": ONE}, ("", None)), ({"completion": [], "body": ONE}, ("", None)),
    ({"request": {"a": 1}, "body": ONE, "uri": "/d"}, ("/d", None)),
])  # fmt: skip
def test_a_dump_has_the_path_and_the_response_of_a_body(value, found):
    [body] = bodies_in(value, "f")
    assert (body.url, body.answer, body.body) == (*found, ONE)


def test_only_the_first_key_with_a_body_counts():
    assert [body.body for body in bodies_in({"data": TWO, "request": ONE, "body": TWO}, "f")] == [ONE]
    assert [body.body for body in bodies_in({"data": TWO, "request": {"b": 1}, "body": ""}, "f")] == [TWO]


@pytest.mark.parametrize("text", ["!", base64.b64encode(b"\xff").decode(), base64.b64encode(b"{").decode()])
def test_a_broken_base64_text_holds_no_body(text):
    assert [*bodies_in({"encoding": "base64", "text": text, "body": ONE}, "f")] == []


@pytest.mark.parametrize(("value", "is_one"), [
    ({"messages": []}, False), ({"messages": [{"role": "user"}, {}]}, False),
    ({"messages": [{"role": "user"}, 5]}, False),
    ({"messages": [{"role": "user"}]}, True), ({"prompt": []}, False), ({"prompt": [1.5]}, False),
    ({"prompt": [1, "a", [2], {}]}, True), ({"prompt": "a"}, True), ({"prompt": {}}, False),
    ({"prompt": {"prompt_string": 1}}, True), ({"prompt": 5}, False), ({"input": [{}], "model": 1}, True),
    ({"input": [{}]}, False), ({"input": [], "model": 1}, False), ({"input": ["a"], "model": 1}, False),
    ({"input": "a", "model": 1}, False), ({"input": "a", "model": 1, "tools": []}, True),
    ({"input": "a", "stream": True}, False), ({"input": 5, "model": 1, "stream": 1}, False), ([], False), ("a", False),
])  # fmt: skip
def test_the_fields_of_a_body(value, is_one):
    assert is_body(value) is is_one


@pytest.mark.parametrize(("text", "is_found"), [
    (json.dumps(ONE), True), (" \n" + json.dumps([ONE]), True), (json.dumps(json.dumps(ONE)), False), ("5", False),
])  # fmt: skip
def test_a_text_that_is_an_object_or_a_list_is_opened(text, is_found):
    assert bool([*bodies_in(text, "f")]) is is_found


@pytest.mark.parametrize(("value", "what"), [
    ({"inputs": "a"}, "request body of an unsupported API: text-generation-inference"),
    ({"texts": []}, "request body of an unsupported API: an embedding API"),
    ({"usage": {}}, "server response, not a request"), ({"type": "message"}, "server response, not a request"),
    ({"type": "other"}, "JSON, but not a request body: found keys type"),
    (dict.fromkeys("abcdef"), "JSON, but not a request body: found keys a, b, c, d, e"),
    ([1], "JSON, but not a request body"),
])  # fmt: skip
def test_json_without_a_body_is_described(tmp_path, value, what):
    with pytest.raises(BadInput) as error:
        read_bodies([file := put(tmp_path / "x.json", value)])
    assert (error.value.cause, error.value.file) == (what, str(file))


@pytest.mark.parametrize(("text", "left", "places"), [
    (lines(ONE, TWO), 0, [1, 2]), ("\n" + lines(ONE, {"a": 1}, TWO), 1, [2, 4]),
    (f"a\n \nb {json.dumps(ONE)}\nc {{\n", 2, [3]), ("\ufeff" + lines(ONE, TWO), 0, [1, 2]),
])  # fmt: skip
def test_lines_without_a_body_are_counted(tmp_path, text, left, places):
    file = put(tmp_path / "x.jsonl", text)
    found, without = read_bodies([file])
    assert (without, [body.place for body in found]) == (left, [f"{file}:{number}" for number in places])


def test_several_paths_are_read_in_order_and_each_has_a_body(tmp_path):
    one, two = put(tmp_path / "1.json", ONE), put(tmp_path / "d" / "2.json", TWO)
    put(tmp_path / "d" / "3.json", {"a": 1})
    found, left = read_bodies([two.parent, one])
    assert [(body.place, body.body) for body in found] == [("2.json", TWO), (str(one), ONE)] and left == 1
    with pytest.raises(BadInput, match="folder contains no request bodies"):
        read_bodies([one, (tmp_path / "d" / "e").mkdir() or tmp_path / "d" / "e"])


@pytest.mark.parametrize(("text", "are"), [
    ("text", False), ('{"a": 1}', False), ('{"contents": 1}', True), ('{"a": {"messages": 1', True),
    ("\n\n" + json.dumps(ONE), True), ('[1, 2]', False), ('{"a": 1}\n{"prompt": "x"}', True), ("", False),
])  # fmt: skip
def test_files_that_begin_with_json_of_a_request_are_bodies(tmp_path, text, are):
    file = str(put(tmp_path / "x", text))
    assert are_bodies([file]) is are and are_bodies([file, str(LOG)]) is False
    assert are_bodies([str(tmp_path), file]) is are


@pytest.mark.parametrize(("size", "are"), [(HEAD - 11, True), (HEAD - 10, False)])
def test_a_file_is_recognised_by_a_key_in_its_first_characters(tmp_path, size, are):
    """The colon after "messages" is character 65,536, or the next one; no line is JSON."""
    start, key = "[1,\n", '"messages":'
    filler = "x" * (HEAD // 2) + "\n"
    text = start + filler + "y" * (size - len(start) - len(filler)) + key
    assert text.index(key) == size and are_bodies([str(put(tmp_path / "x", text))]) is are


@pytest.mark.parametrize(("depth", "is_found"), [(DEEP, True), (DEEP + 1, False)])
def test_an_entry_of_a_har_file_is_opened_to_a_depth(depth, is_found):
    assert bool([*bodies_in({"log": {"entries": [nested(ONE, depth)]}}, "f")]) is is_found
