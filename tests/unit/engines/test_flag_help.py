"""Help texts and unique spellings of the built-in engines' flags."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import BUILTIN

ENGINES = [pytest.param(engine, id=name) for name, engine in BUILTIN.items()]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_flag_says_in_one_or_two_sentences_what_it_changes(engine):
    for flag in engine.manual.flags:
        assert (flag.help.endswith((".", ".)")) and flag.help[0].isalpha()) or flag.help[:4].islower(), flag.name
        assert 20 < len(flag.help) < 260, flag.name


@pytest.mark.parametrize("engine", ENGINES)
def test_a_name_means_one_flag(engine):
    counted = Counter(name for flag in engine.manual.flags for name in {name for name, _ in flag.names()})
    assert {name for name, n in counted.items() if n > 1} == set()
    spelled = {word for flag in engine.manual.flags for word in (*flag.spellings, *flag.off)}
    assert all(word.startswith("-") for word in spelled)
    assert not spelled & set(engine.manual.silent)


@pytest.mark.parametrize("engine", [one for one in ENGINES if one.values[0].recorded.read])
def test_what_recordings_call_a_flag_is_one_of_its_spellings(engine):
    read, taken = engine.recorded.read, 0
    for flag, word in ((one, word) for one in engine.manual.flags for word in one.spellings):
        assert engine.manual.named(word) == (flag, True)
        if type(flag.default) in (int, float):
            with suppress(BadInput):                # a spelling that no recording has
                assert read([word, "1"]).options[flag.name] == 1
                taken += 1
    assert taken > 5


@pytest.mark.parametrize(("word", "name", "on"), [
    ("--ctx-checkpoints", "ctx_checkpoints", True), ("ctx-checkpoints", "ctx_checkpoints", True),
    ("np", "parallel", True), ("-np", "parallel", True), ("n_parallel", "parallel", True),
    ("-no-kvu", "kv_unified", False), ("no_kv_unified", "kv_unified", False), ("n_batch", "batch_size", True),
    ("--no-cache-prompt", "cache_prompt", False),
])  # fmt: skip
def test_other_spellings_of_llama_server(word, name, on):
    flag, switches_on = BUILTIN["llama_cpp"].manual.named(word)
    assert (flag.name, switches_on) == (name, on)
