"""How is a file written so that a reader finds all of it or nothing? All files are written here.

The bytes go into a temporary file in the same folder, which then takes the name in one step. A process that is killed
in between leaves the old file as it was, and a temporary one, whose name begins with a dot. Only a file of lines that
grows (``add_line``) is written where it is: its reader takes what stands behind the last end of a line for no line.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator

from cachesim.base.errors import Unwritable

try:
    import fcntl
except ImportError:                          # not on Windows
    fcntl = None  # type: ignore[assignment]

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_BINARY"))


def write_whole(file: Path, data: bytes, sync: bool = True) -> None:
    """Write or replace a file; a symbolic link stays one, and so does the mode of a file that is replaced. ``sync``:
    it must outlive the machine, not only the process. Raises Unwritable, naming the file, which is then as it was."""
    with _told(file):
        target = file.resolve()
        with _beside(target, data, sync) as temporary:
            if target.exists():
                shutil.copymode(target, temporary)
            else:
                _default_mode(temporary)
            os.replace(temporary, target)


def write_new(file: Path, data: bytes) -> bool:
    """Write a file that is not there yet; False, and nothing is changed, if it is. Of several processes that write the
    same name at the same time one gets True. Raises Unwritable as above."""
    with _told(file), _beside(file, data) as temporary:
        _default_mode(temporary)
        try:
            os.link(temporary, file)
        except FileExistsError:
            return False
        except OSError:                      # a file system without hard links
            return _claimed(temporary, file)
        return True


def add_line(file: Path, line: bytes) -> None:
    """Add a line to a file that is there; it is on the disk then. Raises Unwritable; the file is then as it was."""
    with _told(file):
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        size = os.fstat(handle).st_size
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        except BaseException:
            os.ftruncate(handle, size)
            raise
        finally:
            os.close(handle)


def make_folder(folder: Path) -> Path:
    """The folder, made if it is missing, in which a file was written and removed again. Raises Unwritable."""
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _told(folder), _beside(folder / "probe", b"probe"):
        return folder


@contextmanager
def alone(file: Path) -> Iterator[bool]:
    """Is no other process inside, with the same name? The lock ends with the process, however that ended; the file,
    which is there for the lock only, is removed behind it. Where the system has no such locks, nobody is kept out.
    Raises Unwritable."""
    with _told(file):
        handle = _locked(file)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            with suppress(OSError):
                os.unlink(file)              # whoever has opened it meanwhile looks again, see _locked
            os.close(handle)


def _locked(file: Path) -> int | None:
    """The handle of the file, which nobody else has locked; None if somebody has."""
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            if not _lock(handle):
                os.close(handle)
                return None
            if os.path.samestat(os.fstat(handle), os.stat(file)):
                return handle
        except FileNotFoundError:            # removed by its last holder between our opening and our locking
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int) -> bool:
    """Lock a file for this process, and those forked from it, if nobody else has."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)      # another one: a file system without locks
    return True


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """What the system says becomes one line with the file's name."""
    try:
        yield
    except OSError as error:
        why = "a file with this name is in the way" if isinstance(error, FileExistsError) else error.strerror
        raise Unwritable(f"cannot be written: {(why or str(error)).lower()}", file=str(file)) from None
    except (ValueError, RuntimeError) as error:      # a NUL in the name, a link to itself
        raise Unwritable(f"cannot be written: {error}", file=str(file)) from None


@contextmanager
def _beside(target: Path, data: bytes, sync: bool = True) -> Iterator[Path]:
    """A temporary file beside ``target`` with these bytes, on the disk; it is removed unless it was given a name."""
    # Not mkstemp: its name is known too late, if a signal comes while the file is made.
    name, ours = tempfile.mktemp(dir=target.parent, prefix=f".{target.name[:100]}."), True
    try:
        try:
            handle = os.open(name, _NEW, 0o600)
        except FileExistsError:
            ours = False
            raise
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            if sync:
                stream.flush()
                os.fsync(stream.fileno())
        yield Path(name)
    finally:
        if ours:
            with suppress(OSError):
                os.unlink(name)


def _claimed(temporary: Path, file: Path) -> bool:
    """Without hard links: whoever creates the name first may replace what it created."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    os.replace(temporary, file)
    return True


def _default_mode(file: Path) -> None:
    """A temporary file is its owner's alone; a new file gets what open() would have given it."""
    mask = os.umask(0)
    os.umask(mask)
    file.chmod(0o666 & ~mask)
