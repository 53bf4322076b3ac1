"""Atomic file writes and lock files. All files that cachesim writes are written here.

The bytes go into a temporary file in the same folder, which is then renamed. A process that is killed in between leaves
the old file unchanged and a temporary file whose name begins with a dot. Only ``add_line`` appends in place: its reader
must ignore bytes after the last newline.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator

from cachesim.base.errors import Unwritable

try:
    import fcntl
except ImportError:                          # not on Windows
    fcntl = None  # type: ignore[assignment]

_WRITES = os.O_WRONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_BINARY"))
_NEW = os.O_CREAT | os.O_EXCL | _WRITES


def write_whole(file: Path, data: bytes, sync: bool = True) -> None:
    """Write or replace a file atomically. Symbolic links and the mode of a replaced file are preserved. A device or a
    pipe gets the bytes and stays what it is. ``sync``: flush to disk, so that the file survives a crash of the machine.
    Raise Unwritable and leave the file unchanged."""
    with _errors_of(file):
        if _takes_bytes(file):
            _send(file, data)
            return
        target = file.resolve()
        with _beside(target, data, sync) as temporary:
            if target.exists():
                shutil.copymode(target, temporary)
            else:
                _default_mode(temporary)
            os.replace(temporary, target)


def _takes_bytes(file: Path) -> bool:
    """True for a device, a pipe or a socket: a new file must not take its name."""
    try:
        mode = os.stat(file).st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _send(file: Path, data: bytes) -> None:
    """Write bytes to a device or a pipe. A pipe without a reader is an error."""
    handle = os.open(file, _WRITES | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "wb") as stream:
        os.set_blocking(handle, True)
        stream.write(data)


def write_new(file: Path, data: bytes) -> bool:
    """Write a new file atomically; return False and change nothing if it exists. If several processes write the name at
    the same time, a single process gets True. Raise Unwritable."""
    with _errors_of(file), _beside(file, data) as temporary:
        _default_mode(temporary)
        try:
            os.link(temporary, file)
        except FileExistsError:
            return False
        except OSError:                      # a file system without hard links
            return _claimed(temporary, file)
        return True


def add_line(file: Path, line: bytes) -> None:
    """Append a line to an existing file and flush it to disk. Raise Unwritable and leave the file unchanged."""
    with _errors_of(file):
        handle = os.open(file, os.O_APPEND | _WRITES)
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
    """Create a folder if it is missing, check that files can be written there, and return it. Raise Unwritable."""
    with _errors_of(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _errors_of(folder), _beside(folder / "probe", b"probe"):
        return folder


@contextmanager
def locked(file: Path) -> Iterator[bool]:
    """Try to lock ``file`` inside the block; yields False if another process holds the lock. The system releases the
    lock when the process ends, for whatever reason. The file exists only for the lock and is removed afterwards. On
    systems without such locks, every process gets True. Raise Unwritable."""
    with _errors_of(file):
        handle = _locked(file)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            with suppress(OSError):
                os.unlink(file)              # a process that has opened it meanwhile tries again, see _locked
            os.close(handle)


def _locked(file: Path) -> int | None:
    """Return the handle of the locked file; None if another process has locked it."""
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
    """Lock a file for this process and its forks. Return False if another process has locked it."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)      # any other error: a file system without locks
    return True


@contextmanager
def _errors_of(file: Path) -> Iterator[None]:
    """Turn operating-system errors into Unwritable with the file name."""
    try:
        yield
    except OSError as error:
        why = "a file with this name exists" if isinstance(error, FileExistsError) else error.strerror
        raise Unwritable(f"cannot be written: {(why or str(error)).lower()}", file=str(file)) from None
    except (ValueError, RuntimeError) as error:      # a NUL in the name, a link to itself
        raise Unwritable(f"cannot be written: {error}", file=str(file)) from None


@contextmanager
def _beside(target: Path, data: bytes, sync: bool = True) -> Iterator[Path]:
    """Write a temporary file in the folder of ``target`` and yield it. It is removed unless the caller renamed it."""
    # Not mkstemp: if a signal arrives while it creates the file, the name is still unknown here.
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
    """Create ``file`` on a file system without hard links: the process that creates the name first may replace it."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    os.replace(temporary, file)
    return True


def _default_mode(file: Path) -> None:
    """Give a temporary file (mode 0600) the mode that open() gives to a new file."""
    mask = os.umask(0)
    os.umask(mask)
    file.chmod(0o666 & ~mask)
