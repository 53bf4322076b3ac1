"""Installation of a wheel into an environment of its own, below the user's cache folder.

An environment is made in a temporary folder beside its place and renamed when it is complete, so that an installation
that ends early leaves nothing that looks like an environment. Every later command removes what a killed one left. pip
accepts only the files whose hashes are listed, and the wheel must report its build.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Sequence

from cachesim.base.errors import BadInput, unfinished
from cachesim.base.files import locked, make_folder, write_whole
from cachesim.base.untrusted_files import FILE, kind, read_start
from cachesim.tools.live.llama_server.guarded_run import Ended, run_guarded
from cachesim.tools.live.llama_server.real.wheels import Wheel
from cachesim.tools.live.llama_server.wheel_server import LAUNCHER, launcher_text, reported_build

INSTALL_WITHIN = 900.0      # seconds for each of venv and pip
PIP = ("--disable-pip-version-check", "--no-input", "--quiet", "--retries", "1", "--timeout", "20")
OFFLINE = re.compile(r"NewConnectionError|Failed to establish|name resolution|Max retries|[Tt]imed? ?out|ProxyError")
ABSENT = re.compile(r"No matching distribution|Could not find a version")


def cache_folder() -> Path:
    """Return the folder of all environments: below $XDG_CACHE_HOME, or ~/.cache."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return base / "cachesim" / "real"


def environment_of(wheel: Wheel) -> Path:
    """Return the folder of a wheel's environment."""
    return cache_folder() / wheel.build


def is_installed(wheel: Wheel) -> bool:
    """True if the environment of a wheel is complete."""
    return kind(environment_of(wheel) / LAUNCHER) == FILE


def launcher_of(wheel: Wheel) -> Path:
    """Return the program that starts the server of an installed wheel. It runs a file of this cachesim, so that it is
    written anew when another cachesim wrote it."""
    folder = environment_of(wheel)
    launcher, text = folder / LAUNCHER, launcher_text(folder / "bin" / "python").encode()
    if read_start(launcher, len(text) + 1) != text:
        write_whole(launcher, text)
        launcher.chmod(0o755)
    return launcher


def installed_bytes(wheel: Wheel) -> int:
    """Return the size of an environment."""
    folder = environment_of(wheel)
    return sum(os.lstat(os.path.join(at, name)).st_size for at, _, names in os.walk(folder) for name in names)


def install(wheel: Wheel) -> None:
    """Install a wheel. Raise BadInput, Unwritable or Unfinished; then nothing is left."""
    place = environment_of(wheel)
    parent = make_folder(place.parent)
    with locked(parent / f".{wheel.build}.lock") as is_mine, unfinished(f"{wheel.build} was not installed"):
        if not is_mine:
            raise BadInput(f"another process installs {wheel.build}", file=str(place))
        if is_installed(wheel):
            return
        _remove_leftovers(wheel.build)
        folder = Path(mkdtemp(prefix=f".{wheel.build}-", dir=parent))
        try:
            _fill(folder, place, wheel)
            _clear(place)                                    # a folder without a launcher, a link
            folder.rename(place)
        except BaseException:
            _clear(folder)
            raise


def remove(wheel: Wheel) -> None:
    """Remove the environment of a wheel, and what installations of it that were killed left."""
    folder = environment_of(wheel)
    if not folder.is_symlink():
        with suppress(FileNotFoundError, NotADirectoryError):
            (folder / LAUNCHER).unlink()                     # what is left now is not installed any more
    _clear(folder)
    clean_up()


def clean_up() -> None:
    """Remove what installations that were killed left, except those that still run."""
    parent = cache_folder()
    builds = {left.name[1:].partition("-")[0] for left in parent.glob(".b*-*")}
    for build in sorted(builds):
        with locked(parent / f".{build}.lock") as is_mine:
            if is_mine:
                _remove_leftovers(build)


def _remove_leftovers(build: str) -> None:
    for left in cache_folder().glob(f".{build}-*"):
        _clear(left)


def _clear(place: Path) -> None:
    """Remove a folder, or a link or file that stands in its place; a link's target stays."""
    if place.is_symlink() or kind(place) == FILE:
        place.unlink()
    else:
        shutil.rmtree(place, ignore_errors=True)


def _fill(folder: Path, place: Path, wheel: Wheel) -> None:
    """Make an environment with the wheel in a folder that will be renamed to ``place``. Raise BadInput."""
    with_pip = find_spec("pip") is None
    mine = [sys.executable, "-I"]
    made = _run([*mine, "-m", "venv", *([] if with_pip else ["--without-pip"]), str(folder)], folder, wheel)
    if made.returncode:
        raise BadInput("an environment cannot be made with the module venv", hint=_last_line(made.errors))
    python = folder / "bin" / "python"
    pip = [str(python), "-I", "-m", "pip"] if with_pip else [*mine, "-m", "pip", "--python", str(python)]
    wanted = folder / "requirements.txt"
    wanted.write_text(" ".join([wheel.requirement, *(f"--hash=sha256:{one}" for one in wheel.hashes)]), "utf-8")
    pinned = ["--require-hashes"] if wheel.hashes else []
    done = _run([*pip, *PIP, "install", "--only-binary", ":all:", "--no-deps", *pinned, "-r", str(wanted)],
                folder, wheel)  # fmt: skip
    if done.returncode:
        raise _failure(wheel, done.errors)
    build = reported_build(python)
    if build not in (0, wheel.number):                       # some older wheels report no number
        raise BadInput(f"{wheel.requirement} was not installed: it reports the build b{build}, not {wheel.build}")
    launcher = folder / LAUNCHER
    launcher.write_text(launcher_text(place / "bin" / "python"), encoding="utf-8")
    launcher.chmod(0o755)


def _run(words: Sequence[str], folder: Path, wheel: Wheel) -> Ended:
    """Run venv or pip in a folder; whatever ends this process ends it, too. Raise BadInput."""
    try:
        return run_guarded(words, folder, INSTALL_WITHIN)
    except BadInput as error:
        raise BadInput(f"{wheel.requirement} was not installed: {error.cause}", file=words[0]) from None


def _failure(wheel: Wheel, said: str) -> BadInput:
    """Return the reason why pip could not install a wheel."""
    if OFFLINE.search(said):
        return BadInput(f"{wheel.requirement} was not installed: the package index cannot be reached")
    if "DO NOT MATCH THE HASHES" in said:
        return BadInput(f"{wheel.requirement} was not installed: the index has another file than the one listed for it",
                        hint="wheels.sha256 of cachesim has the hashes")  # fmt: skip
    if ABSENT.search(said):
        here = f"{sysconfig.get_platform()}, Python {sys.version_info.major}.{sys.version_info.minor}"
        return BadInput(f"{wheel.requirement} was not installed: the index has no wheel of it for {here}",
                        hint="other builds: cachesim real list; your own llama-server: --real PATH")  # fmt: skip
    return BadInput(f"{wheel.requirement} was not installed", hint=_last_line(said))


def _last_line(said: str) -> str:
    """Return the last line of a program's errors, the last ERROR of pip if there is one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["it said nothing"])[-1]
