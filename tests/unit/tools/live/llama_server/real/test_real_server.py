"""Tests of the real servers that a command line names, and of the permission to install."""

from __future__ import annotations

from types import SimpleNamespace

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


def test_servers_come_in_the_order_of_their_names(installed, tmp_path, monkeypatch):
    file = launcher(tmp_path, "b9873", "llama_cpp@b9765")
    monkeypatch.setattr(real_server, "launcher_of", lambda wheel: tmp_path / wheel.build)
    found = find_servers(f" b9713, {file} ,b11549,", may_install=True)
    assert [(one.build, one.binary, one.source) for one in found] == [
        ("b9713", tmp_path / "b9713", "xllamacpp==2026.6.9713"), ("b9873", file, str(file)),
        ("b11549", tmp_path / "b11549", "xllamacpp==2026.10.11549")]  # fmt: skip
    assert installed == [find_wheel("b9713"), find_wheel("b11549")]


def test_a_file_without_a_slash_is_a_path(tmp_path, monkeypatch):
    launcher(tmp_path, "b9873", "llama_cpp@b9765", "b9713")
    monkeypatch.chdir(tmp_path)
    assert real_server.is_path("b9713") and not real_server.is_path("b9873")
    [server] = find_servers("./b9713", may_install=False)
    assert (server.build, server.binary, server.source) == ("b9873", tmp_path / "b9713", "b9713")


def test_every_installation_is_announced(installed, capsys, tmp_path):
    require_installed([WHEELS[0]], may_install=True)
    place = tmp_path / "cachesim" / "real"
    assert capsys.readouterr().err.replace("\n", " ").split() == (
        f"cachesim: installing xllamacpp==2026.10.11549 (about 100 MiB) below {place}".split())  # fmt: skip


def test_installed_wheels_are_not_asked_for(installed, monkeypatch):
    monkeypatch.setattr(real_server, "is_installed", lambda wheel: wheel == WHEELS[0])
    require_installed([WHEELS[0]], may_install=False)
    with pytest.raises(BadInput, match="not installed: b9713 "):
        require_installed(WHEELS, may_install=False)


@pytest.mark.parametrize("silent", ["stdin", "stdout"])
def test_a_question_needs_a_terminal_on_both_sides(installed, monkeypatch, silent):
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{name}.isatty", lambda name=name: name != silent, raising=False)
    monkeypatch.setattr(real_server, "ask", None)
    with pytest.raises(BadInput, match="not installed"):
        require_installed(WHEELS, may_install=False)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(BadInput, match="not installed"):
        require_installed(WHEELS, may_install=False)


def test_the_rule_set_of_a_build(monkeypatch):
    assert real_server.rule_set_of("b9518") == ("llama_cpp@b9518", ())
    resolved = SimpleNamespace(profile="llama_cpp@b9518", note="", unknown=("a change",))
    monkeypatch.setattr(real_server, "resolve_name", lambda name: resolved if name == "llama_cpp@b7" else None)
    assert real_server.rule_set_of("b7") == ("llama_cpp@b9518", ("a change",))
    resolved.note = "no release"
    assert real_server.rule_set_of("b7") == ("llama_cpp@b9518", ("no release", "a change"))
    with pytest.raises(BadInput, match="no rule set for the build 'b8'") as bad:
        real_server.rule_set_of("b8")
    assert bad.value.hint == "cachesim profiles list"


@pytest.mark.parametrize(("build", "is_logged"), [("b10565", False), ("b10566", True), ("b10567", True)])
def test_logs_are_read_from_b10566_on(build, is_logged):
    assert real_server.RealServer(build, None, "", "").is_logged is is_logged
