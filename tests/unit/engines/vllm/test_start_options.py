"""Options that a release resolves at its start agree with the released configuration classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.profiles import LINE, PROFILES
from cachesim.engines.vllm.start_options import derived_defaults, resolved
from cachesim.model import parse
from cachesim.scenarios.option_checks import spoken
from tests.unit.engines.vllm.released_defaults import answer

NGRAM = {"speculative_method": "ngram", "num_speculative_tokens": 1}
RELEASED = [line for line in (Path(__file__).parent / "released_defaults.txt").read_text("utf-8").splitlines()
            if not line.startswith("#")]  # fmt: skip


def test_defaults_are_those_of_the_released_configuration():
    assert [line for line in RELEASED if answer(line) != line] == []
    assert {line.partition(" ")[0] for line in RELEASED} == {name.partition("@")[2] for name in LINE}


def test_the_server_has_the_resolved_options():
    server = ENGINE.start("vllm@0.33.0", "S", {"device_memory": 80}, "none")
    assert (server.opts.async_scheduling, server.opts.enable_prefix_caching) == (True, False)
    assert (server.opts.max_num_batched_tokens, server.opts.max_num_seqs) == (8192, 1024)


def test_a_given_value_is_kept():
    found = resolved(PROFILES["vllm@0.33.0"], parse("S"), {"enable_prefix_caching": True, "max_num_seqs": 300})
    assert found["enable_prefix_caching"] and found["mamba_cache_mode"] == "align" and found["max_num_seqs"] == 300


def test_a_release_refuses_a_combination_that_it_does_not_start_with():
    with pytest.raises(BadInput, match=r"vllm@0\.31\.0 does not start with async_scheduling and drafts of ngram"):
        ENGINE.start("vllm@0.31.0", "A", {"async_scheduling": True, **NGRAM}, "none")
    ENGINE.start("vllm@0.33.0", "A", {"async_scheduling": True, **NGRAM}, "none")


def test_a_changed_default_is_named():
    assert derived_defaults(PROFILES["vllm@0.33.0"], NGRAM) == []
    assert derived_defaults(PROFILES["vllm@0.32.0"], NGRAM) == [
        "async_scheduling off: chosen at the start of vllm@0.32.0"]
    assert derived_defaults(PROFILES["vllm@0.33.0"], {"device_memory": 160}) == [
        "max_num_batched_tokens 16384: chosen at the start of vllm@0.33.0",
        "max_num_seqs 1024: chosen at the start of vllm@0.33.0"]  # fmt: skip
    assert derived_defaults(PROFILES["vllm@0.33.0"], {"max_num_batched_tokens": 8}) == []


def test_a_given_value_that_equals_a_resolved_default_is_written():
    assert spoken({"enable_prefix_caching": True, "block_size": 16}, "vllm") == {"enable_prefix_caching": True}
