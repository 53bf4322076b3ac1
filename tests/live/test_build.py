"""Tests of building, caching and refusal, with stand-ins for the build tools."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
import tomllib
from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.profiles import PROFILES
from tests.live import build as module
from tests.live import every
from tests.live.build import BUILDS, Missing, binary, commit_of, sha256

COMMIT = "b11549"
VERSION = BUILDS[COMMIT].version
SAYS = '#!/bin/sh\necho "version: {0}"\n'


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache with a small sdist of the right hash, and a cmake and ninja that make a script."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("BUILT", "1")
    home = tmp_path / "cachesim-live"
    packed = home / "sdist" / f"xllamacpp-{VERSION}.tar.gz"
    packed.parent.mkdir(parents=True)
    with tarfile.open(packed, "w:gz") as archive:
        for name, text in (("thirdparty/llama.cpp/CMakeLists.txt", b"project(x)"), ("setup.py", b"raise SystemExit")):
            member = tarfile.TarInfo(f"xllamacpp-{VERSION}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    monkeypatch.setitem(BUILDS, COMMIT, replace(BUILDS[COMMIT], sha256=sha256(packed)))
    tools = tmp_path / "tools"
    tools.mkdir()
    _script(tools / "cmake", f'echo "$@" >> {tmp_path}/cmake.log; mkdir -p "$4"')
    _script(tools / "ninja", f'mkdir -p "$2/bin"; cp {tmp_path}/result "$2/bin/llama-server"')
    _script(tools / "c++", "true")
    (tmp_path / "result").write_text(SAYS.format("0.6.0-dev (build 11549, commit unknown)"))
    (tmp_path / "result").chmod(0o755)
    monkeypatch.setattr(module, "find_tool", lambda name: shutil.which(name, path=str(tools)))
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return home


def _script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_server_is_built_once(home, tmp_path):
    server = binary(COMMIT)
    assert server == home / "build" / VERSION / "bin" / "llama-server" and commit_of(server) == COMMIT
    assert binary(COMMIT) == server
    (line,) = (tmp_path / "cmake.log").read_text().splitlines()
    assert "-DLLAMA_BUILD_NUMBER=11549" in line and "-DBUILD_SHARED_LIBS=OFF" in line
    assert not (home / "build" / f"{VERSION}.part").exists()
    assert not (home / "src" / f"xllamacpp-{VERSION}" / "setup.py").exists()       # only the tree is unpacked


def test_a_binary_that_does_not_start_is_built_again(home):
    server = binary(COMMIT)
    server.write_text("#!/bin/sh\nexit 127\n")
    assert commit_of(binary(COMMIT)) == COMMIT


def test_a_build_that_was_broken_off_is_begun_again(home):
    (home / "build" / f"{VERSION}.part" / "bin").mkdir(parents=True)
    (home / "build" / f"{VERSION}.part" / "bin" / "llama-server").write_text("half")
    (home / "build" / VERSION / "bin").mkdir(parents=True)
    assert commit_of(binary(COMMIT)) == COMMIT


def test_a_tree_that_lacks_a_file_is_unpacked_again(home):
    binary(COMMIT)
    file = home / "src" / f"xllamacpp-{VERSION}" / "thirdparty" / "llama.cpp" / "CMakeLists.txt"
    file.write_text("half")
    shutil.rmtree(home / "build")
    binary(COMMIT)
    assert file.read_text() == "project(x)"


def test_an_sdist_with_another_hash_is_not_used(home, monkeypatch):
    (home / "sdist" / f"xllamacpp-{VERSION}.tar.gz").write_bytes(b"something else")
    pretend = home / "python"
    name = f"xllamacpp-{VERSION}.tar.gz"
    _script(pretend, f'while [ "$1" != --dest ]; do shift; done; echo other > "$2/{name}"')
    monkeypatch.setattr(sys, "executable", str(pretend))
    with pytest.raises(Missing, match="another sha256 than the pinned one"):
        binary(COMMIT)
    assert not (home / "src").exists()


def test_an_sdist_that_cannot_be_loaded(home, monkeypatch):
    (home / "sdist" / f"xllamacpp-{VERSION}.tar.gz").unlink()
    _script(home / "python", "echo 'ERROR: no network' >&2; exit 1")
    monkeypatch.setattr(sys, "executable", str(home / "python"))
    with pytest.raises(Missing, match="could not be loaded: ERROR: no network"):
        binary(COMMIT)


def test_a_build_that_fails_names_its_log(home, tmp_path):
    (tmp_path / "result").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(Missing, match=r"b11549 was built but does not start, see .*2026\.10\.11549\.log"):
        binary(COMMIT)
    assert not (home / "build" / VERSION).exists()


def test_without_tools_one_line_says_what_to_do(home, monkeypatch, capsys):
    monkeypatch.setattr(module, "find_tool", lambda name: None)
    monkeypatch.delenv("LLAMA_SERVER", raising=False)
    assert every.main([], campaign=lambda words: 0) == 2
    assert capsys.readouterr().err == (
        "b11549 is not built here and there is no cmake: LLAMA_SERVER=PATH takes a binary\n"
    )


def test_without_a_compiler_one_line_says_so(home, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Missing, match=r"no C\+\+ compiler: LLAMA_SERVER=PATH takes a binary"):
        binary(COMMIT)


@pytest.mark.parametrize(("text", "commit"), [
    ("0.6.0-dev (build 11549, commit unknown)", "b11549"), ("6789 (abcdef12)", "b6789"),
    ("0.6.0-dev (build 0, commit unknown)", ""), ("b123", ""),
])  # fmt: skip
def test_the_build_that_a_binary_names(tmp_path, text, commit):
    _script(tmp_path / "server", f'echo "version: {text}" >&2')
    assert commit_of(tmp_path / "server") == commit


def test_a_server_that_is_there_is_taken(tmp_path, monkeypatch, capsys):
    server = tmp_path / "server"
    _script(server, 'echo "version: 11063 (abc)"')
    monkeypatch.setenv("LLAMA_SERVER", str(server))
    ran = []
    assert every.main(["-n", "50", "--minutes", "3"], campaign=lambda words: ran.append(words) or 1) == 1
    assert ran == [["--server", str(server), "--commit", "b11063", "--seed", "0", "--jobs", "2", "-n", "50",
                    "--minutes", "3.00"]]  # fmt: skip
    assert "ik_llama.cpp: not run" in capsys.readouterr().out


def test_a_server_that_does_not_say_its_build_must_be_named(tmp_path, monkeypatch, capsys):
    server = tmp_path / "server"
    _script(server, 'echo "version: 0 (unknown)"')
    monkeypatch.setenv("LLAMA_SERVER", str(server))
    assert every.main([], campaign=lambda words: 0) == 2
    assert "build unknown" in capsys.readouterr().err
    assert every.main(["--commit", "b10566"], campaign=lambda words: 0) == 0


def test_a_server_that_is_not_there_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LLAMA_SERVER", str(tmp_path / "none"))
    assert every.main([]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_server_of_ik_llama_has_a_name_of_its_own(tmp_path, monkeypatch, capsys):
    server = tmp_path / "server"
    _script(server, 'echo "version: 4000 (abc) --ctx-checkpoints-interval"')
    monkeypatch.setenv("LLAMA_SERVER", str(server))
    assert every.main([], campaign=lambda words: 1) == 2
    assert f"make live IK_SERVER={server}" in capsys.readouterr().err


def test_a_checkout_of_ik_llama_is_built_once(home, tmp_path, monkeypatch):
    with pytest.raises(Missing, match=r"not a checkout of ik_llama.cpp, examples/server/server-context.cpp is missing"):
        module.ik_binary(tmp_path)
    for name in module.IK_FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, "utf-8")
    made = []
    monkeypatch.setattr(module, "_check_tools", lambda name, instead: None)

    def make(name, source, folder, flags):
        made.append((source, flags))
        (folder / "bin").mkdir(parents=True)
        _script(folder / "bin" / "llama-server", 'echo "version: 4840 (8337e4cd3)"')

    monkeypatch.setattr(module, "_make", make)
    first = module.ik_binary(tmp_path)
    assert module.ik_binary(tmp_path) == first and len(made) == 1
    (tmp_path / module.IK_FILES[0]).write_text("changed", "utf-8")
    assert module.ik_binary(tmp_path) != first and len(made) == 2


def test_the_pinned_builds_share_the_minutes(home, monkeypatch):
    monkeypatch.delenv("LLAMA_SERVER", raising=False)
    monkeypatch.setattr(module, "binary", lambda commit: home / commit)
    ran = []
    every.main(["-n", "10000", "--minutes", "70"], campaign=lambda words: ran.append(dict(zip(words[::2], words[1::2],
               strict=True))) or 0)  # fmt: skip
    assert [(one["--commit"], one["-n"], one["--minutes"]) for one in ran] == [
        ("b11549", "10000", "50.00"), ("b11063", "2000", "10.00"), ("b10809", "2000", "10.00"),
    ]


def test_every_repaired_rule_is_an_edit_of_the_source():
    repaired, newest = PROFILES["llama_cpp@b11549-repaired"], PROFILES["llama_cpp@b11549"]
    edits = tomllib.loads((module.HERE / "repairs.toml").read_text("utf-8"))["edit"]
    without = ("adapters.", "media.", "task_first")         # the drawn conversations have neither adapters nor images
    changes = [change for change in newest.changes(repaired) if not change.field.startswith(without)]
    assert {edit["rule"] for edit in edits} == {change.new for change in changes}


def test_an_edit_that_does_not_fit_is_refused():
    edit = {"rule": "R", "file": "f", "at": "a > b", "by": "a >= b", "times": 2, "nth": 2}
    assert module.changed("a > b; a > b", edit) == "a > b; a >= b"
    with pytest.raises(Missing, match="R: 'a > b' occurs 1 times in f"):
        module.changed("a > b", edit)


def test_a_tree_with_edits_is_a_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "cache", lambda: tmp_path)
    edits = tomllib.loads((module.HERE / "repairs.toml").read_text("utf-8"))["edit"]
    for edit in edits:
        file = tmp_path / "tree" / edit["file"]
        file.parent.mkdir(parents=True, exist_ok=True)
        old = file.read_text() if file.exists() else ""
        if edit["at"] not in old:
            file.write_text(old + edit["at"] * edit.get("times", 1) + "\n")
    copy = module.edited(tmp_path / "tree", BUILDS["b11549-repaired"])
    assert copy.name.startswith("xllamacpp-2026.10.11549-") and copy != tmp_path / "tree"
    for edit in edits:
        assert edit["by"] in (copy / edit["file"]).read_text() or edit.get("times", 1) > 1


def test_an_unedited_build_comes_from_its_wheel(home, monkeypatch):
    asked = []
    monkeypatch.delenv("BUILT")
    monkeypatch.setattr(module, "require_installed", lambda wheels, may: asked.append((wheels[0].build, may)))
    monkeypatch.setattr(module, "launcher_of", lambda wheel: wheel.build)
    assert module.server_of(COMMIT) == COMMIT and asked == [(COMMIT, True)]
    monkeypatch.setenv("BUILT", "1")
    assert module.server_of(COMMIT) == binary(COMMIT)


def test_a_wheel_that_cannot_be_installed_is_missing(monkeypatch):
    monkeypatch.delenv("BUILT", raising=False)

    def fail(wheels, may_install):
        raise BadInput("the package index cannot be reached")

    monkeypatch.setattr(module, "require_installed", fail)
    with pytest.raises(Missing, match="the package index cannot be reached; BUILT=1 builds it"):
        module.server_of(COMMIT)
