"""Facts that are read of a real model or its server."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.server import BASE
from cachesim.tools.live.llama_server.verify.model_of import (
    MOST,
    TOKENS,
    RealModelFacts,
    base_flags,
    from_file,
    from_server,
    real_vocabulary,
)
from cachesim.tools.live.token_map import TINY
from tests.shared import MODELS, needs
from tests.unit.tools.live.gguf_file import write_keys


def test_layers_are_those_of_the_name_of_a_tiny_model_or_of_the_user():
    assert from_file(Path("tiny-GGGA.gguf")) == RealModelFacts("GGGA", TINY, True)
    assert from_file(Path("tiny-GGGA.gguf"), "A") == RealModelFacts("A", TINY, True)
    assert from_file(Path("tiny-deepseek4.gguf")).layers == "deepseek4"


@pytest.mark.parametrize(("keys", "layers", "found"), [
    ({"general.architecture": "llama"}, "", "A"), ({"general.architecture": "llama"}, "GA", "GA"),
    ({"general.architecture": "gemma3", "gemma3.attention.sliding_window": 512}, "", "W512 A"),
    ({"general.architecture": "other"}, "W8 A", "W8 A"),
])  # fmt: skip
@pytest.mark.parametrize("name", ["W8A.gguf", "tiny-nothing.gguf"])
def test_layers_of_another_model_follow_from_its_architecture(tmp_path, keys, layers, found, name):
    file = write_keys(tmp_path / name, {**keys, TOKENS: ["x"] * 400})
    assert from_file(file, layers) == RealModelFacts(found, real_vocabulary(400), False)


@needs(MODELS)
def test_the_newest_architectures_are_read_from_the_file(tmp_path):
    (file := tmp_path / "x.gguf").symlink_to(MODELS / "tiny-minimax-m3.gguf")
    found = from_file(file)
    assert "B" in found.layers and not found.is_tiny and from_file(file, "A").layers == "A"


@pytest.mark.parametrize("tokens", ["x", 3, None])
def test_a_file_without_a_list_of_tokens_has_a_large_vocabulary(tmp_path, tokens):
    keys = {"general.architecture": "llama", **({} if tokens is None else {TOKENS: tokens})}
    assert from_file(write_keys(tmp_path / "x.gguf", keys)).vocabulary == real_vocabulary(MOST)


def test_an_unknown_architecture_needs_layers(tmp_path):
    file = write_keys(tmp_path / "tiny-nothing.gguf", {"general.architecture": "other"})
    with pytest.raises(BadInput, match="other") as bad:
        from_file(file)
    assert bad.value.file == str(file) and "--layers" in str(bad.value)
    (tmp_path / "none.gguf").write_text("x")
    with pytest.raises(BadInput):
        from_file(tmp_path / "none.gguf")


@pytest.mark.parametrize(("size", "first", "last"), [(20, 5, 17), (4000, 1000, 3499), (100_000, 1000, 20_999)])
def test_words_have_tokens_from_the_middle_of_a_vocabulary(size, first, last):
    found = real_vocabulary(size).plain
    assert (found[0], found[-1], len(found)) == (first, last, last - first + 1)


def test_a_server_names_its_file_or_the_user_the_layers(tmp_path):
    own = write_keys(tmp_path / "own.gguf", {"general.architecture": "mamba"})
    assert from_server({"model_path": str(own)}, {}).layers == "S"
    assert from_server({"model_path": "/far/tiny-GA.gguf"}, {}) == RealModelFacts("GA", TINY, True)
    (tmp_path / "own.bin").write_text("")
    for props in ({"model_path": str(tmp_path / "own.bin")}, {"model_path": "/far/own.gguf"}, {"model_path": None}, {}):
        with pytest.raises(BadInput, match="--layers"):
            from_server(props, {})
    most = real_vocabulary(MOST)
    for models in ({}, {"data": []}, {"data": [{"meta": None}]}, {"data": [{"meta": {}}]}):
        assert from_server({}, models, "GA") == RealModelFacts("GA", most, False)
    models = {"data": [{"meta": {"n_vocab": 4000}}, {"meta": {"n_vocab": 9}}]}
    assert from_server({}, models, "GA").vocabulary == real_vocabulary(4000)


def test_only_minimax_needs_flash_attention():
    assert base_flags("A") == BASE
    changed = [(at, word) for at, word in enumerate(base_flags("minimax-m3")) if word != BASE[at]]
    assert changed == [(BASE.index("-fa") + 1, "on")]
