"""Tests of the version of the running code: it changes with every source, and only equal code continues a search."""

from __future__ import annotations

import shutil
from pathlib import Path

import cachesim
from cachesim.base import code_version


def test_it_changes_with_the_name_and_the_text_of_a_source(monkeypatch, tmp_path):
    def version():
        code_version.code_version.cache_clear()
        return code_version.code_version()

    here = version()
    copy = tmp_path / "cachesim"
    shutil.copytree(Path(cachesim.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_version, "__file__", str(copy / "base/code_version.py"))
    assert version() == here and here.startswith(f"{cachesim.__version__}+")
    one = copy / "engines/contract.py"
    one.write_text(one.read_text().replace("a", "b", 1))
    changed = version()
    one.rename(copy / "engines/contracts.py")
    renamed = version()
    code_version.code_version.cache_clear()
    assert len({here, changed, renamed}) == 3
