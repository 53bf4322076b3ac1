"""Commands in a folder full of traps: modules of the standard library's names, executables named like builds and tools,
and variables that make an interpreter or pip run or fetch something else. None is imported or executed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import ROOT

MODULES = (
    "logging", "venv", "pip", "ensurepip", "json", "re", "subprocess", "multiprocessing", "argparse", "random",
    "signal", "numpy", "rich", "jinja2", "tokenizers", "xllamacpp", "sitecustomize", "usercustomize", "encodings",
)  # fmt: skip
PROGRAMS = (
    "b11549", "11549", "llama-server", "llama_cpp@b11549", "python", "python3", "pip", "sh", "git", "less", "cat",
    "A", "GGGA", "none", "-",
)  # fmt: skip
VARIABLES = {
    "PIP_TARGET": "target", "PIP_PREFIX": "prefix", "PIP_REQUIREMENT": "requirements.txt", "PIP_PYTHON": "python",
    "PIP_LOG": "pip-log", "PYTHONSTARTUP": "logging.py", "PYTHONUSERBASE": "user", "PYTHONWARNINGS": "error::trap.Trap",
    "PYTHONBREAKPOINT": "logging.trap", "LD_PRELOAD": "", "BASH_ENV": "sh", "ENV": "sh",
}  # fmt: skip
BODY = {"messages": [{"role": "user", "content": "a question"}]}


@pytest.fixture
def traps(tmp_path):
    """A folder whose modules and programs write a file MARK-NAME when they run."""
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / f'MARK-{name}.py')!r}, 'w').close()\n")
    for name in PROGRAMS:
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n: > '{tmp_path}/MARK-{name}'\n")
        file.chmod(0o755)
    (tmp_path / "requirements.txt").write_text("-e .\n")
    (tmp_path / "setup.py").write_text((tmp_path / "logging.py").read_text().replace("logging", "setup"))
    (tmp_path / "bodies.jsonl").write_text(f"{json.dumps(BODY)}\n" * 2)
    (tmp_path / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    return tmp_path


def run_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder. Without ``-P`` the command itself would be the first to import from there."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), "PIP_NO_INDEX": "1",
                   **{name: str(folder / value) if value else "" for name, value in VARIABLES.items()}}  # fmt: skip
    return subprocess.run([sys.executable, "-P", *words], cwd=folder, env=environment,
                          capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)  # fmt: skip


IN_ONE_PROCESS = {
    ("run", "A9/A", "--model", "A", "--real", "b11549"): 2,                # a build that is a file here
    ("import", "bodies.jsonl", "--template", "chat.jinja", "-q"): 0,
    ("real", "serve", "b11549", "-m", "GGGA"): 2,                          # a model that is a file here
}
"""Command lines that start no Python, with their exit codes."""
PROGRAM = f"import sys, cachesim.cli.main as cli; sys.exit([cli.main([*words]) for words in {[*IN_ONE_PROCESS]}])"


@pytest.mark.parametrize(("words", "code", "ends"), [
    pytest.param(("-m", "cachesim", "real", "install", "b11549"), 2, "", id="venv and pip"),
    pytest.param(("-m", "cachesim", "fuzz", "--examples", "2", "-j", "2", "--model", "A", "-p", "ik_llama@main"), None,
                 "", id="processes"),
    pytest.param(("-c", PROGRAM), 1, f"{[*IN_ONE_PROCESS.values()]}\n", id="files of these names"),
])  # fmt: skip
def test_nothing_of_the_current_folder_runs(traps, words, code, ends):
    done = run_in(traps, *words)
    assert sorted(path.name for path in traps.glob("MARK*")) == []
    assert "Traceback" not in done.stderr and done.stderr.endswith(ends), done.stderr
    assert code is None or done.returncode == code, done.stderr
    assert not {"target", "prefix", "pip-log", "user"} & {path.name for path in traps.iterdir()}


@pytest.mark.long
def test_processes_that_are_spawned_import_nothing_of_the_current_folder(traps, tmp_path_factory):
    """Systems other than Linux spawn the processes of a search. A program elsewhere starts them, as ``bin/cachesim``
    does."""
    program = tmp_path_factory.mktemp("bin") / "program"
    program.write_text(
        "import multiprocessing\n"
        "from cachesim.base.pool import Pool\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method('spawn')\n"
        "    with Pool(len, 2) as pool:\n"
        "        print([one.result for one in pool.each([('a', 'b')])])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(program)], cwd=traps, env=environment, capture_output=True, text=True,
                          timeout=100)  # fmt: skip
    assert sorted(path.name for path in traps.glob("MARK*")) == [], done.stderr
    assert done.stdout == "[2]\n", done.stderr
