"""Tests of projector files for the tiny models."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from cachesim.base.gguf_header import read_gguf
from cachesim.tools.live.llama_server.gguf_projectors import (
    PROJECTORS,
    projector_in,
    with_projector,
    write_projector,
)

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


@pytest.mark.parametrize(("kind", "type_", "layers", "image", "patch", "more"), [
    ("qwen2vl", "qwen2vl_merger", 2, 56, 4, {"image_min_pixels": 64, "image_max_pixels": 262_144}),
    ("mlp", "mlp", 3, 32, 8, {}), ("gemma3", "gemma3", 2, 48, 8, {"projector.scale_factor": 2}),
])  # fmt: skip
def test_a_file_has_the_keys_of_its_projector(kind, type_, layers, image, patch, more, tmp_path):
    write_projector(kind, tmp_path / "a")
    keys = read_gguf(tmp_path / "a", ("clip.vision.image_mean", "clip.vision.image_std"))
    kinds = [keys[name] for name in ("general.architecture", "general.type", "clip.projector_type")]
    assert kinds == ["clip", "mmproj", type_]
    assert keys["clip.has_vision_encoder"] is keys["clip.use_gelu"] is True
    assert keys["clip.vision.image_mean"] == keys["clip.vision.image_std"] == [0.5, 0.5, 0.5]
    sizes = {"embedding_length": 32, "attention.head_count": 2, "feed_forward_length": 48, "projection_dim": 64,
             "block_count": layers, "image_size": image, "patch_size": patch, **more}  # fmt: skip
    found = {name.removeprefix("clip.vision."): value for name, value in keys.items()
             if name.startswith("clip.vision.") and isinstance(value, int)}  # fmt: skip
    assert found == sizes and keys["clip.vision.attention.layer_norm_epsilon"] == pytest.approx(1e-6)


def test_a_projector_is_written_into_a_folder_that_is_made(tmp_path):
    folder = tmp_path / "a" / "b"
    flags = with_projector(["--mmproj", "MODELS/tiny-mmproj-mlp.gguf"], folder)
    assert flags == ["--mmproj", str(folder / "tiny-mmproj-mlp.gguf")] and Path(flags[1]).stat().st_size > 0


@pytest.mark.parametrize(("kind", "digest"), [
    ("qwen2vl", "3e1cbae7f5a20d9c"), ("mlp", "22385e6e0291f9ae"), ("gemma3", "6f7d6b9a61cbc882")])  # fmt: skip
def test_the_bytes_are_the_same_everywhere(kind, digest, tmp_path):
    write_projector(kind, tmp_path / "a")
    assert hashlib.sha256((tmp_path / "a").read_bytes()).hexdigest()[:16] == digest
