"""Tests of adapter files for the tiny models."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.gguf_adapters import (
    INVOCATION,
    RANK,
    named_for,
    tiny_adapter,
    with_adapters,
)
from cachesim.tools.live.llama_server.gguf_models import find_model, tiny_model

needs_gguf = pytest.mark.skipif(find_spec("gguf") is None, reason="the package gguf is not installed (extra gguf)")


@needs_gguf
@pytest.mark.parametrize("notation", ["A", "W8 A", "GA", "qwen35-GA", "GA+M", "S", "SSA", "CA", "C W8", "H"])
def test_an_adapter_fits_its_model(notation, tmp_path):
    from gguf import GGUFReader

    model = find_model(notation)
    tiny_adapter(model, 1, [101, 102]).write(str(tmp_path / "a.gguf"))
    found = GGUFReader(tmp_path / "a.gguf")
    assert found.fields["general.architecture"].contents() == model.arch
    assert found.fields[INVOCATION].contents() == [101, 102]
    assert [one.name for one in found.fields[INVOCATION].types] == ["ARRAY", "UINT32"]
    names = [tensor.name for tensor in found.tensors]
    layers = {int(name.split(".")[1]) for name in names}
    assert layers == set(range(len(model.spec.layers)))
    assert all(name.endswith((".weight.lora_a", ".weight.lora_b")) for name in names)
    assert {int(tensor.shape[1 if tensor.name.endswith("a") else 0]) for tensor in found.tensors} == {RANK}


def test_flags_name_files_that_are_written_once(tmp_path):
    flags = ("-c", "512", "--lora-scaled", "MODELS/lora0.gguf:1,MODELS/alora1-101.102.gguf:0")
    words = with_adapters(flags, Path("tiny-AA.gguf"), tmp_path)
    files = [tmp_path / "tiny-AA-lora0.gguf", tmp_path / "tiny-AA-alora1-101.102.gguf"]
    assert words == ("-c", "512", "--lora-scaled", f"{files[0]}:1,{files[1]}:0")
    data = [file.read_bytes() for file in files]
    assert data[0] != data[1]
    files[0].write_bytes(b"")
    assert with_adapters(flags, Path("tiny-AA.gguf"), tmp_path) == words
    assert files[0].read_bytes() == b""


def test_flags_without_adapters_write_nothing(tmp_path):
    flags = ("-md", "MODELS/tiny-A.gguf")
    assert with_adapters(flags, Path("model.gguf"), tmp_path / "a") == flags
    assert not (tmp_path / "a").exists()


def test_another_model_has_no_adapters(tmp_path):
    with pytest.raises(BadInput, match="adapters are only written for the models of cachesim"):
        with_adapters(("--lora-scaled", "MODELS/lora0.gguf:1"), Path("gpt.gguf"), tmp_path)


def test_the_name_of_the_model_stands_before_those_of_its_adapters():
    flags = ("--lora", "MODELS/lora0.gguf,MODELS/alora1-5.6.gguf", "--mmproj", "MODELS/tiny-mmproj-mlp.gguf")
    assert named_for(find_model("GA"), flags) == (
        "--lora", "MODELS/tiny-GA-lora0.gguf,MODELS/tiny-GA-alora1-5.6.gguf", "--mmproj", "MODELS/tiny-mmproj-mlp.gguf")
    assert named_for(find_model("GA"), named_for(find_model("A"), flags[:2])) == named_for(find_model("GA"), flags[:2])


def test_adapters_are_written_into_a_folder_that_is_made(tmp_path):
    folder = tmp_path / "a" / "b"
    flags = with_adapters(("--lora", "MODELS/lora0.gguf"), Path("tiny-A.gguf"), folder)
    assert flags == ("--lora", str(folder / "tiny-A-lora0.gguf")) and (folder / "tiny-A-lora0.gguf").stat().st_size > 0


def test_an_adapter_has_the_widths_of_the_tensors_that_it_changes():
    model = find_model("GA")
    shapes = {one.name: one.shape for one in tiny_model(model).tensors()}
    found = {one.name: one.shape for one in tiny_adapter(model, 1, ()).tensors()}
    changed = {name.rpartition(".lora_")[0] for name in found}
    assert any(shapes[name][0] != shapes[name][1] for name in changed)
    assert found == {f"{name}.lora_{part}": shape for name in changed
                     for part, shape in (("a", (shapes[name][0], RANK)), ("b", (RANK, shapes[name][1])))}  # fmt: skip
