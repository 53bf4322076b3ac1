"""Reader of a log: the main server run, the others, and the number of lines."""

from __future__ import annotations

import pytest

from cachesim.cli.main import main
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.import_log import read_log
from cachesim.tools.server_logs.lines.recognise import grammars

START = "version: 6900 (abcdef12)"
LAUNCH = "slot launch_slot_: id  {slot} | task {task} | processing task"
RELEASE = "slot      release: id  {slot} | task {task} | stop processing: n_tokens = {n}, truncated = 0"


def requests(*tasks):
    return [text.format(slot=0, task=task, n=50 + task) for task in tasks for text in (LAUNCH, RELEASE)]


def read(*lines):
    return read_session("llama_cpp", grammars()["llama_cpp"], lines)


def tasks(session):
    return [request.task for request in session.requests]


def test_an_empty_log_is_a_run_without_requests():
    found = read()
    assert (found.requests, found.others, found.lines) == ([], [], 0)


def test_every_line_is_counted_and_requests_stand_in_their_order():
    found = read("something else", *requests(3, 5), "", "the end")
    assert (tasks(found), found.others, found.lines) == ([3, 5], [], 7)


def test_the_run_with_the_most_requests_is_the_main_one():
    first, second = [START, *requests(0, 4)], [START, *requests(0, 4, 9)]
    for lines in ((*first, *second), (*second, *first)):
        found = read(*lines)
        assert (tasks(found), [tasks(one) for one in found.others], found.lines) == ([0, 4, 9], [[0, 4]], len(lines))


NO_LOGS = {
    "README.md": "# cachesim\nThe reference simulator of llama.cpp, mlx_lm, vllm: a server and EngineCore.\n" * 9,
    "chat.txt": "User: why?\nAssistant: vllm prints KV cache usage: 3.0 % and Prompt Cache: full.\n",
    "traceback.txt": 'Traceback (most recent call last):\n  File "mlx_lm/server.py", line 3, in run\nValueError: no\n',
    "commit.txt": "commit 236531595\n\n    server : restored context checkpoint took too long in update_slots\n",
    "batch.py": "def size(choice):\n    n_tokens = choice\n    return n_tokens\n" + "\n# a comment" * 60,
    "reply.json": '{\n "usage": {\n  "prompt_tokens": 5,\n  "completion_tokens": 2,\n  "total_tokens": 7\n }\n}\n',
    "bench.txt": "run 1\ntotal time = 12 ms\n",
}
"""Text files that name a server, or contain a line that other programs print, too."""


@pytest.mark.parametrize("name", NO_LOGS)
@pytest.mark.parametrize("profile", [[], ["-p", "llama_cpp@b11549"]])
def test_what_is_no_log_is_refused(tmp_path, capsys, name, profile):
    """A reader who gives the wrong file learns it at once."""
    file = tmp_path / name
    file.write_text(NO_LOGS[name])
    assert main(["import", str(file), *profile]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and name in err


@pytest.mark.parametrize(("lines", "engine"), [
    (["total time = 12 ms"], "llama_cpp"), (['"prompt_tokens": 5,'], "mlx_lm"),
    (["hello"] * 99 + ["Prompt Cache: 3 sequences, 0.5 GB"], "mlx_lm"),
    (["slot update_slots: id  0 | task 7 | a message that is new"], "llama_cpp"),
])  # fmt: skip
def test_an_excerpt_is_a_log(tmp_path, lines, engine):
    """A line that somebody pasted suffices, and a line of the server among those of other programs."""
    file = tmp_path / "server.log"
    file.write_text("\n".join(lines))
    assert read_log(file).engine.name == engine
