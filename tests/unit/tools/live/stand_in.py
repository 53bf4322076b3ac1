"""Executable file that starts ``fake_llama.py`` in a mode."""

from __future__ import annotations

import sys
from pathlib import Path

FAKE = Path(__file__).with_name("fake_llama.py")


def stand_in(folder, version="version: 11549 (abc)", mode="well"):
    """Write a program into a folder; return its path."""
    file = folder / f"llama-server-{mode}"
    file.write_text(f"#!/bin/sh\nVERSION='{version}' exec '{sys.executable}' -S -E '{FAKE}' --fake {mode} \"$@\"\n")
    file.chmod(0o755)
    return file
