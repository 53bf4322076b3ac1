"""Tests of atomic file writes and lock files."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.files import add_line, locked, make_folder, write_new, write_whole

ROOT_MAY_ALL = pytest.mark.skipif(os.geteuid() == 0, reason="root writes into a read-only folder")


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def fails(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, call):
    file = tmp_path / "a"
    write_whole(file, b"old")
    monkeypatch.setattr(f"os.{call}", fails)
    with pytest.raises(BadInput) as told:
        write_whole(file, b"new")
    assert str(told.value) == f"{file}: cannot be written: no space left on device"
    assert (file.read_bytes(), names(tmp_path)) == (b"old", ["a"])


def test_an_interrupt_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    write_whole(tmp_path / "a", b"old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a", b"new")
    assert ((tmp_path / "a").read_bytes(), names(tmp_path)) == (b"old", ["a"])


def test_an_interrupt_while_a_temporary_file_is_made_leaves_none(tmp_path, monkeypatch):
    plain = os.open

    def interrupted(*how):
        os.close(plain(*how))
        raise KeyboardInterrupt

    monkeypatch.setattr("os.open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_new(tmp_path / "a", b"new")
    assert names(tmp_path) == []


def test_a_temporary_file_of_another_process_is_not_touched(tmp_path, monkeypatch):
    (tmp_path / "other").write_bytes(b"other")
    monkeypatch.setattr("tempfile.mktemp", lambda **_: str(tmp_path / "other"))
    with pytest.raises(BadInput, match="with this name exists"):
        write_new(tmp_path / "a", b"new")
    assert ((tmp_path / "other").read_bytes(), names(tmp_path)) == (b"other", ["other"])


def test_a_link_stays_a_link_and_a_mode_the_mode(tmp_path):
    write_whole(tmp_path / "a", b"old")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "link").symlink_to("a")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert ((tmp_path / "a").read_bytes(), stat.S_IMODE((tmp_path / "a").stat().st_mode)) == (b"new", 0o640)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_gets_the_bytes_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="cannot be written"):
        write_whole(pipe, b"without a reader")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"text")
    assert os.read(reader, 9) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode) and os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device")
def test_a_full_device_is_a_one_line_error_and_stays_a_device():
    full = Path("/dev/full")
    with pytest.raises(BadInput, match="no space left"):
        write_whole(full, b"text")
    assert stat.S_ISCHR(os.stat(full).st_mode)


def test_a_new_file_has_the_mode_of_any_other(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_whole(tmp_path / "whole", b"")
    write_new(tmp_path / "new", b"")
    assert len({stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_is_never_written_over_another(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr("os.link", fails)
    assert write_new(tmp_path / "a", b"first") is True
    assert write_new(tmp_path / "a", b"second") is False
    assert ((tmp_path / "a").read_bytes(), names(tmp_path)) == (b"first", ["a"])


@pytest.mark.parametrize("name", ["a" * 300, "no/such/folder", "nul\0"], ids=["long", "folder", "nul"])
def test_an_invalid_name_is_a_one_line_error(tmp_path, name):
    for write in (write_whole, write_new):
        with pytest.raises(BadInput, match="cannot be written") as told:
            write(Path(f"{tmp_path}/{name}"), b"")
        assert "\n" not in str(told.value)
    assert names(tmp_path) == []


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(BadInput, match="is a directory"):
        write_whole(tmp_path / "a", b"")
    assert not write_new(tmp_path / "a", b"")
    assert names(tmp_path) == ["a"]


def test_a_folder_is_made_and_tried(tmp_path):
    assert make_folder(tmp_path / "a" / "b") == make_folder(tmp_path / "a" / "b")
    assert names(tmp_path / "a" / "b") == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BadInput, match="a file with this name exists"):
        make_folder(tmp_path / "file")
    with pytest.raises(BadInput, match="not a directory"):
        make_folder(tmp_path / "file" / "below")


def test_a_folder_without_room_is_a_one_line_error(tmp_path, monkeypatch):
    monkeypatch.setattr("os.open", fails)
    with pytest.raises(BadInput, match="no space left"):
        make_folder(tmp_path)


@ROOT_MAY_ALL
def test_a_read_only_folder_is_a_one_line_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(BadInput, match="permission denied"):
        make_folder(tmp_path)


HOLDING = """
import sys, time
from pathlib import Path
from cachesim.base.files import locked
with locked(Path(sys.argv[1])) as free:
    print(free, flush=True)
    time.sleep(60)
"""


def test_a_lock_excludes_other_processes_until_its_holder_ends(tmp_path):
    file = tmp_path / "lock"
    with Popen([sys.executable, "-c", HOLDING, str(file)], stdout=PIPE) as other:
        try:
            assert other.stdout.readline() == b"True\n"
            with locked(file) as free:
                assert not free
            assert names(tmp_path) == ["lock"]           # a refused process does not remove it
        finally:
            other.kill()
    for _ in range(2):
        with locked(file) as free:
            assert free
        assert names(tmp_path) == []


def test_a_lock_file_removed_before_locking_is_created_again(tmp_path, monkeypatch):
    file, opened = tmp_path / "lock", []
    plain = os.open

    def late(name, *how):
        opened.append(plain(name, *how))
        if len(opened) == 1:
            os.unlink(name)
        return opened[-1]

    monkeypatch.setattr("os.open", late)
    with locked(file) as free:
        assert free and len(opened) == 2 and file.exists()


def test_without_file_locks_every_process_gets_the_lock(tmp_path, monkeypatch):
    monkeypatch.setattr("cachesim.base.files.fcntl", None)
    with locked(tmp_path / "lock") as one, locked(tmp_path / "lock") as other:
        assert one and other


def test_a_line_that_does_not_fit_on_the_disk_leaves_no_part_of_itself(tmp_path, monkeypatch):
    file = tmp_path / "a"
    file.write_bytes(b"one\n")
    add_line(file, b"two\n")
    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(BadInput, match="no space left on device"):
        add_line(file, b"three\n")
    assert file.read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_an_error_while_a_lock_is_taken_leaves_no_open_file(tmp_path, monkeypatch, raised):
    def fails(*given):
        raise raised

    opened, closed = [], []
    real, close = os.open, os.close
    monkeypatch.setattr(os, "open", lambda *given: opened.append(real(*given)) or opened[-1])
    monkeypatch.setattr(os, "close", lambda handle: closed.append(handle) or close(handle))
    monkeypatch.setattr("os.path.samestat", fails)
    with pytest.raises((KeyboardInterrupt, BadInput)), locked(tmp_path / "lock"):
        pytest.fail("locked")
    monkeypatch.undo()
    assert opened == closed and len(opened) == 1


def test_a_file_system_without_locks_lets_everyone_in(tmp_path, monkeypatch):
    for raised, found in ((OSError(38, "no locks"), True), (BlockingIOError(), False)):
        def flock(handle, flags, raised=raised):
            raise raised

        monkeypatch.setattr("fcntl.flock", flock)
        with locked(tmp_path / "lock") as free:
            assert free is found


@pytest.fixture
def open_handles(monkeypatch):
    """Return the set of handles that are open now, of those that the test opens."""
    known, real, close = set(), os.open, os.close

    def opened(*given):
        handle = real(*given)
        known.add(handle)
        return handle

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "close", lambda handle: known.discard(handle) or close(handle))
    return known


def test_a_lock_is_held_by_an_open_file_inside_its_block_only(tmp_path, monkeypatch, open_handles):
    with locked(tmp_path / "lock") as free:
        assert free and len(open_handles) == 1
        with locked(tmp_path / "lock") as again:
            assert not again and len(open_handles) == 1
        (tmp_path / "lock").unlink()                     # by somebody else
    assert not open_handles
    same = os.path.samestat
    answers = iter([False, True])
    monkeypatch.setattr("os.path.samestat", lambda *of: next(answers) and same(*of))
    with locked(tmp_path / "lock") as free:              # the file was exchanged before the first locking
        assert free and len(open_handles) == 1
    assert not open_handles and names(tmp_path) == []


def test_a_lock_that_cannot_be_made_is_a_one_line_error(tmp_path):
    with pytest.raises(BadInput) as told, locked(tmp_path / "no" / "lock"):
        pytest.fail("locked")
    assert str(told.value) == f"{tmp_path / 'no' / 'lock'}: cannot be written: no such file or directory"


@pytest.mark.parametrize(("write", "synced"), [
    (lambda file: write_whole(file, b"text"), True), (lambda file: write_whole(file, b"text", sync=False), False),
    (lambda file: write_new(file, b"text"), True),
])  # fmt: skip
def test_a_hidden_private_file_is_whole_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch, write, synced):
    found = []

    def sync(handle):
        state = os.fstat(handle)
        found.append(([name[:4] for name in names(tmp_path)], state.st_size, stat.S_IMODE(state.st_mode)))

    monkeypatch.setattr("os.fsync", sync)
    write(tmp_path / ("abc" + "d" * 240))
    assert found == [([".abc"], 4, 0o600)] * synced
    assert (tmp_path / ("abc" + "d" * 240)).read_bytes() == b"text"


def test_a_line_is_written_in_as_many_parts_as_it_takes_and_the_file_is_closed(tmp_path, monkeypatch, open_handles):
    file, write, synced = tmp_path / "a", os.write, []
    file.write_bytes(b"one\n")
    monkeypatch.setattr("os.write", lambda handle, data: write(handle, data[:2]))
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    add_line(file, b"two and three\n")
    assert file.read_bytes() == b"one\ntwo and three\n" and synced == [18] and not open_handles
    with pytest.raises(BadInput, match="no such file"):
        add_line(tmp_path / "b", b"line\n")


def test_an_error_without_a_text_of_the_system_has_its_own(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError("Odd File System")

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(BadInput) as told:
        write_whole(tmp_path / "a", b"")
    assert str(told.value) == f"{tmp_path / 'a'}: cannot be written: odd file system"


def test_a_new_file_leaves_the_mask_of_the_process_as_it_was(tmp_path):
    before = os.umask(0o027)
    try:
        write_new(tmp_path / "new", b"")
        write_whole(tmp_path / "whole", b"")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o640}
