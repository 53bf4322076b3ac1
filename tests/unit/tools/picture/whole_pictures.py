"""Whole pictures of small runs, in the files beside this one. After an intended change run
python -m tests.unit.tools.picture.whole_pictures, and look at the difference."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from cachesim.cli.main import main

FOLDER = Path(__file__).parent
PICTURES = {
    "hybrid.svg": ("run", "S8.A6>t3/B9/S.A.t.C4", "--model", "GA", "-np", "1", "-p", "llama_cpp@b11549", "--svg"),
    "two_slots.svg": ("run", "A8/B8/A.C3", "--model", "W4 A", "-p", "llama_cpp@b11549", "-p", "ik_llama@main", "--svg"),
    "index.svg": ("run", "A8>3/A.B4", "--model", "I4", "-np", "1", "-p", "llama_cpp@b11549", "--svg"),
    "compressed.svg": ("run", "S16>3/S[:9].B9", "--model", "W8 D4.8.3 D8.8", "-np", "1", "-c", "256",
                       "-p", "llama_cpp@b11549", "--svg"),
    "blocks.svg": ("run", "A40/A.B5", "--model", "A", "-p", "vllm@0.33.0", "--svg"),
    "tree.svg": ("run", "A10/A.B5/A.C4", "--model", "A", "-p", "sglang@0.5.23", "--svg"),
    "entries.svg": ("run", "A10/B6/A.C4", "--model", "A", "-p", "mlx_lm@0.32.2", "--svg"),
    "wrong.svg": ("run", "llama-24143-entry-removed-hybrid", "-p", "llama_cpp@b9518", "--svg"),
    "trace.json": ("run", "A8/A.B4", "--model", "A", "-p", "llama_cpp@b11549", "--trace"),
}  # fmt: skip
"""Name of the file -> the command that writes it."""


def drawn(name: str, folder: Path) -> str:
    """Return a picture, drawn in this folder."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main([*PICTURES[name], str(folder / name)])
    return (folder / name).read_text("utf-8")


if __name__ == "__main__":
    for name in PICTURES:
        (FOLDER / name).unlink(missing_ok=True)
        drawn(name, FOLDER)
