"""Arrays in slot files: which are stored under which paths, and what is read back."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.array_file import (
    array_text,
    check_model,
    pack_arrays,
    put_rows,
    put_states,
    rows_in,
    states_in,
    text_array,
    unpack_arrays,
)
from cachesim.model import KVRows, LayerState

MAGIC = b"TEST 1\n"


def numbers(*values):
    return np.array(values, np.uint64)


def test_rows_are_stored_by_layer_and_without_values_that_do_not_exist():
    arrays = {}
    whole = KVRows(numbers(1, 2), np.array([0.5, 1.5]), np.array([2.5, 3.5]))
    put_rows(arrays, "base", {0: KVRows(numbers(7), None, None), ~3: whole})
    assert sorted(arrays) == ["base/-4/digest", "base/-4/k", "base/-4/v", "base/0/digest"]
    found = rows_in({**arrays, "swa/0/digest": numbers(9), "base/pos": numbers(5)}, "base")
    assert {layer: rows.digest.tolist() for layer, rows in found.items()} == {0: [7], -4: [1, 2]}
    assert (found[0].k, found[0].v, found[-4].k.tolist(), found[-4].v.tolist()) == (None, None, [0.5, 1.5], [2.5, 3.5])


def test_states_are_stored_by_layer_and_read_back_unchangeable():
    arrays = {}
    exact = LayerState(numbers(1, 2), 2**63 + 5, np.array([0.5]), np.array([[1.5]]))
    put_states(arrays, "recr", {2: LayerState(numbers(3), 4, None, None), 5: None, 6: exact})
    assert sorted(arrays) == ["recr/2/conv", "recr/2/hash", "recr/6/conv", "recr/6/conv_x", "recr/6/h", "recr/6/hash"]
    found = states_in(arrays, "recr")
    assert sorted(found) == [2, 6] and (found[2].hash, found[2].conv_x, found[2].h) == (4, None, None)
    assert (found[6].conv.tolist(), found[6].hash, found[6].h.tolist()) == ([1, 2], 2**63 + 5, [[1.5]])
    with pytest.raises(ValueError, match="read-only"):
        found[6].conv[0] = 9


def test_a_file_is_read_only_if_it_is_whole_and_of_this_kind():
    data = pack_arrays(MAGIC, {"a": numbers(1, 2)})
    assert unpack_arrays(MAGIC, data, "f", lambda arrays: arrays["a"].tolist()) == [1, 2]
    for spoiled, message in ((b"x" + data, "not a slot file of this version"), (data[:-1], "damaged or truncated"),
                             (data + b"x", "damaged or truncated")):  # fmt: skip
        with pytest.raises(BadInput, match=message) as caught:
            unpack_arrays(MAGIC, spoiled, "f", dict)
        assert caught.value.file == "f"
    with pytest.raises(BadInput, match="not a slot file: 'b'"):
        unpack_arrays(MAGIC, data, "f", lambda arrays: arrays["b"])


def test_a_file_of_another_model_is_refused(tmp_path):
    check_model("A", "A", tmp_path)
    with pytest.raises(BadInput, match="expected a file of model AA, found model A"):
        check_model("A", "AA", tmp_path)


def test_a_text_is_stored_as_its_bytes():
    assert text_array("Aü").tolist() == [65, 195, 188]
    assert array_text(text_array("Aü")) == "Aü" and array_text(text_array("")) == ""
