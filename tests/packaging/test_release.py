"""Steps of a release: the version, the changelog, and archives with the same bits from the same files."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tarfile
from hashlib import sha256

import pytest

from cachesim import __version__
from tests.packaging.conftest import hook
from tests.shared import ROOT

SPEC = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
release = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(release)


@pytest.fixture
def tree(tmp_path):
    """A copy of the files that a release changes."""
    for name in ("cachesim/__init__.py", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_version_in_contributing_is_a_new_one(tree):
    [new] = re.findall(r"VERSION=(\S+)\n", release.steps(ROOT))
    release.set_version(tree, new, "2026-12-01")
    assert f'__version__ = "{new}"\n' in (tree / "cachesim/__init__.py").read_text()
    text, before = (tree / "CHANGELOG.md").read_text(), (ROOT / "CHANGELOG.md").read_text()
    assert f"## [Unreleased]\n\n## [{new}] - 2026-12-01\n\n###" in text
    assert text.replace(f"\n## [{new}] - 2026-12-01\n", "") == before


@pytest.mark.parametrize("wrong", [__version__, "0.3", "v0.3.0", "0.3.0\n", ""])
def test_an_old_or_malformed_version_changes_nothing(tree, wrong):
    with pytest.raises(SystemExit, match="not a new version"):
        release.set_version(tree, wrong, "2026-12-01")
    assert (tree / "CHANGELOG.md").read_text() == (ROOT / "CHANGELOG.md").read_text()


def test_a_release_without_changes_is_refused(tree):
    release.set_version(tree, "0.8.0", "2026-12-01")
    with pytest.raises(SystemExit, match="lists no change"):
        release.set_version(tree, "0.9.0", "2026-12-02")


def test_the_version_stands_in_one_place():
    """Files that record which version wrote them are outputs."""
    plain = [*ROOT.glob("*.toml"), *ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "tests" / "targets.mk", *(ROOT / "cachesim").rglob("*.py")]
    pattern = re.compile(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])")
    found = [path.name for path in plain if pattern.search(path.read_text("utf-8"))]
    assert sorted(found) == ["CHANGELOG.md", "__init__.py"]


def archive(path, names, mtime, uid):
    for name in names:
        (path.parent / name).write_text(name)
        os.utime(path.parent / name, (mtime, mtime))
    with tarfile.open(path, "w:gz") as made:
        for name in names:
            info = made.gettarinfo(path.parent / name, name)
            info.uid, info.mode = uid, 0o640 if uid else 0o600
            with (path.parent / name).open("rb") as stream:
                made.addfile(info, stream)
    release.normalize(path, 1_700_000_000)
    return path.read_bytes()


def test_an_archive_does_not_depend_on_times_owners_or_order(tmp_path):
    one = archive(tmp_path / "one.tar.gz", ["a", "b"], 1000.25, 0)
    assert one == archive(tmp_path / "two.tar.gz", ["b", "a"], 2000.5, 7)
    with tarfile.open(tmp_path / "two.tar.gz") as made:
        assert [(x.name, x.mtime, x.mode, made.extractfile(x).read()) for x in made] == [
            ("a", 1_700_000_000, 0o644, b"a"), ("b", 1_700_000_000, 0o644, b"b")]  # fmt: skip


@pytest.mark.long
def test_two_builds_have_the_same_bits(built, tmp_path, monkeypatch):
    monkeypatch.setitem(hook.__globals__["ENVIRONMENT"], "SOURCE_DATE_EPOCH", "1700000000")
    digests = set()
    for number in (1, 2):
        tree, out = tmp_path / f"tree{number}", tmp_path / f"out{number}"
        shutil.copytree(built.unpacked, tree, copy_function=shutil.copy)          # with new times
        out.mkdir()
        sdist, _ = hook("build_sdist", tree, out)
        release.normalize(sdist, 1_700_000_000)
        wheel, _ = hook("build_wheel", tree, out)
        digests.add((sha256(sdist.read_bytes()).hexdigest(), sha256(wheel.read_bytes()).hexdigest()))
    assert len(digests) == 1
