"""Steps of a release: the version, the changelog, and archives with the same bits from the same files."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tarfile
from hashlib import sha256

import pytest

from cachesim import __version__
from tests.packaging.conftest import LEFT_OUT, hook
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


CHANGES = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A line.\n\n## [0.1.0] - 2026-10-01\n\n- Old.\n"


def test_the_changelog_has_one_section_the_release_of_the_package():
    headings = re.findall(r"^## .*", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert headings == [f"## [{__version__}] - unreleased"] and release.pending(ROOT) == __version__


def test_the_first_release_gets_its_day(tree):
    release.set_version(tree, __version__, "2026-12-01")
    assert f'__version__ = "{__version__}"\n' in (tree / "cachesim/__init__.py").read_text()
    text, before = (tree / "CHANGELOG.md").read_text(), (ROOT / "CHANGELOG.md").read_text()
    assert text == before.replace(" - unreleased", " - 2026-12-01")
    with pytest.raises(SystemExit, match="not a new version"):
        release.set_version(tree, __version__, "2026-12-02")
    with pytest.raises(SystemExit, match="no section"):
        release.pending(tree)


def test_a_later_release_takes_the_changes_that_are_not_released(tree):
    (tree / "CHANGELOG.md").write_text(CHANGES)
    release.set_version(tree, "0.9.0", "2026-12-01")
    assert '__version__ = "0.9.0"\n' in (tree / "cachesim/__init__.py").read_text()
    text = (tree / "CHANGELOG.md").read_text()
    assert "## [Unreleased]\n\n## [0.9.0] - 2026-12-01\n\n### Added\n\n- A line." in text
    with pytest.raises(SystemExit, match="lists no change"):
        release.set_version(tree, "0.9.1", "2026-12-02")


@pytest.mark.parametrize("wrong", ["0.1.0", "0.3", "v0.3.0", "0.3.0\n", ""])
def test_an_old_or_malformed_version_changes_nothing(tree, wrong):
    (tree / "CHANGELOG.md").write_text(CHANGES)
    with pytest.raises(SystemExit, match="not a new version"):
        release.set_version(tree, wrong, "2026-12-01")
    assert (tree / "CHANGELOG.md").read_text() == CHANGES


@pytest.mark.parametrize(("tag", "wheel", "message"), [
    ("v1.2.0", "llm_cachesim-1.2.0-py3-none-any.whl", ""),
    ("1.2.0", "llm_cachesim-1.2.0-py3-none-any.whl", "the tag v1"),
    ("v1.2.0", "llm_cachesim-1.1.0-py3-none-any.whl", "found"),
])  # fmt: skip
def test_tag_and_files_have_the_version_in_their_names(tree, tag, wheel, message):
    (tree / "cachesim/__init__.py").write_text('__version__ = "1.2.0"\n')
    (tree / "dist").mkdir()
    for name in (wheel, "llm_cachesim-1.2.0.tar.gz"):
        (tree / "dist" / name).touch()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tree)]
    for words in (["init", "-q"], ["add", "CHANGELOG.md"], ["commit", "-qm", "a"], ["tag", tag]):
        subprocess.run([*git, *words], check=True)
    if message:
        with pytest.raises(SystemExit, match=message):
            release.released_as(tree)
    else:
        assert release.released_as(tree) == (tag, [wheel, "llm_cachesim-1.2.0.tar.gz"])


def test_the_version_stands_in_one_place():
    """Files that record which version wrote them are outputs."""
    makefiles = [ROOT / "Makefile", ROOT / "tests" / "targets.mk"]
    plain = [*ROOT.glob("*.toml"), *ROOT.glob("*.md"), *makefiles, *(ROOT / "cachesim").rglob("*.py")]
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
def test_two_builds_have_the_same_bits(built, tmp_path):
    """The second one of files with other times."""
    shutil.copytree(built.tree, tmp_path / "tree", ignore=LEFT_OUT, copy_function=shutil.copy)
    (tmp_path / "out").mkdir()
    shutil.copy(built.sdist, tmp_path)
    sdists = [tmp_path / built.sdist.name, hook("build_sdist", tmp_path / "tree", tmp_path / "out")[0]]
    for sdist in sdists:
        release.normalize(sdist, 1_700_000_000)
    wheels = [built.wheel, hook("build_wheel", tmp_path / "tree", tmp_path / "out")[0]]
    for one, other in (sdists, wheels):
        assert sha256(one.read_bytes()).digest() == sha256(other.read_bytes()).digest()
