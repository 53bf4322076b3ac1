"""Tests of the real servers that a command line names, and of the permission to install."""

from __future__ import annotations

import io

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.real.installation import is_installed
from cachesim.tools.live.llama_server.real.real_server import find_servers, is_path, require_installed, rule_set_of
from cachesim.tools.live.llama_server.real.wheels import find_wheel
from tests.unit.tools.live.llama_server.real.stand_ins import replaced
from tests.unit.tools.live.real_llama import launcher

WHEELS = [find_wheel("b11549"), find_wheel("b9713")]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Stand-ins of venv and pip, and what they installed."""
    return replaced(tmp_path, monkeypatch)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_missing_wheels_are_installed_once_with_permission_and_announced(installed, capsys):
    require_installed([*WHEELS, WHEELS[0]], may_install=True)
    assert installed.installed == [wheel.requirement for wheel in WHEELS] and all(map(is_installed, WHEELS))
    said = capsys.readouterr().err
    assert all(wheel.requirement in said for wheel in WHEELS)
    require_installed(WHEELS, may_install=False)


@pytest.mark.parametrize(("answer", "agrees"), [
    ("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)])  # fmt: skip
def test_on_a_terminal_the_user_is_asked(installed, monkeypatch, answer, agrees):
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stdout", Terminal())
    if agrees:
        require_installed(WHEELS, may_install=False)
    else:
        with pytest.raises(BadInput, match=r"b11549, b9713"):
            require_installed(WHEELS, may_install=False)
    assert installed.installed == [wheel.requirement for wheel in WHEELS] * agrees


@pytest.mark.parametrize("stdin", [io.StringIO("y\n"), None])
@pytest.mark.parametrize("stdout", [Terminal(), io.StringIO()])
def test_a_question_needs_a_terminal_on_both_sides(installed, monkeypatch, stdin, stdout):
    monkeypatch.setattr("sys.stdin", stdin if stdout.isatty() or stdin is None else Terminal("y\n"))
    monkeypatch.setattr("sys.stdout", stdout)
    with pytest.raises(BadInput, match="--install"):
        require_installed(WHEELS, may_install=False)
    assert installed.installed == []


def test_only_missing_wheels_are_named(installed):
    require_installed(WHEELS[:1], may_install=True)
    with pytest.raises(BadInput, match="b9713") as bad:
        require_installed(WHEELS, may_install=False)
    assert "b11549" not in bad.value.cause


def test_a_path_is_a_server_with_the_build_that_it_reports(tmp_path):
    file = launcher(tmp_path, "b9873", "llama_cpp@b9873")
    [server] = find_servers(str(file), may_install=False)
    assert (server.build, server.profile, server.binary, server.is_logged) == ("b9873", "llama_cpp@b9873", file, True)


@pytest.mark.parametrize("text", ["", " , ", "nobuild", "/no/such/server"])
def test_other_names_are_refused(installed, text):
    with pytest.raises(BadInput) as bad:
        find_servers(text, may_install=True)
    assert (text.strip(" ,") or "b11549") in str(bad.value) and installed.installed == []


def test_a_server_without_a_build_number_is_refused(tmp_path):
    with pytest.raises(BadInput, match="build"):
        find_servers(str(launcher(tmp_path, "b0", "x")), may_install=False)


def test_servers_come_in_the_order_of_their_names(installed, tmp_path):
    file = launcher(tmp_path, "b9873", "llama_cpp@b9765")
    found = find_servers(f" b9713, {file} ,b11549,", may_install=True)
    assert [(one.build, one.source) for one in found] == [
        ("b9713", "xllamacpp==2026.6.9713"), ("b9873", str(file)), ("b11549", "xllamacpp==2026.10.11549")]
    assert [one.binary.parent.name for one in found] == ["b9713", tmp_path.name, "b11549"]
    assert len(installed.installed) == 2


def test_a_name_without_a_separator_is_a_build_also_where_a_file_has_it(tmp_path, monkeypatch, installed):
    launcher(tmp_path, "b9873", "llama_cpp@b9765", "b9713")
    monkeypatch.chdir(tmp_path)
    assert is_path("./b9713") and not is_path("b9713")
    [server] = find_servers("./b9713", may_install=False)
    assert (server.build, server.binary, server.source) == ("b9873", tmp_path / "b9713", "b9713")
    [server] = find_servers("b9713", may_install=True)
    assert (server.build, server.source) == ("b9713", "xllamacpp==2026.6.9713")


def test_the_rule_set_of_a_build():
    assert rule_set_of("b9518") == ("llama_cpp@b9518", ())
    profile, notes = rule_set_of("b99999")
    assert profile.startswith("llama_cpp@") and notes
    with pytest.raises(BadInput, match="'x'"):
        rule_set_of("x")
