"""Writer of GGUF files: keys by type, tensors with their offsets, random values by seed and name."""

from __future__ import annotations

import math
import struct

import pytest

from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel, tensor_values, write_gguf


def text(word):
    return struct.pack("<Q", len(word.encode())) + word.encode()


def padded(data):
    return data + bytes((32 - len(data) % 32) % 32)


@pytest.mark.parametrize(("value", "data"), [
    (True, struct.pack("<I?", 7, True)), (5, struct.pack("<II", 4, 5)), (0.5, struct.pack("<If", 6, 0.5)),
    ("é", struct.pack("<I", 8) + text("é")), (["a", "bc"], struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc")),
    ((1, 2), struct.pack("<IIQii", 9, 4, 2, 1, 2)), ([1, -2], struct.pack("<IIQii", 9, 5, 2, 1, -2)),
    (("a",), struct.pack("<IIQ", 9, 8, 1) + text("a")),
])  # fmt: skip
def test_a_key_has_its_type_before_its_value(tmp_path, value, data):
    write_gguf(str(tmp_path / "x"), {"key": value}, [])
    assert (tmp_path / "x").read_bytes() == padded(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("key") + data)


def test_tensors_follow_the_head_at_multiples_of_32_bytes(tmp_path):
    tensors = [Tensor("a", (3, 1), mean=1.0), Tensor("b", (8,), mean=2.0), Tensor("c", (1,), mean=3.0)]
    write_gguf(str(tmp_path / "x"), {}, tensors)
    head = b"GGUF" + struct.pack("<IQQ", 3, 3, 0)
    head += text("a") + struct.pack("<IQQIQ", 2, 3, 1, 0, 0) + text("b") + struct.pack("<IQIQ", 1, 8, 0, 32)
    head += text("c") + struct.pack("<IQIQ", 1, 1, 0, 64)
    data = padded(struct.pack("<3f", *[1.0] * 3)) + struct.pack("<8f", *[2.0] * 8) + padded(struct.pack("<f", 3.0))
    assert (tmp_path / "x").read_bytes() == padded(head) + data


def test_the_layers_of_a_model_are_numbered_after_the_outer_tensors(tmp_path):
    kinds = {"A": [Tensor("q", (1,)), Tensor("v", (1,))], "G": [Tensor("s", (1,))]}
    model = TinyModel({"k": 1}, [Tensor("out", (2,))], kinds, "AGA", seed=7)
    assert [one.name for one in model.tensors()] == ["out", "blk.0.q", "blk.0.v", "blk.1.s", "blk.2.q", "blk.2.v"]
    model = model._replace(outer=[Tensor("out", (2,), std=1.0)])
    for seed, same in ((0, 7), (9, 9)):
        model.write(str(tmp_path / "a"), seed)
        write_gguf(str(tmp_path / "b"), model.keys, model.tensors(), same)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    write_gguf(str(tmp_path / "a"), model.keys, model.tensors())
    write_gguf(str(tmp_path / "b"), model.keys, model.tensors(), 0)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_random_values_depend_on_seed_and_name_and_have_their_mean_and_deviation():
    one = Tensor("a", (50, 40), std=2.0, mean=10.0)
    values = tensor_values(one, 3)
    assert values == tensor_values(one, 3) != tensor_values(one, 4) != tensor_values(one._replace(name="b"), 4)
    mean = sum(values) / 2000
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / 2000)
    assert (len(values), round(mean), round(deviation)) == (2000, 10, 2)
    unit = tensor_values(one._replace(std=1.0, mean=0.0), 3)
    assert [10.0 + 2.0 * value for value in unit] == values
    assert tensor_values(Tensor("a", (2,), mean=3.0), 1) == [3.0, 3.0]


def test_a_unit_matrix_is_added_to_the_first_columns():
    wide = tensor_values(Tensor("a", (3, 2), is_identity=True), 1)
    tall = tensor_values(Tensor("a", (2, 3), is_identity=True), 1)
    assert (wide, tall) == ([1, 0, 0, 0, 1, 0], [1, 0, 0, 1, 0, 0])


def test_decay_rates_are_negative_and_end_at_the_slowest():
    values = tensor_values(Tensor("a", (3,), decay=6.0), 1)
    assert values == [-6.0, -round(6.0 / math.sqrt(300), 6), -0.02]


def test_a_model_is_written_with_its_own_seed_unless_another_is_given(tmp_path):
    model = TinyModel({}, [Tensor("w", (4, 4), 0.5)], {}, "", 7)
    model.write(str(tmp_path / "own"))
    for seed, name in ((7, "own"), (0, "own"), (1, "other")):
        model.write(str(tmp_path / "again"), seed)
        assert ((tmp_path / "again").read_bytes() == (tmp_path / "own").read_bytes()) is (name == "own")
