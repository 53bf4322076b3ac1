"""Exit codes of replays, and what is replayed, printed and drawn."""

from __future__ import annotations

import io
import json
import os
import sys

import pytest

from cachesim.base import exits, progress_bar
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.player import Player
from cachesim.tools.replay.command import BAD, FAULT, add_arguments, find_traces, replay_one
from tests.live.fake import Fake
from tests.shared import ROOT, SMALL
from tests.unit.tools.command_arguments import arguments

NOW = "llama_cpp@b11549"
DATA = ROOT / "tests/data/ik_llama_parallel"
STALE = "A5/B10/B[:3].C3>2"             # the answer to its last request is wrong


@pytest.fixture
def recorded(tmp_path):
    """Return a function that writes the recording of a simulated server, after a change; it returns the file."""
    def write(name="a", line="A9/A.B5", change=None):
        scenario = from_line(line, model="GGGA", profiles=(NOW,), server=SMALL)
        player = Player(scenario)
        with Fake(NOW, "GGGA", player.write(scenario.server)) as fake:
            list(player.run(fake.play))
            data = json.loads(json.dumps(fake.trace()))
        if change is not None:
            change(data)
        (file := tmp_path / f"{name}.json").write_text(json.dumps(data))
        return str(file)

    return write


def another_count(data):
    data["steps"][1]["response"]["cache_n"] += 1


def another_verdict(data):
    data["inexact"] = [] if data["inexact"] else [{"i": 1}]


def no_steps(data):
    data["steps"] = []


def unknown_build(data):
    data |= {"engine": "mlx-lm", "profile": "x"}


@pytest.mark.parametrize(("line", "change", "mode", "code"), [
    ("A9/A.B5", None, "none", exits.HOLDS), ("A9/A.B5", None, "provenance", exits.HOLDS),
    (STALE, None, "provenance", exits.HOLDS), (STALE, None, "exact", exits.HOLDS),
    ("A9/A.B5", another_count, "none", exits.BROKEN), (STALE, another_verdict, "none", exits.HOLDS),
    (STALE, another_verdict, "provenance", exits.BROKEN), ("A9/A.B5", another_verdict, "provenance", exits.BROKEN),
    ("A9/A.B5", no_steps, "none", exits.UNDECIDED), ("A9/A.B5", unknown_build, "none", exits.UNDECIDED),
    ("A9/A.B5", lambda data: data.pop("steps"), "none", exits.BAD_INPUT),
])  # fmt: skip
def test_a_recording_has_an_exit_code(recorded, capsys, line, change, mode, code):
    """Verdicts are compared in the modes that judge; slots are those of the answers."""
    assert main(["replay", recorded("a", line, change), "--mode", mode]) == code


def test_several_files_have_the_worst_code_and_the_order_of_their_names(recorded, tmp_path, capsys):
    good, bad = recorded("a"), recorded("c", change=another_count)
    assert main(["replay", bad, good, "--json"]) == exits.BROKEN
    data = json.loads(capsys.readouterr().out)
    assert [one["file"] for one in data["traces"]] == [bad, good] and (data["steps"], data["steps_agree"]) == (4, 3)
    (broken := tmp_path / "b.json").write_text("{")
    for jobs in ("1", "2"):
        assert main(["replay", str(tmp_path), "--jobs", jobs, "--json"]) == exits.BROKEN
        out, err = capsys.readouterr()
        assert [one["file"] for one in json.loads(out)["traces"]] == [good, str(broken), bad]
        assert "b.json" in err and err.count("\n") == 1
    assert main(["replay", good, str(broken)]) == exits.BAD_INPUT


def test_a_file_that_cannot_be_replayed_has_the_reason_in_its_result(tmp_path):
    (bad := tmp_path / "bad.json").write_text("{")
    found = replay_one((bad, "none"))
    assert (found["scope"], found["file"], found["steps"]) == (BAD, str(bad), 0) and "bad.json" in found["why"]


def test_a_fault_of_cachesim_at_a_file_does_not_end_the_replay(recorded, monkeypatch, capsys):
    good, other = recorded("a"), recorded("b")
    read = os.open

    def fails(path, *more, **how):
        if str(path) == other:
            raise AssertionError("it failed")
        return read(path, *more, **how)

    monkeypatch.setattr("os.open", fails)
    assert main(["replay", good, other, "--json"]) == exits.CRASH
    out, err = capsys.readouterr()
    assert [one["scope"] for one in json.loads(out)["traces"]] == ["in", FAULT] and "it failed" in err


def test_recordings_of_another_build_are_left_out_if_asked_for(recorded, capsys):
    good, other = recorded("a"), recorded("b", change=unknown_build)
    assert main(["replay", good, other]) == exits.UNDECIDED
    assert main(["replay", good, other, "--in-scope", "--json"]) == exits.HOLDS
    out = capsys.readouterr().out
    assert [one["file"] for one in json.loads(out[out.index("{") :])["traces"]] == [good]
    assert main(["replay", other, other, "--in-scope"]) not in (exits.HOLDS, exits.BROKEN)


def test_an_interrupted_replay_has_the_results_until_then(recorded, tmp_path, capsys, monkeypatch):
    """The interrupt arrives when the second of three files is reported."""
    files = [recorded("a"), str(tmp_path / "b.json"), recorded("c")]
    (tmp_path / "b.json").write_text("{")
    write, interrupts = sys.stderr.write, [KeyboardInterrupt]

    def interrupt(text):
        if interrupts:
            raise interrupts.pop()
        return write(text)

    monkeypatch.setattr(sys.stderr, "write", interrupt)
    assert main(["replay", *files, "--json"]) == exits.INTERRUPTED
    out, err = capsys.readouterr()
    assert [one["file"] for one in json.loads(out)["traces"]] == files[:1] and "1 of 3" in err


def test_a_single_recording_has_a_bar_while_it_is_replayed(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_bar, "DELAY", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert main(["replay", str(DATA / "llama-shortage-5049.json")]) == exits.HOLDS
    assert "replaying" in sys.stderr.getvalue()


def test_a_picture_shows_a_single_recording_with_the_first_difference(recorded, tmp_path, capsys):
    page, good, bad = tmp_path / "x.html", recorded("my file"), recorded("b", change=another_count)
    assert main(["replay", good, bad, "--html", str(page)]) == exits.BAD_INPUT and not page.exists()
    assert main(["replay", good, "--html", str(page)]) == exits.HOLDS
    plain = page.read_text()
    assert "my file.json" in plain and "Step 1" not in plain
    assert main(["replay", bad, "--html", str(page)]) == exits.BROKEN
    assert "Step 1" in page.read_text() and "cache_n" in page.read_text()


def test_folders_are_their_recordings_and_files_stay_files(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.json", "a.json", "c.txt", "sub/d.json"):
        (tmp_path / name).write_text("{}")
    found = find_traces([tmp_path / "missing.json", tmp_path, tmp_path / "c.txt"])
    names = [path.relative_to(tmp_path).as_posix() for path in found]
    assert names[0] == "missing.json" and names[-1] == "c.txt" and names[1:3] == ["a.json", "b.json"]
    with pytest.raises(BadInput):
        find_traces([""])


def test_every_argument_is_explained_and_has_its_default():
    assert arguments(add_arguments, ["x"]) == {
        "files": ["x"], "mode": "none", "in_scope": False, "jobs": None, "limits": [], "json": False, "html": "",
        "svg": "", "trace": ""}  # fmt: skip
