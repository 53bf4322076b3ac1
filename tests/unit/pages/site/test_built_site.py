"""The site gets its name whole, whenever a signal arrives."""

from __future__ import annotations

import os
import signal

import pytest

from cachesim.pages.site.built_site import replace_folder


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def folder(place, text):
    place.mkdir()
    (place / "page").write_text(text)
    return place


def test_a_folder_is_replaced_whole_although_a_signal_arrives_between_the_two_names(tmp_path, monkeypatch):
    target, made, plain = folder(tmp_path / "site", "old"), folder(tmp_path / "made", "new"), os.replace

    def signalled(*names):
        plain(*names)
        signal.raise_signal(signal.SIGINT)          # to this thread: pytest-xdist runs others, which do not block it

    monkeypatch.setattr("os.replace", signalled)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(made, target, tmp_path / "former")
    assert (target / "page").read_text() == "new" and names(tmp_path) == ["former", "site"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_that_cannot_be_replaced_stays(tmp_path, is_there):
    target = tmp_path / "site"
    if is_there:
        folder(target, "old")
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "none", target, tmp_path / "former")
    assert names(tmp_path) == ["site"] * is_there and (not is_there or (target / "page").read_text() == "old")
