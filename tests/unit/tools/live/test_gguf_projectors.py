"""Tests of projector files for the tiny models."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from cachesim.tools.live.llama_server.gguf_projectors import PROJECTORS, projector_in, with_projector, write_projector

MODELS = Path(__file__).resolve().parents[5] / "shared" / "models"
needs_gguf = pytest.mark.skipif(find_spec("gguf") is None, reason="the package gguf is not installed (extra gguf)")


@needs_gguf
@pytest.mark.parametrize("kind", PROJECTORS)
@pytest.mark.skipif(not MODELS.is_dir(), reason="needs ../shared/models")
def test_keys_and_shapes_are_those_of_the_recorded_projectors(kind, tmp_path):
    from gguf import GGUFReader

    write_projector(kind, tmp_path / "ours")
    ours, theirs = GGUFReader(tmp_path / "ours"), GGUFReader(MODELS / f"tiny-mmproj-{kind}.gguf")
    own = {"general.name", "general.file_type", "clip.vision.image_max_pixels"}
    keys = [{name: (field.types, field.contents()) for name, field in one.fields.items()
             if name not in own and not name.startswith("GGUF.")} for one in (ours, theirs)]  # fmt: skip
    assert keys[0] == keys[1]
    shapes = [{tensor.name: tuple(tensor.shape) for tensor in one.tensors} for one in (ours, theirs)]
    assert shapes[0] == shapes[1]


def test_flags_name_a_file_that_is_written_once(tmp_path):
    flags = ("-c", "512", "--mmproj", "MODELS/tiny-mmproj-gemma3.gguf")
    words, file = with_projector(flags, tmp_path), tmp_path / "tiny-mmproj-gemma3.gguf"
    assert words == ["-c", "512", "--mmproj", str(file)] and projector_in(flags) == "gemma3"
    data = file.read_bytes()
    write_projector("gemma3", tmp_path / "again")
    assert data == (tmp_path / "again").read_bytes()
    file.write_bytes(b"")
    assert with_projector(flags, tmp_path) == words and file.read_bytes() == b""


def test_flags_without_a_projector_write_nothing(tmp_path):
    flags = ["-md", "MODELS/tiny-A.gguf"]
    assert with_projector(flags, tmp_path / "a") == flags and projector_in(flags) == ""
    assert not (tmp_path / "a").exists()


@needs_gguf
@pytest.mark.parametrize(("kind", "layers"), [(kind, 3 if kind == "mlp" else 2) for kind in PROJECTORS])
def test_a_projector_has_two_heads_and_few_layers(kind, layers, tmp_path):
    from gguf import GGUFReader

    write_projector(kind, tmp_path / "ours")
    fields = GGUFReader(tmp_path / "ours").fields
    vision = {name: fields[f"clip.vision.{name}"].contents() for name in ("attention.head_count", "block_count")}
    assert vision == {"attention.head_count": 2, "block_count": layers}
    assert fields["clip.projector_type"].contents() == PROJECTORS[kind].type
