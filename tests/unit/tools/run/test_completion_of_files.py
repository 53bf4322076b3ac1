"""Numbers that `run --complete` writes: a run with an undecided request is skipped, and the others are not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.scenarios import toml_writer
from cachesim.tools.run.run_command import _complete


def run(name, equal_cold, refused=False):
    job = SimpleNamespace(scenario=SimpleNamespace(file=f"{name}.toml"), profile="p")
    request = {"equal_cold": equal_cold, "refused": refused, "cache_n": 1, "prompt_n": 2, "status": 200}
    return job, {"requests": [{**request, "checkpoints": []}], "broken": []}


@pytest.fixture
def written(monkeypatch):
    """Return the files that are completed; "bad" cannot be written."""
    found = []

    def complete(path, profile, numbers, header):
        if path.stem == "bad":
            raise BadInput("cannot be written")
        found.append((path.stem, numbers["cache_n"]))
        return path.stem != "same"

    monkeypatch.setattr(toml_writer, "complete", complete)
    return found


def test_undecided_runs_are_skipped_and_errors_are_counted(written, capsys):
    runs = [run("open", None), run("bad", True), run("refused", None, refused=True), run("good", True)]
    assert _complete([*runs, run("same", False)]) == [exits.BAD_INPUT]
    assert written == [("refused", [1]), ("good", [1]), ("same", [1])]
    assert [line.split(":")[1].strip() for line in capsys.readouterr().err.splitlines()] == [
        "cannot be written", "refused.toml", "good.toml"]  # fmt: skip
