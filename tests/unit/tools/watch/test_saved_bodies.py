"""Saved bodies are readable by their user only, contain no secrets, and a full disk ends only the saving."""

from __future__ import annotations

import errno
import json
import os
import stat

import pytest

from cachesim.base.errors import Unwritable
from cachesim.tools.watch.saved_bodies import SavedBodies
from cachesim.tools.watch.secret_fields import REDACTED

BODY = b'{"prompt": "a question"}'


def test_only_the_user_can_read_a_new_file(tmp_path):
    before = os.umask(0)
    try:
        saved = SavedBodies(tmp_path / "bodies")
    finally:
        os.umask(before)
    saved.add("/completion", BODY)
    saved.add("/v1/x", BODY)
    assert stat.S_IMODE((tmp_path / "bodies").stat().st_mode) == 0o600 and saved.unsaved == 0
    lines = [json.loads(line) for line in (tmp_path / "bodies").read_text().splitlines()]
    assert lines == [{"path": path, "request": json.loads(BODY)} for path in ("/completion", "/v1/x")]


@pytest.mark.parametrize("name", ["api_key", "API-Key", "apikey", "x-api-key", "authorization", "Authorization",
                                  "password", "access_token"])  # fmt: skip
@pytest.mark.parametrize("value", ["sk-1", 5, ["sk-1"], [{"a": "sk-1"}], True])
def test_secrets_are_not_stored(name, value, tmp_path):
    saved = SavedBodies(tmp_path / "bodies")
    saved.add("/x", json.dumps({"prompt": "a", name: value, "metadata": [{name: value}]}).encode())
    stored = json.loads((tmp_path / "bodies").read_text())["request"]
    assert stored == {"prompt": "a", name: REDACTED, "metadata": [{name: REDACTED}]}


def test_a_full_disk_is_reported_once_and_later_bodies_are_counted(tmp_path, monkeypatch, capsys):
    written, write = [], os.write

    def fill(file, data):
        if not os.path.samestat(os.fstat(file), os.stat(tmp_path / "bodies")):
            return write(file, data)
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(write(file, data[:30]))       # the part of the line for which there is room
        return written[-1]

    saved = SavedBodies(tmp_path / "bodies")
    saved.add("/x", BODY)
    whole = (tmp_path / "bodies").read_bytes()
    monkeypatch.setattr(os, "write", fill)
    for _ in range(3):
        saved.add("/y", BODY)
    assert saved.unsaved == 3
    [line] = capsys.readouterr().err.splitlines()
    assert "bodies: no space left on device" in line
    assert (tmp_path / "bodies").read_bytes() == whole


@pytest.mark.parametrize("name", ["missing/bodies", "", "a\0b"])
def test_a_file_that_cannot_be_opened_is_refused(name, tmp_path):
    with pytest.raises(Unwritable):
        SavedBodies(tmp_path / name)
