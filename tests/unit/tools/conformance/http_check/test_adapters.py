"""Tests of the adapters of a server, their request fields and their keys."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.http_check.adapters import (
    MOST,
    Adapter,
    adapter_bursts,
    adapter_fields,
    adapter_key,
    adapter_lines,
    default_fields,
    native_adapters,
    read_scales,
    served_adapters,
)
from cachesim.tools.conformance.protocol import NO_KEY

NATIVE = (Adapter(scale=0.5), Adapter(), Adapter(invoked=True))
SERVED = (Adapter("one"), Adapter("two"))


def test_a_llama_server_lists_scales_and_invocation_tokens():
    listed = [{"id": 1, "scale": 0.0}, {"id": 0, "scale": 0.5}, {"id": 2, "scale": 0, "alora_invocation_tokens": [7]}]
    assert native_adapters(listed) == NATIVE


@pytest.mark.parametrize("listed", [
    None, {}, "x", [1], [{}], [{"id": 1, "scale": 1}], [{"id": 0, "scale": "1"}], [{"id": -1, "scale": 1}],
    [{"id": 0, "scale": float("nan")}], [{"id": 0, "scale": 10**400}], [{"id": 0, "scale": None}], [{"id": True}],
])
def test_a_list_that_cannot_be_has_no_adapters(listed):
    assert native_adapters(listed) == ()


def test_other_servers_name_the_base_of_a_model():
    models = {"data": [{"id": "base"}, {"id": "one", "parent": "base"}, {"id": "b", "parent": "other"}, {"id": "c"},
                       {"id": 7, "parent": "base"}, {"id": "base", "parent": "base"}, None,
                       {"id": "two", "parent": "base"}]}  # fmt: skip
    assert served_adapters(models, "base") == SERVED
    assert served_adapters(models, "") == served_adapters([1], "base") == served_adapters({"data": 1}, "base") == ()


def test_a_key_has_the_adapters_that_act():
    assert adapter_key(NATIVE, "1:1,0:0").name == adapter_key(NATIVE, "1:1").name == "1:1"
    assert adapter_key(NATIVE, "").name == adapter_key(NATIVE, "0:0.5").name == "0:0.5"
    assert adapter_key(NATIVE, "0:0") == adapter_key(SERVED, "") == adapter_key((), "") == NO_KEY
    assert adapter_key(NATIVE, "1:1").kind == "adapter"


def test_requests_list_adapters_or_name_a_model():
    assert adapter_fields(NATIVE, "1:0.5") == {"lora": [{"id": 1, "scale": 0.5}]}
    assert adapter_fields(NATIVE, "0:0") == {"lora": [{"id": 0, "scale": 0.0}]} and adapter_fields(NATIVE, "") == {}
    assert adapter_fields(SERVED, "1:1,0:0") == {"model": "two"}
    assert adapter_fields(SERVED, "0:0") == adapter_fields(SERVED, "") == adapter_fields((), "") == {}
    scales = [{"id": 0, "scale": 0.5}, {"id": 1, "scale": 0.0}, {"id": 2, "scale": 0.0}]
    assert default_fields(NATIVE) == {"lora": scales} and default_fields(SERVED) == default_fields(()) == {}


@pytest.mark.parametrize("adapters, text, what", [
    (NATIVE, "3:1", "lists 3 adapters, number 3 is not among them"), ((), "0:1", "lists 0 adapters"),
    (SERVED, "0:1,1:1", "one adapter with the scale 1"), (SERVED, "0:0.5", "one adapter with the scale 1"),
    (NATIVE, "0", "expected scales of adapters such as 0:1"), (NATIVE, "0:1e9", "expected scales"),
    (NATIVE, "0:" + "9" * 99, "expected scales"),
])
def test_what_a_server_cannot_select_is_refused(adapters, text, what):
    with pytest.raises(BadInput, match=what):
        adapter_fields(adapters, text)


def test_histories_mix_two_adapters_or_one_and_none():
    for lists, other in ((["1:1", "2:1"], "2:1"), (["1:1"], "0:0")):
        lines = adapter_lines(lists, 24)
        assert all(parse_history(line).is_keyed for line in lines) and len({*lines}) == len(lines)
        assert f"A24>4{{lora=1:1}}/A>4{{lora={other}}}/A>4{{lora=1:1}}" in lines


def test_identical_prompts_arrive_together_under_two_lists_or_one():
    one, two = "{lora=1:1}", "{lora=2:1}"
    later = {text: text.replace("}", " together}") for text in (one, two)}
    assert adapter_bursts(["1:1", "2:1"], 24, 3) == (
        f"A24>4{one}/A>4{later[two]}/A>4{later[one]}",
        f"A24>4{one}/A.B8>4{one}/A.B>4{later[two]}/A.B>4{later[one]}",
        f"A24>4{one}/A>4{two}/A>4{later[two]}/A>4{later[two]}")
    assert adapter_bursts(["1:1"], 24, 2)[0] == "A24>4{lora=1:1}/A>4{lora=0:0 together}"


def test_the_lines_of_two_adapters():
    assert adapter_lines(["1:1", "2:1"], 24)[3:6] == (
        "A24>4{lora=1:1}/A.B8>4/A.B>4{lora=0:0}", "A24>4{lora=0:0}/A.B8>4/A.B>4{lora=1:1}",
        "A24>4{lora=1:1}/B24{lora=0:0}/A.C8>4{lora=0:0}")
    assert "/A[:12].E8>4{lora=2:1}" in adapter_lines(["1:1", "2:1"], 24)[7]


@pytest.mark.parametrize(("scale", "known"), [(1e6, False), (999_999.5, True), (-1e6, False), (-999_999.5, True)])
def test_scales_are_less_than_a_million(scale, known):
    assert bool(native_adapters([{"id": 0, "scale": scale}])) is known


@pytest.mark.parametrize(("text", "scales"), [
    ("0:1", {0: 1.0}), ("1:-0.5,0:2", {1: -0.5, 0: 2.0}), ("9999:999999.999999", {9999: 999999.999999})])
def test_scales_of_a_text(text, scales):
    assert read_scales(text) == scales


@pytest.mark.parametrize("text", ["0", "0:", ":1", "0:1,", "10000:1", "0:1.", "0:1 ", "0:1;1:1"])
def test_another_text_has_no_scales(text):
    with pytest.raises(BadInput, match=r"lora: expected scales of adapters such as 0:1,2:0\.5"):
        read_scales(text)


def test_only_so_many_adapters_are_read():
    entries = [{"id": number, "scale": 1} for number in range(MOST + 1)]
    assert len(native_adapters(entries[:MOST])) == len(native_adapters(entries)) == MOST
    models = [{"id": "base"}, *({"id": f"a{number}", "parent": "base"} for number in range(MOST))]
    assert len(served_adapters({"data": models}, "base")) == MOST - 1
