"""Tests of stored lines: after kills and resumes, in a single folder or several, no line is lost or counted twice."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.base.shard import Shard
from cachesim.cli.main import main
from cachesim.tools.workload.cell_jobs import CellJob
from cachesim.tools.workload.result_store import WorkloadFolder, files_of, id_of, merged, read_lines

DATA = Path("tests/workloads/data")
ARGV = ("workload", str(DATA), "-p", "llama_cpp@latest", "-p", "ik_llama@main", "-p", "mlx_lm@0.32.2", "--scale", "16",
        "--detail", "counts", "--json")  # fmt: skip


def call(capsys, *argv):
    code = main(list(map(str, argv)))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Folders of four parts of six jobs."""
    folders = [tmp_path_factory.mktemp(f"part{i}") for i in range(4)]
    for i, folder in enumerate(folders, 1):
        assert main([*ARGV, "--shard", f"{i}/4", "--out", str(folder), "-q"]) == 0
    return folders


def test_the_parts_are_the_whole_in_any_order(capsys, parts):
    capsys.readouterr()
    code, out, _ = call(capsys, *ARGV)
    want = json.loads(out)
    for order in [*list(permutations(parts))[:6], [*parts, parts[0]]]:
        got, out, _ = call(capsys, "merge", *order, "--json")
        [one] = json.loads(out)["workloads"]
        assert (got, one.pop("jobs"), len(one.pop("files"))) == (code, 6, 4)
        assert {"schema": 1, **one} == want


def test_what_is_missing_is_said_and_resumed_from_what_was_merged(capsys, parts, tmp_path):
    _, out, _ = call(capsys, "merge", parts[0], parts[2], "--out", tmp_path)
    assert out.splitlines()[0] == "2 files, 2 of 6 jobs; not run: 4"
    whole = call(capsys, *ARGV)[1]
    before = read_lines(files_of(tmp_path)[0]).lines
    assert call(capsys, *ARGV, "--resume", "--out", tmp_path, "-j", "2")[1] == whole
    after = read_lines(files_of(tmp_path)[0]).lines
    assert len(after) == 6 and dict(list(after.items())[:2]) == before


def test_a_file_that_was_cut_anywhere_is_gone_on_with(capsys, parts, tmp_path):
    """A killed process leaves complete lines and a part of another line."""
    call(capsys, "merge", *parts, "--out", tmp_path)
    [file] = files_of(tmp_path)
    whole = file.read_bytes()
    ends = [i + 1 for i, one in enumerate(whole) if one == 10]
    for at in (ends[0] + 1, ends[2] - 1, ends[4], len(whole)):
        file.write_bytes(whole[:at])
        assert call(capsys, *ARGV, "--resume", "--out", tmp_path)[0] == 0
        assert file.read_bytes() == whole


def test_a_line_that_cannot_be_written_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    folder = WorkloadFolder(tmp_path, ["a", "b"])
    folder.begin(resume=False)
    before, real = folder.file.read_bytes(), __import__("os").write

    def full(handle, data):
        if len(data) > 5:
            return real(handle, bytes(data[:5]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cachesim.base.files.os.write", full)
    with pytest.raises(BadInput, match="no space left"):
        folder.keep("a", {"x": 123456789} )
    assert folder.file.read_bytes() == before


def test_one_file_is_not_written_by_two_and_not_begun_again(capsys, parts, tmp_path):
    argv = (*ARGV, "--shard", "1/4", "--out", parts[0])
    code, _, err = call(capsys, *argv)
    assert code == 2 and "this workload already exists (--resume continues it)" in err
    other = WorkloadFolder(parts[0], read_lines(files_of(parts[0])[0]).jobs, Shard(1, 4))
    with other.held():
        code, _, err = call(capsys, *argv, "--resume")
    assert code == 2 and "another process is running this workload" in err
    assert "--resume needs a folder" in call(capsys, *ARGV, "--resume")[2]


def test_an_id_is_made_from_all_that_the_numbers_depend_on(tmp_path):
    job = CellJob((str(DATA / "chat.jsonl"),), "llama_cpp@b10587", "GA", {"parallel": 2}, 16)
    (copy := tmp_path / "chat.jsonl").write_bytes((DATA / "chat.jsonl").read_bytes())
    assert id_of(job) == id_of(job._replace(files=(str(copy),)))
    others = [job._replace(files=(str(DATA / "agents.json"),)), job._replace(profile="llama_cpp@b11549"),
              job._replace(model="A"), job._replace(given={}), job._replace(scale=8), job._replace(how="judged"),
              job._replace(bounds=True)]  # fmt: skip
    copy.write_bytes(copy.read_bytes() + b"\n")
    assert len({id_of(one) for one in [job, *others, job._replace(files=(str(copy),))]}) == len(others) + 2


def test_two_files_that_say_different_things_of_a_job_are_refused(parts, tmp_path):
    [file] = files_of(parts[0])
    text = file.read_text().replace('"evaluated": ', '"evaluated": 1')
    (other := tmp_path / file.name).write_text(text)
    with pytest.raises(BadInput, match=r"job [0-9a-f]{16} has different numbers in another file"):
        merged([file, other])


@pytest.mark.parametrize("spoil", [
    lambda head, line: b"", lambda head, line: b"x\n", lambda head, line: b"[]\n", lambda head, line: line + head,
    lambda head, line: head.replace(b'"form": 2', b'"form": 0') + line, lambda head, line: head + b"[" * 9000 + b"\n",
    lambda head, line: head + line.replace(b'"prompt": ', b'"prompt": -'), lambda head, line: head + b"\n" + line,
    lambda head, line: head + line.replace(b'"id": "', b'"id": "0'),
    lambda head, line: head.replace(b'"cachesim": "', b'"cachesim": "0') + line,
])  # fmt: skip
def test_a_file_that_is_none_is_refused_in_one_line(capsys, parts, tmp_path, spoil):
    head, line = files_of(parts[0])[0].read_bytes().splitlines(keepends=True)
    (file := tmp_path / "workload-x.jsonl").write_bytes(spoil(head, line))
    code, out, err = call(capsys, "merge", tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1) and str(file) in err


def stored(parts, change):
    """Return the error for the first file with its line changed."""
    file = files_of(parts[0])[0]
    head, line = file.read_text().splitlines()
    entry = json.loads(line)
    change(entry["line"])
    spoiled = file.with_name("spoiled.jsonl")
    spoiled.write_text(f"{head}\n{json.dumps(entry)}\n")
    try:
        return len(read_lines(spoiled).lines)
    except BadInput as bad:
        return str(bad).removeprefix(str(spoiled))
    finally:
        spoiled.unlink()


@pytest.mark.parametrize(("field", "value", "found"), [
    ("prompt", 0, 1), ("prompt", -1, ":2: not a workload: line.prompt: expected a count, found -1"),
    ("scale", 1, 1), ("scale", 0, ":2: not a workload: line.scale: expected a scale, found 0"),
    ("scaled", {"ctx": [1, 2.5]}, 1), ("wrong", None, 1), ("lost", None, 1), ("lost", {"a": 1}, 1), ("predicted", 3, 1),
    ("scaled", {"ctx": [1]}, ":2: not a workload: line.scaled.ctx: expected two numbers, found [1]"),
    ("scaled", {"ctx": [1, 2, 3]}, ":2: not a workload: line.scaled.ctx: expected two numbers, found [1, 2, 3]"),
    ("scaled", {"ctx": ["1", 2]}, ":2: not a workload: line.scaled.ctx[0]: expected a number, found '1'"),
    ("session", 3, ":2: not a workload: line.session: expected a string, found 3"),
    ("other", 3, ":2: not a workload: line: unknown key 'other'"),
])  # fmt: skip
def test_a_line_has_numbers_of_its_kind(parts, field, value, found):
    assert stored(parts, lambda line: line.update({field: value})) == found


def test_a_workload_of_other_jobs_is_not_resumed(tmp_path):
    folder = WorkloadFolder(tmp_path, ["a", "b", "a"])
    assert folder.file.name == "workload-3554d2b8.jsonl"
    assert folder.jobs == ("a", "b") and folder.begin(resume=False) == {}
    other = WorkloadFolder(tmp_path, ["c"])
    assert other.file != folder.file
    other.file = folder.file
    with pytest.raises(BadInput) as bad:
        other.begin(resume=True)
    assert str(bad.value) == f"{folder.file}: not a workload to resume: other jobs"


def test_a_file_that_is_too_large_or_missing_is_no_workload(tmp_path, parts):
    with pytest.raises(BadInput) as bad:
        read_lines(tmp_path / "none.jsonl")
    assert str(bad.value) == f"{tmp_path / 'none.jsonl'}: not a workload: no such file or directory"
    limits.lift({limits.TRACE_BYTES.name: 10})
    try:
        with pytest.raises(BadInput) as bad:
            read_lines(files_of(parts[0])[0])
    finally:
        limits.lift({})
    assert ": not a workload: workload is larger than allowed" in str(bad.value) and "--limit" not in str(bad.value)
