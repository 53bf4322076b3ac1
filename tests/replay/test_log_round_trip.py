"""A recording written as its server's log, and imported: its numbers come back, and mostly the simulator says them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping

import pytest

from cachesim.base.limits import SOUGHT, lift
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.lines.recognise import grammars
from tests.replay.log_writer import write_log

DATA = Path(__file__).parents[1] / "data" / "llama_cpp_b11549"
SHARED = Path(__file__).parents[3] / "shared" / "traces" / "llama_cpp_b11549"
PROFILE = "llama_cpp@b11549"


def plain(recording: Mapping[str, Any]) -> bool:
    """True if all steps are requests that were answered. A log says less about disconnects and further completions."""
    steps = recording["steps"]
    return all(
        one["op"] == "completion" and not one.get("cancelled") and "stuck" not in one
        and one.get("response", {}).get("status") == 200 and one["request"].get("n_cmpl", 1) == 1
        and not one["response"].get("truncated")
        for one in steps
    )  # fmt: skip


def recordings(folder: Path) -> list[Path]:
    found = (file for file in sorted(folder.glob("*.json")) if "children" not in file.name)
    return [file for file in found if plain(json.loads(file.read_text("utf-8")))]


def numbers(recording: Mapping[str, Any]) -> list[tuple[int, ...]]:
    answers = (step["response"] for step in recording["steps"])
    return [(one["id_slot"], one["tokens_evaluated"], one["cache_n"], one["predicted_n"]) for one in answers]


def wrong(file: Path, verbosity: int) -> list[Any]:
    """Requests whose slot, prompt length, reused or generated tokens are not those of the recording."""
    recording = json.loads(file.read_text("utf-8"))
    session = read_session("llama_cpp", grammars()["llama_cpp"], write_log(recording, verbosity))
    found = [(one.slot, one.n_tokens, one.cache_n, one.predicted_n) for one in session.requests]
    return [] if found == numbers(recording) else [file.name, found, numbers(recording)]


@pytest.mark.parametrize("verbosity", [3, 4])
def test_every_request_comes_back(verbosity):
    files = recordings(DATA)
    assert len(files) > 15 and [wrong(file, verbosity) for file in files if wrong(file, verbosity)] == []


@pytest.mark.long
@pytest.mark.skipif(not SHARED.exists(), reason="../shared/traces is not there")
@pytest.mark.parametrize("verbosity", [3, 4])
def test_every_request_of_all_recordings_comes_back(verbosity):
    assert [found for file in recordings(SHARED) if (found := wrong(file, verbosity))] == []


def agreeing(files: list[Path], verbosity: int, folder: Path) -> tuple[int, int]:
    """Requests of which the simulator reuses what the log says, and those of which it does not."""
    agree = differ = 0
    for file in files:
        log = folder / f"{file.stem}.log"
        log.write_text("\n".join(write_log(json.loads(file.read_text("utf-8")), verbosity)) + "\n", "utf-8")
        data, _ = import_log(log, [PROFILE])
        agree, differ = agree + data["agree"], differ + data["differ"]
        assert all(one["agrees"] is not None or one["left_out"] for one in data["requests"]), file.name
    return agree, differ


@pytest.mark.long
@pytest.mark.parametrize("verbosity, least", [(3, 90), (4, 95)])
def test_the_simulator_reuses_what_the_log_says(tmp_path, verbosity, least):
    """Model and flags are not given: of these recordings at least so many requests in a hundred agree, and the file and
    the report mark the others."""
    agree, differ = agreeing(recordings(DATA)[::3], verbosity, tmp_path)
    assert 100 * agree >= least * (agree + differ), (agree, differ)


@pytest.mark.parametrize("name, agree, differ", [
    ("gemma3-bug-stale-ckpt-chunkreuse", 5, 0),
    ("llama-corner-reuse-request", 4, 0),          # its last request was sent with cache_prompt = false
])  # fmt: skip
def test_pieces_that_were_moved_are_found_again(tmp_path, name, agree, differ):
    """`reusing chunk` says which piece of the slot goes on in the prompt (--cache-reuse)."""
    log = tmp_path / f"{name}.log"
    log.write_text("\n".join(write_log(json.loads((DATA / f"{name}.json").read_text("utf-8")), 4)) + "\n", "utf-8")
    data, text = import_log(log, [PROFILE], model="W32 A" if "gemma3" in name else "A")
    assert (data["agree"], data["differ"]) == (agree, differ), data["requests"]
    assert "cache_reuse" in text


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="../shared/traces is not there")
@pytest.mark.parametrize("verbosity, least", [(3, 975), (4, 990)])
def test_the_simulator_reuses_what_all_logs_say(tmp_path, verbosity, least):
    lift({SOUGHT.name: 1_000_000})        # requests that are sent together are sent again and again
    agree, differ = agreeing(recordings(SHARED), verbosity, tmp_path)
    assert 1000 * agree >= least * (agree + differ), (agree, differ)
