"""The other commit: a git worktree with an environment of its own, both outside the tree and removed at every exit."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Iterator, Sequence

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CONSTRAINED = ("numpy", "rich")      # both environments have the same versions of these
RESULTS = "tests/bench/results.md"
GRACE = 20                           # seconds in which an interrupted program may clean up


class Unusable(Exception):
    """The comparison cannot be made; the message is one line."""


def output(words: Sequence[str | Path], cwd: Path) -> tuple[int, str]:
    """Run a program. Return its exit code and output. An interrupt ends the program before it is passed on."""
    process = subprocess.Popen(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    try:
        text, _ = process.communicate()
    except BaseException:
        process.terminate()
        try:
            process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        raise
    return process.returncode, text


def find_commit(root: Path, commit: str) -> str:
    """Return the full id of a commit. Raise Unusable if it does not exist."""
    code, text = output(["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"], root)
    if code:
        raise Unusable(f"not a commit of this repository: {commit!r}")
    return text.strip()


def require_clean(root: Path) -> None:
    """Raise Unusable if a file under version control, other than the results, has changes that are not committed."""
    _, text = output(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", f":(exclude){RESULTS}"], root)
    if text:
        changed = text.splitlines()[0][3:]
        raise Unusable(f"uncommitted changes, such as {changed}: commit or stash them first")


@contextmanager
def signals_raised() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that what was made is removed; then restore the handlers."""
    before = {number: signal.signal(number, _stop) for number in SIGNALS[1:]}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold these signals until the end, where one that arrived is handled: an exception while a process starts would
    leave it running, unknown to its parent. A started process must call ``release_signals``."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def release_signals() -> None:
    """Receive the signals that ``signals_held`` holds in the parent of this process."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


@contextmanager
def other_commit(root: Path, commit: str) -> Iterator[tuple[Path, Path]]:
    """Yield the tree of a commit and the Python of its environment. Raise Unusable if it does not install."""
    folder = Path(mkdtemp(prefix="cachesim-bench-"))
    try:
        code, text = output(["git", "worktree", "add", "--detach", "--quiet", folder / "tree", commit], root)
        if code:
            raise Unusable(f"git worktree: {_last(text)}")
        yield folder / "tree", install(folder / "tree", folder)
    finally:
        _remove(root, folder)


def install(tree: Path, folder: Path) -> Path:
    """Install a tree into a new environment; return its Python. Raise Unusable with pip's last error."""
    python = folder / "env" / "bin" / "python"
    limits = folder / "constraints.txt"
    limits.write_text("".join(f"{name}=={version(name)}\n" for name in CONSTRAINED), "utf-8")
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "-c", limits]
    for words in ([sys.executable, "-m", "venv", folder / "env"], [*pip, "-e", f"{tree}[import]"]):
        code, text = output(words, folder)
        if code:
            raise Unusable(f"the commit does not install: {_last(text)}")
    return python


def _last(text: str) -> str:
    """Return the last error of a program in its output, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "fatal"))]
    return (errors or lines or ["without a message"])[-1]


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _remove(root: Path, folder: Path) -> None:
    """Remove the worktree and the folder, while signals wait."""
    with signals_held():
        output(["git", "worktree", "remove", "--force", "--force", folder / "tree"], root)
        shutil.rmtree(folder, ignore_errors=True)
        output(["git", "worktree", "prune"], root)
