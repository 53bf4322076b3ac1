"""Tests of the real servers that a command line names, and of the permission to install."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.real import real_server
from cachesim.tools.live.llama_server.real.real_server import find_servers, require_installed
from cachesim.tools.live.llama_server.real.wheels import find_wheel
from tests.unit.tools.live.real_llama import launcher

WHEELS = [find_wheel("b11549"), find_wheel("b9713")]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Wheels that were installed by the code under test; nothing is really installed."""
    found = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(real_server, "install", found.append)
    return found


def test_missing_wheels_are_installed_with_permission(installed):
    require_installed([*WHEELS, WHEELS[0]], may_install=True)
    assert installed == WHEELS


def test_without_a_terminal_and_without_permission_nothing_is_installed(installed):
    with pytest.raises(BadInput, match=r"not installed: b11549, b9713 \(--install, or cachesim real install BUILD\)"):
        require_installed(WHEELS, may_install=False)
    assert installed == []


@pytest.mark.parametrize(("answer", "expected"), [("y", WHEELS), ("yes", WHEELS), ("", []), ("n", []), (None, [])])
def test_on_a_terminal_the_user_is_asked(installed, monkeypatch, answer, expected):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    asked = []
    monkeypatch.setattr(real_server, "ask", lambda text: asked.append(text) or answer)
    if expected:
        require_installed(WHEELS, may_install=False)
    else:
        with pytest.raises(BadInput):
            require_installed(WHEELS, may_install=False)
    assert installed == expected
    assert asked[0].startswith("Install xllamacpp==2026.10.11549, xllamacpp==2026.6.9713 (about 200 MiB) below ")


def test_a_path_is_a_server_with_the_build_that_it_reports(tmp_path):
    file = launcher(tmp_path, "b9873", "llama_cpp@b9765")
    [server] = find_servers(str(file), may_install=False)
    assert (server.build, server.profile, server.binary) == ("b9873", "llama_cpp@b9765", file)
    assert not server.is_logged


def test_a_build_whose_log_is_read(tmp_path):
    [server] = find_servers(str(launcher(tmp_path, "b10566", "llama_cpp@b9765")), may_install=False)
    assert server.is_logged


@pytest.mark.parametrize(("text", "expected"), [
    ("", "expected a build such as b11549, or the path of a llama-server"),
    (" , ", "expected a build such as b11549"),
    ("nobuild", "no wheel with the build 'nobuild'"),
    ("/no/such/server", "no such llama-server"),
])  # fmt: skip
def test_other_names_are_refused(installed, text, expected):
    with pytest.raises(BadInput, match=expected):
        find_servers(text, may_install=True)


def test_a_server_without_a_build_number_is_refused(tmp_path):
    with pytest.raises(BadInput, match="the server does not report its build"):
        find_servers(str(launcher(tmp_path, "b0", "x")), may_install=False)
