"""The pinned llama-servers, built once and kept outside the tree: ``python -m tests.live.build [b11549 ...]``.

The whole llama.cpp tree is in the sdist of the package xllamacpp, whose version ends with the build number. Below
``$XDG_CACHE_HOME/cachesim-live`` (default ``~/.cache/cachesim-live``): ``sdist/``, ``src/xllamacpp-VERSION/`` and
``build/VERSION/bin/llama-server``. Each is made beside its place, renamed, and verified before use.
``LLAMA_SERVER=PATH`` names an existing binary; then nothing is built. Unedited builds come from their wheels
(``server_of``), unless BUILT=1.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.real.installation import launcher_of
from cachesim.tools.live.llama_server.real.real_server import require_installed
from cachesim.tools.live.llama_server.real.wheels import WHEELS

HERE = Path(__file__).parent
COMMON = (
    "-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF", "-DBUILD_SHARED_LIBS=OFF", "-DGGML_NATIVE=OFF",
)  # fmt: skip


@dataclass(frozen=True)
class Build:
    """A build of llama.cpp: version and sha256 of the sdist with its tree, and its build flags. ``edits``: a file
    beside this module with changes to its source; "" = none."""

    commit: str
    version: str
    sha256: str
    flags: tuple[str, ...] = COMMON
    edits: str = ""

    @property
    def number(self) -> int:
        return int(self.commit.removeprefix("b").partition("-")[0])

    @property
    def folder(self) -> str:
        """Name of the folder of its binary, which depends on its edits."""
        return f"{self.version}-{sha256(HERE / self.edits)[:8]}" if self.edits else self.version


BUILDS = {
    build.commit: build
    for build in (
        Build("b11549", "2026.10.11549", "c17ee1163006f70726abb9f72137830818f3d8cb60bfc34cb232d08428eaa22b"),
        Build("b11063", "2026.9.11063", "37ad3d0389f1d65b68e7d341df86d55077158950a764801be94f955024afb759"),
        Build("b10809", "2026.9.10809", "67d1ba941ae7ed603cece162ffb8b41df8677726d50d1a9c624a76962d3db2dd"),
        Build("b10566", "2026.8.10566", "c216159932bda7de056423a921b04532a21afc58c1f26ba3b65869650c92eb27",
              (*COMMON, "-DLLAMA_CURL=OFF")),
        Build("b11549-repaired", "2026.10.11549", "c17ee1163006f70726abb9f72137830818f3d8cb60bfc34cb232d08428eaa22b",
              edits="repairs.toml"),
        Build("b11549-one-character", "2026.10.11549",
              "c17ee1163006f70726abb9f72137830818f3d8cb60bfc34cb232d08428eaa22b", edits="one_character.toml"),
        Build("b11549-index-ordered", "2026.10.11549",
              "c17ee1163006f70726abb9f72137830818f3d8cb60bfc34cb232d08428eaa22b", edits="index_ordered.toml"),
        Build("b11549-lora-tried", "2026.10.11549", "c17ee1163006f70726abb9f72137830818f3d8cb60bfc34cb232d08428eaa22b",
              edits="adapters_tried.toml"),
        Build("b11549-media-repaired", "2026.10.11549",
              "c17ee1163006f70726abb9f72137830818f3d8cb60bfc34cb232d08428eaa22b", edits="media_repaired.toml"),
    )
}  # fmt: skip
PINNED = ("b11549", "b11063", "b10809")
"""Builds that `make live` runs."""

TREE = "thirdparty/llama.cpp"
INSTEAD = "LLAMA_SERVER=PATH takes a binary"
SECONDS = {"look": 60, "load": 600, "build": 5400}
VERSION = re.compile(r"version: .*?(?:build (\d+)|(?<![\w.])(\d+) \()")


class Missing(Exception):
    """Raised if a requirement is missing; the message is a single line."""


def cache() -> Path:
    """Return the folder of sdists, trees and binaries."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "cachesim-live"


def binary(commit: str) -> Path:
    """Return the llama-server of a build; build it if it is missing or unusable. Raise Missing."""
    build = BUILDS[commit]
    made = cache() / "build" / build.folder
    if works(made / "bin" / "llama-server"):
        return made / "bin" / "llama-server"
    with _alone():
        if not works(made / "bin" / "llama-server"):
            _compile(build, made)
    return made / "bin" / "llama-server"


def server_of(commit: str) -> Path:
    """Return the llama-server of a build: the wheel's, which is installed if it is missing; a built one for an edited
    build, and with BUILT=1. Raise Missing."""
    wheel = next((one for one in WHEELS if one.build == commit), None)
    if wheel is None or os.environ.get("BUILT"):
        return binary(commit)
    try:
        require_installed([wheel], True)
    except BadInput as bad:
        raise Missing(f"{bad}; BUILT=1 builds it") from None
    return launcher_of(wheel)


def works(server: Path) -> bool:
    """True if it is a program that reports a version."""
    return said_version(server) is not None


def said_version(server: Path) -> str | None:
    """Return the version output of a server, None if it is missing or crashes."""
    try:
        done = subprocess.run([str(server), "--version"], capture_output=True, text=True, timeout=SECONDS["look"])
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout + done.stderr
    return text if done.returncode == 0 and "version" in text else None


def commit_of(server: Path) -> str:
    """Return the build of an existing binary, "" if it reports none (such as without a git tree). Raise Missing."""
    text = said_version(server)
    if text is None:
        raise Missing(f"{server}: not a llama-server that reports its version")
    found = VERSION.search(text)
    number = int(found[1] or found[2]) if found else 0
    return f"b{number}" if number else ""


def is_ik(server: Path) -> bool:
    """True for the server of ik_llama.cpp, whose help has a flag that llama.cpp lacks. Raise Missing."""
    try:
        done = subprocess.run([str(server), "--help"], capture_output=True, text=True, timeout=SECONDS["look"])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{server} cannot be run: {error}") from None
    return "--ctx-checkpoints-interval" in done.stdout + done.stderr


IK_FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_CURL=OFF", "-DBUILD_SHARED_LIBS=OFF", "-DGGML_IQK_FA_ALL_QUANTS=OFF",
)  # fmt: skip
"""8337e4c does not link without the kernels for flash attention (GGML_IQK_FLASH_ATTENTION=OFF)."""
IK_FILES = ("examples/server/server-context.cpp", "examples/server/server-task.cpp", "src/llama.cpp",
            "common/speculative.cpp")  # fmt: skip
"""Files whose content identifies the state of an ik_llama.cpp checkout."""


def ik_binary(source: Path) -> Path:
    """Return the llama-server of an ik_llama.cpp checkout, built once for each state of its files. Raise Missing."""
    missing = [name for name in IK_FILES if not (source / name).is_file()]
    if missing:
        raise Missing(f"{source}: not a checkout of ik_llama.cpp, {missing[0]} is missing")
    state = hashlib.sha256("".join(sha256(source / name) for name in IK_FILES).encode()).hexdigest()[:12]
    made = cache() / "build" / f"ik-{state}"
    with _alone():
        if not works(made / "bin" / "llama-server"):
            _check_tools("ik_llama.cpp", "IK_SERVER=PATH takes a binary")
            _make("ik_llama.cpp", source, made, list(IK_FLAGS))
    return made / "bin" / "llama-server"


# How it is made


def _compile(build: Build, made: Path) -> None:
    _check_tools(build.commit, INSTEAD)
    source = edited(_source(build) / TREE, build) if build.edits else _source(build) / TREE
    _make(build.commit, source, made, [*build.flags, f"-DLLAMA_BUILD_NUMBER={build.number}"])


def _check_tools(name: str, instead: str) -> None:
    """Raise Missing if a build tool is not installed."""
    for tool in ("cmake", "ninja"):
        if find_tool(tool) is None:
            raise Missing(f"{name} is not built here and there is no {tool}: {instead}")
    if not any(shutil.which(one) for one in (os.environ.get("CXX", "c++"), "g++", "clang++")):
        raise Missing(f"{name} is not built here and there is no C++ compiler: {instead}")


def _make(name: str, source: Path, made: Path, flags: list[str]) -> None:
    """Build a source tree beside its place and move it there. Raise Missing."""
    beside = made.with_name(f"{made.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    print(f"building llama-server {name}: about ten minutes on two cores", file=sys.stderr)
    made.parent.mkdir(parents=True, exist_ok=True)
    log = made.with_name(f"{made.name}.log")
    with log.open("w") as stream:
        for words in (
            [find_tool("cmake"), "-S", source, "-B", beside, "-G", "Ninja",
             f"-DCMAKE_MAKE_PROGRAM={find_tool('ninja')}", *flags],
            [find_tool("ninja"), "-C", beside, f"-j{os.cpu_count() or 1}", "llama-server"],
        ):  # fmt: skip
            done = subprocess.run(list(map(str, words)), stdout=stream, stderr=stream, timeout=SECONDS["build"])
            if done.returncode:
                raise Missing(f"{name} could not be built, see {log}")
    if not works(beside / "bin" / "llama-server"):
        raise Missing(f"{name} was built but does not start, see {log}")
    shutil.rmtree(made, ignore_errors=True)
    beside.rename(made)


def find_tool(name: str) -> str | None:
    """Return a tool of this environment (from pip), or of the machine."""
    here = Path(sys.executable).with_name(name)
    return str(here) if here.exists() else shutil.which(name)


def _source(build: Build) -> Path:
    """Return the unpacked sdist; an incomplete tree is unpacked again."""
    packed = _sdist(build)
    tree = cache() / "src" / f"xllamacpp-{build.version}"
    with tarfile.open(packed) as archive:
        wanted = [one for one in archive if f"/{TREE}/" in f"{one.name}/"]
        if _complete(tree, wanted):
            return tree
        tree.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=tree.parent) as beside:
            archive.extractall(beside, wanted, filter="data")
            shutil.rmtree(tree, ignore_errors=True)
            (Path(beside) / tree.name).rename(tree)
    return tree


def edited(tree: Path, build: Build) -> Path:
    """Return a copy of the tree with the edits of the build. Raise Missing if an edit does not fit."""
    copy = cache() / "src" / f"xllamacpp-{build.folder}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tree, copy, symlinks=True)
    for edit in tomllib.loads((HERE / build.edits).read_text("utf-8"))["edit"]:
        file = copy / edit["file"]
        file.write_text(changed(file.read_text("utf-8"), edit), "utf-8")
    return copy


def changed(text: str, edit: dict[str, Any]) -> str:
    """Apply an edit to a text. Raise Missing unless the old text occurs as often as stated."""
    parts, nth = text.split(edit["at"]), edit.get("nth", 1)
    if len(parts) != edit.get("times", 1) + 1:
        raise Missing(f"{edit['rule']}: {edit['at']!r} occurs {len(parts) - 1} times in {edit['file']}")
    return edit["at"].join(parts[:nth]) + edit["by"] + edit["at"].join(parts[nth:])


def _complete(tree: Path, wanted: list[tarfile.TarInfo]) -> bool:
    files = ((tree.parent / one.name, one.size) for one in wanted if one.isfile())
    return tree.is_dir() and all(path.is_file() and path.stat().st_size == size for path, size in files)


def _sdist(build: Build) -> Path:
    """Return the sdist with the pinned hash; download it if it is missing."""
    kept = cache() / "sdist" / f"xllamacpp-{build.version}.tar.gz"
    if kept.is_file() and sha256(kept) == build.sha256:
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    print(f"loading the sdist of xllamacpp {build.version}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=kept.parent) as beside:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps",
               "--no-binary", "xllamacpp", "--dest", beside, f"xllamacpp=={build.version}"]  # fmt: skip
        done = subprocess.run(pip, capture_output=True, text=True, timeout=SECONDS["load"])
        loaded = Path(beside) / kept.name
        if done.returncode or not loaded.is_file():
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise Missing(f"xllamacpp {build.version} could not be loaded: {why}")
        if sha256(loaded) != build.sha256:
            raise Missing(f"xllamacpp {build.version}: the sdist has another sha256 than the pinned one")
        loaded.replace(kept)
    return kept


def sha256(file: Path) -> str:
    """Return the hash of a file in hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _alone():
    """Hold a lock: a single process builds at a time."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def main(argv: list[str]) -> int:
    """Print the path of each build's binary."""
    unknown = [commit for commit in argv if commit not in BUILDS]
    if unknown:
        print(f"unknown build '{unknown[0]}' (known: {', '.join(BUILDS)})", file=sys.stderr)
        return 2
    for commit in argv or PINNED:
        try:
            print(commit, binary(commit))
        except Missing as why:
            print(why, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
