"""Tests of the installation of wheels: complete or nothing. The programs venv and pip are stand-ins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.files import locked
from cachesim.cli.main import main
from cachesim.tools.live.llama_server.real import installation
from cachesim.tools.live.llama_server.real.installation import (
    cache_folder,
    clean_up,
    environment_of,
    install,
    installed_bytes,
    is_installed,
    launcher_of,
    remove,
)
from cachesim.tools.live.llama_server.real.wheels import WHEELS, find_wheel
from tests.shared import ROOT
from tests.unit.tools.live.llama_server.real.stand_ins import replaced

WHEEL = find_wheel("b11549")
PYTHON = sys.executable
OFFLINE = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError()'\nERROR: No matching"
ABSENT = "ERROR: Could not find a version that satisfies the requirement\nERROR: No matching distribution found"
BROKEN = "ERROR: [Errno 28] No space left on device"


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch):
    """Stand-ins of venv and pip."""
    return replaced(tmp_path, monkeypatch)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cachesim" / "real"


def left(cache):
    return sorted(path.name for path in cache.iterdir())


def test_a_wheel_is_installed_into_its_own_folder(programs, cache):
    assert not is_installed(WHEEL)
    install(WHEEL)
    assert is_installed(WHEEL) and left(cache) == ["b11549"] and installed_bytes(WHEEL) > 0
    assert programs.installed == ["xllamacpp==2026.10.11549"] and "--only-binary" in programs.lines("called")[-1]
    assert f"{cache}/b11549/bin/python" in launcher_of(WHEEL).read_text()
    assert (environment_of(WHEEL) / "llama-server").stat().st_mode & 0o777 == 0o755
    install(WHEEL)
    assert len(programs.lines("called")) == 2


def test_without_pip_the_environment_brings_its_own(programs, monkeypatch):
    monkeypatch.setitem(sys.modules, "pip", None)
    install(WHEEL)
    venv, pip = programs.lines("called")
    assert "--without-pip" not in venv and "--python" not in pip


@pytest.mark.parametrize(("said", "expected"), [
    (OFFLINE, "cannot be reached"), (ABSENT, sysconfig.get_platform()), (BROKEN, "No space left on device"),
])  # fmt: skip
def test_a_failed_installation_leaves_nothing_and_says_why(programs, cache, said, expected):
    programs.says("pip-fails", said)
    with pytest.raises(BadInput, match=expected) as bad:
        install(WHEEL)
    assert left(cache) == [] and "\n" not in str(bad.value)


def test_pip_takes_only_the_listed_files(programs, cache):
    install(WHEEL)
    [wanted] = programs.lines("wanted")
    hashes = wanted.split()[1:]
    assert "--require-hashes" in programs.lines("called")[-1] and len(hashes) == len(WHEEL.hashes) > 3
    assert all(one.startswith("--hash=sha256:") and len(one) == 78 for one in hashes)
    remove(WHEEL)
    programs.says("pip-fails", "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.")
    with pytest.raises(BadInput, match="another file than the one listed"):
        install(WHEEL)
    assert left(cache) == []


def test_the_files_of_every_listed_version_have_hashes():
    assert [wheel.build for wheel in WHEELS if len(wheel.hashes) < 4] == []


def test_a_version_that_is_newer_than_the_list_has_no_hashes(programs):
    install(find_wheel("2027.1.12345"))
    assert programs.lines("wanted") == ["xllamacpp==2027.1.12345 "] and "hash" in find_wheel("2027.1.12345").announced
    assert "--require-hashes" not in programs.lines("called")[-1]


def test_a_wheel_that_reports_another_build_is_refused(programs, cache):
    programs.says("reported", "9999 2026.10.11549")
    with pytest.raises(BadInput, match="reports the build b9999, not b11549"):
        install(WHEEL)
    assert left(cache) == []


def test_pip_sees_where_packages_come_from_and_no_other_setting(programs, monkeypatch, cache):
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple")
    for name in ("PIP_TARGET", "PIP_REQUIREMENT", "PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "API_KEY"):
        monkeypatch.setenv(name, "x")
    install(WHEEL)
    seen = {line.partition("=")[0] for line in programs.lines("environment")}
    assert "PIP_INDEX_URL" in seen
    assert seen.isdisjoint({"PIP_TARGET", "PIP_REQUIREMENT", "PYTHONPATH", "PYTHONHOME", "LD_PRELOAD", "API_KEY"})
    assert programs.lines("folder")[0].startswith(f"{cache}/.b11549-")


def test_an_installation_that_never_ends_is_ended(programs, cache, monkeypatch):
    monkeypatch.setattr(installation, "INSTALL_WITHIN", 0.3)
    programs.says("pip-waits", "")
    with pytest.raises(BadInput, match=r"longer than 0.3 s"):
        install(WHEEL)
    assert left(cache) == []


START = """import sys
sys.executable = sys.argv.pop(1)
from cachesim.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_command_ends_pip_and_what_it_started(programs, cache, number):
    programs.says("pip-waits", "")
    words = [PYTHON, "-c", START, str(programs.python), "real", "install", "b11549"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)
    while not programs.lines("pip-waits"):
        assert command.poll() is None
        time.sleep(0.01)
    [pids] = programs.lines("pip-waits")
    command.send_signal(number)
    _, said = command.communicate(timeout=20)
    assert command.returncode == (-number if number == signal.SIGKILL else 128 + number) and "Traceback" not in said
    stop = time.monotonic() + 2
    while any(map(is_running, pids.split())) and time.monotonic() < stop:
        time.sleep(0.01)
    assert not any(map(is_running, pids.split()))
    if number == signal.SIGKILL:
        assert main(["real", "list", "--json"]) == 0
    assert left(cache) == []


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_link_in_the_place_of_an_environment_is_replaced_or_removed(cache, tmp_path):
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "kept").write_text("")
    cache.mkdir(parents=True)
    for act in (install, remove):
        (cache / "b11549").unlink(missing_ok=True)
        (cache / "b11549").symlink_to(elsewhere)
        act(WHEEL)
        assert not (cache / "b11549").is_symlink() and (elsewhere / "kept").exists()
        remove(WHEEL)


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
    programs.says("venv-fails", "no\n ensurepip \n")
    with pytest.raises(BadInput, match="venv") as bad:
        install(WHEEL)
    assert bad.value.hint == "ensurepip" and left(cache) == []


def test_a_wheel_that_another_process_installs_is_refused(programs, cache):
    cache.mkdir(parents=True)
    with locked(cache / ".b11549.lock"), pytest.raises(BadInput, match="another process installs b11549") as bad:
        install(WHEEL)
    assert (bad.value.file, programs.lines("called")) == (str(cache / "b11549"), [])


def test_a_wheel_whose_server_does_not_start_is_not_installed(programs, cache):
    programs.says("reported", "")
    with pytest.raises(BadInput):
        install(WHEEL)
    assert left(cache) == []


def test_leftovers_of_an_installation_that_still_runs_stay(cache):
    (cache / ".b9713-busy").mkdir(parents=True)
    (cache / ".b10068-dead").mkdir(parents=True)
    with locked(cache / ".b9713.lock"):
        clean_up()
        assert left(cache) == [".b9713-busy", ".b9713.lock"]


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
    programs.says("pip-fails", said)
    with pytest.raises(BadInput) as bad:
        install(WHEEL)
    assert (bad.value.cause, bad.value.hint) == ("xllamacpp==2026.10.11549 was not installed", hint)


def test_a_launcher_is_written_only_if_it_differs(programs):
    install(WHEEL)
    launcher = environment_of(WHEEL) / "llama-server"
    written = launcher.stat().st_ino
    assert launcher_of(WHEEL) == launcher and launcher.stat().st_ino == written
