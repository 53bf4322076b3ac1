"""Tests of workload jobs and results as JSON."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.workload.cell_jobs import CellJob, line_of
from cachesim.tools.workload.result_store import id_of
from cachesim.tools.workload.workload_jobs import line_in, packed, play, unpacked

JOB = CellJob(("tests/workloads/data/chat.jsonl",), "llama_cpp@b11549", "GA", {"ctx_checkpoints": 0}, 1)


def test_a_job_is_a_text_and_so_is_its_line(monkeypatch, tmp_path):
    """The worker has a different current folder."""
    text, want = packed(JOB, id_of(JOB)), line_of(JOB)
    monkeypatch.chdir(tmp_path)
    assert line_in(play(text)) == want
    assert unpacked(text)._replace(files=JOB.files) == JOB


def test_the_order_of_the_options_of_a_job_does_not_change_its_id():
    one, other = ({"parallel": 1, "ctx_checkpoints": 0}, {"ctx_checkpoints": 0, "parallel": 1})
    assert id_of(JOB._replace(given=one)) == id_of(JOB._replace(given=other)) != id_of(JOB)


@pytest.mark.parametrize(("job", "name", "told"), [
    (JOB, "0" * 16, "the worker has a different version of this file"),
    (JOB._replace(files=("none.json",)), "", "no such file"),
])  # fmt: skip
def test_what_is_wrong_with_a_file_comes_back_as_a_line(job, name, told):
    found = line_in(play(packed(job, name)))
    assert isinstance(found, BadInput) and told in str(found) and json.dumps(str(found))
