"""The rules files in CONTRIBUTING work as documented, with the commands shown after them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.docs.examples import ROOT

pytestmark = pytest.mark.long
TEXT = re.sub(r"\n### An engine in one file\n.*?(?=\n##)", "", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.S)
FILES = {name: body for name, body in re.findall(r"```python\n# (\w+\.py): (.*?)```", TEXT, re.S)}
COMMANDS = [
    shlex.split(re.sub(r"--examples \d+", "--examples 4", line), comments=True)
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.S)
    for line in block.replace("\\\n", " ").splitlines() if line.startswith("cachesim ") and "my-case" not in line
]  # fmt: skip


JSON = [[*words, "--json"] for words in COMMANDS if words[1] == "run"]
EACH = """
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from cachesim.cli.main import main
ended = []
for words in json.loads(sys.argv[1]):
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        ended.append([words, main(words[1:])])
    ended[-1] += out.getvalue(), err.getvalue()
print(json.dumps(ended))
"""
"""Runs commands one after the other, and prints for each its words, exit code, stdout and stderr."""


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """Return the exit code, stdout and stderr of each command, typed in a folder with the files. One process runs them:
    other tests do not see their rules."""
    folder = tmp_path_factory.mktemp("typed")
    for name, body in FILES.items():
        (folder / name).write_text(f"# {body}")
    done = subprocess.run([sys.executable, "-c", EACH, json.dumps([*COMMANDS, *JSON])], cwd=folder, capture_output=True,
                          text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    ended = {tuple(words): (code, out, err) for words, code, out, err in json.loads(done.stdout)}
    return lambda words: ended[*words]


def test_there_are_four_files_and_their_commands():
    assert set(FILES) == {"my_rules.py", "lru.py", "block_states.py", "before_end.py"} and len(COMMANDS) == 14


def test_the_first_has_ten_lines():
    assert len([line for line in FILES["my_rules.py"].splitlines() if line.strip()]) == 10


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if words[1] != "run" or words[-1] in ("GA", "my_rules.py")],
    ids=lambda words: words[1],
)
def test_a_command_runs(typed, words):
    code, out, err = typed(words)
    assert code in (0, 1), err
    assert any(name in out for name in ("mine", "lru", "blocks", "before-end", "ik_llama@1889-base"))


def test_a_note_on_a_checkpoint_decides_which_checkpoint_stays(typed):
    [words] = [words for words in COMMANDS if words[-1] == "lru.py"]
    plain, lru = (run["requests"] for run in json.loads(typed([*words, "--json"])[1])["runs"])
    assert [one["cache_n"] for one in plain] == [0, 40, 113, 137, 0]
    assert [one["cache_n"] for one in lru] == [0, 40, 113, 137, 40]
    assert [one["checkpoints"][0] for one in lru] == [40] * 5, "it was made, used, made again, and never given up"
    assert all(one["equal_cold"] for one in (*plain, *lru))


def test_a_state_at_the_end_of_every_block_is_found(typed):
    [words] = [words for words in COMMANDS if words[-1] == "block_states.py" and words[1] == "run"]
    plain, blocks = (run["requests"] for run in json.loads(typed([*words, "--json"])[1])["runs"])
    assert [one["cache_n"] for one in plain] == [0, 48, 0] and [one["cache_n"] for one in blocks] == [0, 48, 32]
    assert all(one["equal_cold"] for one in (*plain, *blocks))


def test_a_state_before_the_end_of_a_prompt_is_found(typed):
    [words] = [words for words in COMMANDS if "before_end.py" in words and words[1] == "run"]
    plain, earlier = (run["requests"] for run in json.loads(typed([*words, "--json"])[1])["runs"])
    assert [one["cache_n"] for one in plain] == [0, 0] and [one["cache_n"] for one in earlier] == [0, 16]
    assert all(one["equal_cold"] for one in (*plain, *earlier))
