"""Small GGUF files with given keys."""

from __future__ import annotations

from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel


def write_keys(file, keys):
    """Write a file with these keys and one tensor; return its path."""
    TinyModel(dict(keys), [Tensor("out", (2, 3), 0.5)], {}, "").write(str(file))
    return file
