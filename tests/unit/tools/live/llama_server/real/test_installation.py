"""Tests of the installation of wheels: complete or nothing. The programs venv and pip are replaced."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput, Unfinished
from cachesim.base.files import locked
from cachesim.tools.live.llama_server.real import installation
from cachesim.tools.live.llama_server.real.installation import (
    cache_folder,
    environment_of,
    install,
    installed_bytes,
    is_installed,
    launcher_of,
    remove,
)
from cachesim.tools.live.llama_server.real.wheels import find_wheel

WHEEL = find_wheel("b11549")
OFFLINE = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError()'\nERROR: No matching"
ABSENT = "ERROR: Could not find a version that satisfies the requirement\nERROR: No matching distribution found"
BROKEN = "ERROR: [Errno 28] No space left on device"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "cachesim" / "real"


@pytest.fixture
def programs(monkeypatch):
    """Replace venv and pip; ``programs`` collects their command lines, and ``pip`` is the result of pip."""

    class Programs(list):
        pip, venv, wheel = (0, ""), (0, ""), 0

    called = Programs()

    def run(words, **_):
        if "-c" in words:
            return subprocess.CompletedProcess(words, called.wheel, "", "")
        called.append(words)
        if "venv" in words:
            folder = Path(words[-1]) / "bin"
            folder.mkdir()
            (folder / "python").write_text("#!/bin/sh\nexit 0\n")
            (folder / "python").chmod(0o755)
            return subprocess.CompletedProcess(words, called.venv[0], "", called.venv[1])
        if isinstance(called.pip, BaseException):
            raise called.pip
        return subprocess.CompletedProcess(words, called.pip[0], "", called.pip[1])

    monkeypatch.setattr(installation.subprocess, "run", run)
    return called


def left(cache):
    return sorted(path.name for path in cache.iterdir())


def test_a_wheel_is_installed_into_its_own_folder(programs, cache):
    assert not is_installed(WHEEL)
    install(WHEEL)
    assert is_installed(WHEEL) and left(cache) == ["b11549"] and installed_bytes(WHEEL) > 0
    assert programs[-1][-1] == "xllamacpp==2026.10.11549" and "--only-binary" in programs[-1]
    assert f"{cache}/b11549/bin/python" in launcher_of(WHEEL).read_text()
    assert (environment_of(WHEEL) / "llama-server").stat().st_mode & 0o777 == 0o755
    install(WHEEL)
    assert len(programs) == 2


def test_without_pip_the_environment_brings_its_own(programs, monkeypatch):
    monkeypatch.setitem(sys.modules, "pip", None)
    install(WHEEL)
    venv, pip = programs
    assert "--without-pip" not in venv and pip[0].endswith("/bin/python") and pip[0] != sys.executable


@pytest.mark.parametrize(("said", "expected"), [
    (OFFLINE, "cannot be reached"), (ABSENT, sysconfig.get_platform()), (BROKEN, "No space left on device"),
])  # fmt: skip
def test_a_failed_installation_leaves_nothing_and_says_why(programs, cache, said, expected):
    programs.pip = (1, said)
    with pytest.raises(BadInput, match=expected) as bad:
        install(WHEEL)
    assert left(cache) == [] and "\n" not in str(bad.value)


def test_an_interrupted_installation_leaves_nothing(programs, cache):
    programs.pip = KeyboardInterrupt()
    with pytest.raises(Unfinished, match="b11549 was not installed"):
        install(WHEEL)
    assert left(cache) == []


def test_what_a_killed_installation_left_is_removed_by_the_next(programs, cache):
    (cache / ".b11549-dead").mkdir(parents=True)
    (cache / "b11549" / "bin").mkdir(parents=True)
    assert not is_installed(WHEEL)
    install(WHEEL)
    assert left(cache) == ["b11549"]


def test_an_environment_whose_removal_ends_early_is_not_installed(programs, cache, monkeypatch):
    install(WHEEL)
    monkeypatch.setattr(installation.shutil, "rmtree", lambda folder, ignore_errors: None)
    remove(WHEEL)
    assert environment_of(WHEEL).is_dir() and not is_installed(WHEEL)


def test_an_environment_is_removed(programs, cache):
    install(WHEEL)
    remove(WHEEL)
    assert left(cache) == [] and not is_installed(WHEEL)
    remove(WHEEL)


def test_the_launcher_of_another_cachesim_is_written_anew(programs):
    install(WHEEL)
    launcher = environment_of(WHEEL) / "llama-server"
    text = launcher.read_text()
    launcher.write_text("#!/bin/sh\nexec python /gone/wheel_program.py\n")
    launcher.chmod(0o644)
    assert launcher_of(WHEEL).read_text() == text and launcher.stat().st_mode & 0o777 == 0o755


def test_a_relative_cache_home_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "cachesim" / "real"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "cachesim" / "real"


def test_an_environment_that_cannot_be_made_leaves_nothing(programs, cache):
    programs.venv = (1, "no\n ensurepip \n")
    with pytest.raises(BadInput, match="venv") as bad:
        install(WHEEL)
    assert bad.value.hint == "ensurepip" and left(cache) == []


def test_a_wheel_that_another_process_installs_is_refused(programs, cache):
    cache.mkdir(parents=True)
    with locked(cache / ".b11549.lock"), pytest.raises(BadInput, match="another process installs b11549") as bad:
        install(WHEEL)
    assert (bad.value.file, programs) == (str(cache / "b11549"), [])


def test_a_wheel_whose_server_does_not_start_is_not_installed(programs, cache):
    programs.wheel = 1
    with pytest.raises(BadInput):
        install(WHEEL)
    assert left(cache) == []


def test_leftovers_of_other_builds_stay(programs, cache):
    (cache / ".b9713-dead").mkdir(parents=True)
    install(WHEEL)
    assert left(cache) == [".b9713-dead", "b11549"]


def test_the_size_of_an_environment_is_that_of_all_its_files(cache):
    folder = environment_of(WHEEL)
    (folder / "lib").mkdir(parents=True)
    (folder / "one").write_bytes(b"12345")
    (folder / "lib" / "two").write_bytes(b"123")
    assert (folder, installed_bytes(WHEEL)) == (cache / "b11549", 8)


@pytest.mark.parametrize(("said", "hint"), [
    ("", "it said nothing"), (" \n", "it said nothing"), ("first\n last \n\n", "last"),
    ("ERROR: first\nERROR: second\nhelp\n", "ERROR: second"),
])  # fmt: skip
def test_the_reason_of_pip_is_its_last_error_or_line(programs, said, hint):
    programs.pip = (1, said)
    with pytest.raises(BadInput) as bad:
        install(WHEEL)
    assert (bad.value.cause, bad.value.hint) == ("xllamacpp==2026.10.11549 was not installed", hint)


def test_a_launcher_is_written_only_if_it_differs(programs):
    install(WHEEL)
    launcher = environment_of(WHEEL) / "llama-server"
    written = launcher.stat().st_ino
    assert launcher_of(WHEEL) == launcher and launcher.stat().st_ino == written
