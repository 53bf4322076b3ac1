"""Tests of the version of the running code: it changes with every source, and only equal code continues a search."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import cachesim
from cachesim.base.code_version import code_version

PROGRAM = "from cachesim.base.code_version import code_version; print(code_version())"


def test_it_changes_with_the_name_and_the_text_of_a_source(tmp_path):
    def version():
        words = [sys.executable, "-c", PROGRAM]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    copy = tmp_path / "cachesim"
    shutil.copytree(Path(cachesim.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert version() == code_version() and code_version().startswith(f"{cachesim.__version__}+")
    one = copy / "engines/contract.py"
    one.write_text(one.read_text().replace("a", "b", 1))
    changed = version()
    one.rename(copy / "engines/contracts.py")
    assert len({code_version(), changed, version()}) == 3
