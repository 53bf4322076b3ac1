"""Readers of arguments with values of their own, and environment variables."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.command_table import COMMAND_TABLE, read_adapters, read_draft_model, read_projector_url
from cachesim.tools.run.pasted_command import read_pasted


def test_each_adapter_has_scale_1() -> None:
    assert read_adapters("a.gguf,b.gguf").options == {"lora_scaled": "1,1"}


def test_a_repository_names_a_draft_model() -> None:
    assert read_draft_model("owner/name").options == {"model_draft": "owner/name"}


@pytest.mark.parametrize(("url", "kind"), [("https://x/mmproj-gemma-3.gguf", "gemma3"), ("https://x/f.gguf", "causal")])
def test_a_projector_is_known_by_its_file(url: str, kind: str) -> None:
    assert read_projector_url(url).options == {"mmproj": kind}


def test_environment_variables_stand_for_arguments() -> None:
    found = read_pasted("docker run -e LLAMA_ARG_CTX_SIZE=4096 -e LLAMA_ARG_CONTEXT_SHIFT=1 "
                        "-e LLAMA_ARG_CACHE_PROMPT=0 -e LLAMA_ARG_PORT=80 "
                        "-e LLAMA_OTHER=1 ghcr.io/ggml-org/llama.cpp:server -m M", []).command
    assert found.options == {"ctx_size": 4096, "context_shift": True, "cache_prompt": False}
    assert (found.ignored, found.unread) == (["--port"], ["LLAMA_OTHER"])


def test_flash_attention_was_a_switch_in_older_builds() -> None:
    counts = [COMMAND_TABLE.of_release(release)["-fa"].values for release in COMMAND_TABLE.releases]
    assert counts[:2] == ["0", "0"] and set(counts[2:]) == {"1"}
