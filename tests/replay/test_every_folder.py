"""`make replay`: a row for every folder, and an end that says whether all of it agreed."""

from __future__ import annotations

import pytest

from cachesim.base import exits
from tests.replay.__main__ import main
from tests.replay.verdicts import DATA

STALE = (DATA / "llama_cpp" / "mamba2-bug-stale-ckpt-pos0.json").read_text()


@pytest.fixture
def traces(tmp_path):
    for folder in ("one", "two/inner"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.json").write_text(STALE)
    return tmp_path


def rows(text):
    """Numbers by folder."""
    return {line.split()[0]: [int(n) for n in line.split()[1:]] for line in text.splitlines()[1:-1]}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_each_folder_has_a_row_with_files_steps_events_and_verdicts(traces, capsys, jobs):
    assert main([str(traces), "-j", jobs]) == exits.HOLDS
    found = rows(capsys.readouterr().out)
    assert list(found) == ["one", "two/inner"]
    assert all(row[0] == 1 and row[1] == row[2] == row[5] == row[6] == 4 and not row[7] for row in found.values())


@pytest.mark.parametrize("spoil, told", [
    (lambda text: text.replace('"cache_n":0', '"cache_n":1', 1), "'recorded': 1, 'ours': 0"),
    (lambda text: text.replace('"shifted":false', '"x":0').replace('"i":2,', '"i":1,', 1), ""),
    (lambda text: text[:-9], "1 file could not be replayed"),
    (lambda text: text.replace('"llama.cpp"', '"mlx-lm","profile":"x"', 1), "4 undecided"),
], ids=["another event", "another verdict", "a broken file", "out of scope"])
def test_whatever_is_not_replayed_or_differs_ends_with_1(traces, capsys, spoil, told):
    file = traces / "one" / "a.json"
    file.write_text(spoil(STALE))
    assert file.read_text() != STALE
    assert main([str(traces)]) == exits.BROKEN
    assert told in " ".join(capsys.readouterr().out.split())


def test_without_recordings_one_line_says_so(tmp_path, capsys):
    for place in (tmp_path, tmp_path / "nowhere"):
        assert main([str(place)]) == exits.NOTHING
        assert capsys.readouterr() == ("", f"cachesim: nothing was replayed: there are no recordings at {place}\n")
