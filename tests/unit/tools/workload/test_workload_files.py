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
