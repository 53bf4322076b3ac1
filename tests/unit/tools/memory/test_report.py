"""Every line of a memory report, from made data."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from cachesim.engines.registry import BUILTIN, rules_of
from cachesim.engines.shared.memory_use import MIB, MemoryPart, MemoryUse
from cachesim.engines.shared.model_sizes import real_model
from cachesim.tools.memory.estimate import Lowered, MemoryEstimate, _count
from cachesim.tools.memory.report import (
    _advice,
    _answer,
    _each,
    _options,
    _spelled,
    _spelling,
    _table,
    memory_data,
    memory_report,
)

GIB = 1 << 30
POOL = [{"number": 1234, "name": "blocks"}, {"number": 2, "name": "tokens"}]
DATA = {"total": 3 * GIB, "room": None, "unlimited": "", "takes_all": False, "fits": None, "pool": []}
BESIDE = "beside weights and compute buffers"


@pytest.mark.parametrize("changed, text, style", [
    ({}, f"3.0 GiB at most, {BESIDE}", "bold"),
    ({"total": GIB - 1}, f"1,024.0 MiB at most, {BESIDE}", "bold"),
    ({"total": GIB}, f"1.0 GiB at most, {BESIDE}", "bold"),
    ({"total": GIB // 2}, f"512.0 MiB at most, {BESIDE}", "bold"),
    ({"unlimited": "--cache-ram", "room": GIB}, f"at least 3.0 GiB {BESIDE}: --cache-ram sets no limit", "bold red"),
    ({"room": 4 * GIB, "fits": True}, f"3.0 GiB at most, {BESIDE}: fits into 4.0 GiB", "bold"),
    ({"room": GIB, "fits": False}, f"3.0 GiB at most, {BESIDE}: does not fit into 1.0 GiB", "bold red"),
    ({"room": GIB, "fits": True, "takes_all": True, "pool": POOL}, "1.0 GiB hold 1,234 blocks, 2 tokens", "bold"),
    ({"takes_all": True, "pool": POOL}, f"3.0 GiB at most, {BESIDE}", "bold"),
])  # fmt: skip
def test_the_answer_comes_first(changed, text, style):
    found = _answer(DATA | changed)
    assert (found.plain, found.style) == (text, style)


@pytest.mark.parametrize("value, text", [(5, "--x 5"), ("q8_0", "--x q8_0"), (True, "--x"), (False, "no --x"),
(0, "--x 0")])
def test_a_flag_has_its_value(value, text):
    assert _spelling("--x", value) == text


def test_options_left_to_the_server_are_in_parentheses():
    given, chosen = [{"flag": "-c", "value": 9}], [{"name": "context", "number": 4096}, {"name": "slots", "number": 4}]
    assert _options({"set": given, "chosen": chosen}) == " -c 9 (context 4,096, slots 4)"
    assert _options({"set": given * 2, "chosen": []}) == " -c 9 -c 9" and _options({"set": [], "chosen": []}) == ""


@pytest.mark.parametrize("changed, texts", [
    ({}, []), ({"token": 2048}, ["a token: 2,048 bytes in attention"]),
    ({"window_token": 1024}, ["a token: 1,024 bytes in windows"]),
    ({"token": 1, "window_token": 2}, ["a token: 1 bytes in attention, 2 bytes in windows"]),
    ({"state": MIB * 2000}, ["states of a conversation: 2,000.000 MiB"]),
    ({"checkpoint": MIB // 2}, ["a checkpoint: 0.500 MiB"]),
    ({"state": MIB, "checkpoint": MIB, "token": 8},
     ["a token: 8 bytes in attention", "states of a conversation: 1.000 MiB, a checkpoint: 1.000 MiB"]),
])  # fmt: skip
def test_sizes_of_what_there_is(changed, texts):
    each = {"token": 0, "window_token": 0, "state": 0, "checkpoint": 0}
    assert [text.plain for text in _each(each | changed)] == texts


@pytest.mark.parametrize("fits, verdict, style", [(True, ", fits", "green"), (False, ", does not fit", ""),
(None, "", "")])
def test_what_to_lower(fits, verdict, style):
    change = {"flag": "-c", "before": 9, "after": 4, "total": GIB, "fits": fits}
    found = [_advice(change, n) for n in (0, 1)]
    assert [one.plain for one in found] == [
        f"lower first: -c 9 -> 4: 1.0 GiB{verdict}", f"or:          -c 9 -> 4: 1.0 GiB{verdict}"]  # fmt: skip
    assert {one.style for one in found} == {style}
    switched = _advice(change | {"before": True, "after": False}, 0).plain
    assert switched == f"lower first: -c -> off: 1.0 GiB{verdict}"
    assert _advice(change | {"before": False, "after": True}, 1).plain.startswith("or:          no -c -> on: ")


def test_a_report_is_whole():
    change = {"flag": "-c", "before": 9, "after": 4, "total": GIB, "fits": False}
    part = {"name": "rows", "number": 2048, "unit": "tokens", "each": 1536, "bytes": 3 * MIB, "host": False}
    data = DATA | {
        "room": 2 * GIB, "fits": False, "model": "M", "profile": "llama_cpp@x", "set": [], "chosen": [],
        "parts": [part, part | {"name": "stored", "host": True}], "notes": ["one", "two"], "largest_context": 5000,
        "each": {"token": 1536, "window_token": 0, "state": 0, "checkpoint": 0}, "pool": POOL,
        "together": [change, change | {"flag": "-np", "after": 1, "total": GIB}], "lower": [change] * 9,
    }
    console = Console(file=io.StringIO(), width=80)
    console.print(*memory_report(data), sep="\n")
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines == [
        "3.0 GiB at most, beside weights and compute buffers: does not fit into 2.0 GiB",
        "M under llama_cpp@x",
        "part          number  bytes each  MiB",
        "rows    2,048 tokens       1,536  3.0",
        "stored  2,048 tokens       1,536  3.0  host",
        "a token: 1,536 bytes in attention",
        "note: one",
        "note: two",
        "2.0 GiB hold 1,234 blocks, 2 tokens",
        "largest context that fits: 5,000 tokens",
        "no flag alone is enough; together: -c 4 -np 1: 1.0 GiB, fits",
        "lower first: -c 9 -> 4: 1.0 GiB, does not fit",
        "or:          -c 9 -> 4: 1.0 GiB, does not fit",
        "or:          -c 9 -> 4: 1.0 GiB, does not fit",
    ]


@pytest.mark.parametrize("most, limit, found", [(0, 0, 1), (5, 2, 3), (5, 5, 6), (5, 9, 6), (5, -1, 0)])
def test_numbers_are_counted_up_to_the_first_without_the_property(most, limit, found):
    assert _count(most, lambda n: n <= limit) == found


def test_the_data_has_every_number_and_the_servers_spelling_of_flags():
    parts = MemoryPart("rows", 10, 3, "tokens"), MemoryPart("stored", 7, 2, "entries", host=True)
    use = MemoryUse(token=1, window=2, state=3, checkpoint=4, parts=parts, pool={"blocks": 9}, takes_all=True,
                    unlimited="cache_ram", chosen={"parallel": 4, "ctx_size": 512, "own": 6}, notes=("a note",))
    lower = Lowered("ctx_checkpoints", 8, 4, 33, True), Lowered("own", 2, 1, 40, None)
    engine, profile = BUILTIN["llama_cpp"], "llama_cpp@b9518"
    found = MemoryEstimate(engine, rules_of(profile), {"parallel": 2, "ctx_size": 512, "cache_type_k_draft": "f16"},
                           use, lower, lower[1:], 99)  # fmt: skip
    assert memory_data("word", real_model("qwen3"), found, 44) == {
        "model": "word", "source": real_model("qwen3").source, "profile": profile,
        "set": [{"flag": "--parallel", "value": 2}, {"flag": "--ctx-size", "value": 512},
                {"flag": "--cache-type-k-draft", "value": "f16"}],
        "chosen": [{"name": "parallel", "number": 4}, {"name": "own", "number": 6}],
        "total": 44, "room": 44, "unlimited": "--cache-ram", "fits": False,
        "each": {"token": 1, "window_token": 2, "state": 3, "checkpoint": 4},
        "parts": [{"name": "rows", "each": 10, "number": 3, "unit": "tokens", "bytes": 30, "host": False},
                  {"name": "stored", "each": 7, "number": 2, "unit": "entries", "bytes": 14, "host": True}],
        "notes": ["a note"], "pool": [{"name": "blocks", "number": 9}], "takes_all": True, "largest_context": 99,
        "lower": [{"flag": "--ctx-checkpoints", "before": 8, "after": 4, "total": 33, "fits": True},
                  {"flag": "own", "before": 2, "after": 1, "total": 40, "fits": None}],
        "together": [{"flag": "own", "before": 2, "after": 1, "total": 40, "fits": None}],
    }  # fmt: skip
    limited = found._replace(use=use._replace(unlimited=""), most=0)
    fits = [memory_data("w", real_model("qwen3"), limited, room) for room in (0, 43, 44)]
    assert [(one["fits"], one["room"], one["unlimited"], one["largest_context"]) for one in fits] == [
        (None, None, None, None), (False, 43, None, None), (True, 44, None, None)]  # fmt: skip


def test_a_flag_without_a_long_spelling_is_named_by_its_option():
    flags = [SimpleNamespace(name="size", spellings=("-s",)), SimpleNamespace(name="rows", spellings=("-r", "--rows"))]
    forms = SimpleNamespace(flags=[SimpleNamespace(name="kind", spellings=("-k", "--kind"))])
    engine = SimpleNamespace(manual=SimpleNamespace(flags=flags), memory=lambda: forms)
    assert [_spelled(engine, name) for name in ("size", "rows", "kind", "own", "")] == [
        "size", "--rows", "--kind", "own", ""]  # fmt: skip
    unknown = SimpleNamespace(manual=engine.manual, memory=lambda: None)
    assert [_spelled(unknown, name) for name in ("rows", "kind")] == ["--rows", "kind"]


def test_the_table_is_not_wider_than_its_texts():
    part = {"name": "rows", "number": 2048, "unit": "tokens", "each": 1536, "bytes": 3 * MIB, "host": True}
    console = Console(file=io.StringIO(), width=80)
    console.print(_table([part]))
    assert console.file.getvalue().splitlines() == [
        "part        number  bytes each  MiB      ", "rows  2,048 tokens       1,536  3.0  host"]  # fmt: skip
