"""Tests of the reader of workload files: three formats, and errors with their position."""

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.workload.workload_files import find_files, read_session


def written(tmp_path, text, name="one.json"):
    file = tmp_path / name
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    return file


def test_a_sub_agent_began_before_the_time_at_which_it_ended(tmp_path):
    one = {"t": 0, "in": 130, "out": 5, "hash_ids": [1, 2]}
    agent = {"t": 30, "duration_ms": 20000, "requests": [{"t": 1, "in": 70, "out": 5, "hash_ids": [9], "api_time": 2}]}
    session = read_session(written(tmp_path, {"block_size": 64, "requests": [one, agent]}))
    assert [(r.start, r.end, r.agent) for r in session.requests] == [(0, 0, ""), (11, 13, "agent 1")]
    assert session.agents == 1


def test_a_mooncake_trace_has_blocks_of_512_and_milliseconds(tmp_path):
    line = '{"timestamp": 1500, "input_length": 600, "output_length": 3, "hash_ids": [46, 47]}\n'
    session = read_session(written(tmp_path, line + line.replace("1500", "500"), "trace.jsonl"))
    assert [(r.start, r.n_prompt, r.blocks) for r in session.requests] == [(0.5, 600, (46, 47)), (1.5, 600, (46, 47))]
    assert (session.form, session.block_size) == ("mooncake", 512)


def test_block_ids_need_no_more_than_ids(tmp_path):
    session = read_session(written(tmp_path, '{"block_size": 16}\n{"blocks": [1, 2]}\n{"blocks": [1], "t": 4}\n'))
    assert [(r.start, r.n_prompt, r.n_answer) for r in session.requests] == [(0, 32, 1), (4, 16, 1)]


@pytest.mark.parametrize(("text", "told"), [
    ("", "the file is empty"),
    ("[1, 2", "broken or truncated JSON"),
    ({"block_size": 64, "requests": []}, "the workload has no requests"),
    ({"block_size": 0, "requests": []}, "block_size: expected the tokens of a block, found 0"),
    ({"block_size": 64, "requests": [{"t": 0, "in": 5, "out": 1, "hash_ids": [-1]}]}, "requests[0].hash_ids[0]"),
    ({"block_size": 64, "requests": [{"t": 0, "in": 5, "out": 1, "hash_ids": [1]}]}, "do not fill 1 blocks of 64"),
    ('{"blocks": [1, 2]}\n{"blocks": [2]}', "request 1: block 2 follows None and, in another prompt, 1"),
    ('{"blocks": [1], "prompt": 65}\n{"blocks": "x"}', ":2: blocks: expected a list, found 'x'"),
    ('{"timestamp": 1, "input_length": 5, "output_length": 3, "hash_ids": [1, 2]}', "do not fill 2 blocks of 512"),
])  # fmt: skip
def test_what_is_no_workload_is_refused_with_its_place(tmp_path, text, told):
    with pytest.raises(BadInput) as bad:
        read_session(written(tmp_path, text))
    assert told in str(bad.value) and "one.json" in str(bad.value)


def test_a_folder_stands_for_its_workloads(tmp_path):
    for name in ("b.jsonl", "a.json", "c.txt"):
        (tmp_path / name).touch()
    assert [file.name for file in find_files([tmp_path])] == ["a.json", "b.jsonl"]


REQUEST = {"t": 2, "in": 100, "out": 0, "hash_ids": [5], "type": "s"}
ALIEN = "not a recorded session (expected a kv-cache-tester session, or lines of a Mooncake trace or of block ids)"


def test_a_session_is_read_whole(tmp_path):
    """Requests of sub-agents by their starts; at least one token of answer; no duration below zero; a beginning as
    long as the prompt is unknown."""
    agents = [{"t": 9, "requests": [{**REQUEST, "t": 0}], "tool_tokens": 99},
              {"t": 1, "duration_ms": 500, "requests": [{**REQUEST, "api_time": -1}], "system_tokens": 100}]
    own = [{**REQUEST, "t": 7, "api_time": 1.5, "out": 3}]
    whole = {"block_size": 100, "requests": [*agents, *own], "tool_tokens": 20, "system_tokens": 30, "id": "x"}
    session = read_session(written(tmp_path, whole, "a.b.json"))
    assert session == ("a", "kv-cache-tester", 100, (
        (2.5, 2.5, 100, 1, (5,), 0, "agent 2"), (7, 8.5, 100, 3, (5,), 50, ""), (9, 9, 100, 1, (5,), 99, "agent 1")))


def test_block_ids_are_read_whole(tmp_path):
    """A line without a time is sent at that of the line before; empty lines are skipped; a block is 64 tokens."""
    lines = [{"blocks": [1, 2], "prompt": 65, "t": 3, "seconds": 1.5, "answer": 0}, {"blocks": [1], "seconds": -2}]
    text = "\n\n".join(map(json.dumps, lines))
    assert read_session(written(tmp_path, text)) == (
        "one", "block-ids", 64, ((3, 4.5, 65, 1, (1, 2), 0, ""), (3, 3, 64, 1, (1,), 0, "")))
    named = read_session(written(tmp_path, f'{{"block_size": 1, "name": "{"n" * 81}"}}\n{text[:17]} }}\n'))
    assert named == ("n" * 80, "block-ids", 1, ((0, 0, 2, 1, (1, 2), 0, ""),))


def test_a_trace_is_read_whole(tmp_path):
    lines = [{"timestamp": 250, "input_length": n, "output_length": 0, "hash_ids": [4, 5]} for n in (513, 1024)]
    assert read_session(written(tmp_path, "\n".join(map(json.dumps, lines)), "t.x.jsonl")) == (
        "t", "mooncake", 512, ((0.25, 0.25, 513, 1, (4, 5), 0, ""), (0.25, 0.25, 1024, 1, (4, 5), 0, "")))


@pytest.mark.parametrize(("text", "told"), [
    ("", "one.json: the file is empty"),
    (" \n\n", "one.json: the file is empty"),
    ("[1]", f"one.json: {ALIEN}"),
    ('{"block_size": 5}', "one.json: the workload has no requests"),
    ('{"blocks": [1]}\nx}', "one.json:2: broken or truncated JSON: Expecting value"),
    ('{"blocks": [1], "prompt": 0}', "one.json:1: 0 tokens do not fill 1 blocks of 64"),
    ('{"blocks": []}', "one.json:1: 0 tokens do not fill 0 blocks of 64"),
    ('{"blocks": [1]}\n{"blocks": [1, 2], "prompt": 63}', "one.json:2: 63 tokens do not fill 2 blocks of 64"),
    ({"block_size": 101, "requests": [REQUEST]}, "one.json: 100 tokens do not fill 1 blocks of 101"),
    ({"block_size": 5, "requests": [{**REQUEST, "in": 0}]},
     "one.json: requests[0].in: expected a number of tokens, found 0"),
    ({"block_size": (1 << 20) + 1, "requests": []}, "one.json: block_size: expected the tokens of a block, "
                                                    "found 1048577"),
    ('{"timestamp": 1, "input_length": 512, "output_length": 3, "hash_ids": [1, 2]}',
     "one.json:1: 512 tokens do not fill 2 blocks of 512"),
    ('{"timestamp": 1, "input_length": 5, "hash_ids": [1, 2]}', "one.json:1: missing key 'output_length'"),
])  # fmt: skip
def test_an_error_is_whole(tmp_path, text, told):
    with pytest.raises(BadInput) as bad:
        read_session(written(tmp_path, text))
    assert str(bad.value).removeprefix(f"{tmp_path}/") == told


def test_names_are_found_in_their_order(tmp_path):
    """A named file need not exist or end so; a folder's files are sorted by their names, not their endings."""
    folder = tmp_path / "f"
    folder.mkdir()
    for name in ("b.json", "a.jsonl", "c.jsonl"):
        (folder / name).touch()
    assert find_files([tmp_path / "z.txt", folder, str(tmp_path / "a")]) == [
        tmp_path / "z.txt", folder / "a.jsonl", folder / "b.json", folder / "c.jsonl", tmp_path / "a"]  # fmt: skip
