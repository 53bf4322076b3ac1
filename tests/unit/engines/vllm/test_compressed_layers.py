"""Groups and blocks of models that choose or compress rows; the released planning is compared in tests/peers."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.shared.newest_sizes import CONFIGURATIONS
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.page_sizes import compressed_groups
from cachesim.scenarios.option_checks import model_named

MTP = {"speculative_method": "mtp", "num_speculative_tokens": 1}


@pytest.mark.parametrize(("model", "more", "words"), [
    ("deepseek-v4", {}, "W128/64 W128/64 A/256 W8/4 W128/8"),
    ("deepseek-v4", MTP, "W128/64 W128/64e A/256 W8/4 W128/8"),
    ("deepseek-v4", {"block_size": 512}, "W128/64 W128/64 A/512 W8/4 W128/8"),
    ("deepseek-v4-pro", {}, "W128/64 W128/64 A/256 W128/8 W8/4"),
    ("glm-5", {}, ""),
])  # fmt: skip
def test_a_model_with_compressed_rows_has_the_groups_of_the_release(model, more, words):
    """vllm-project/vllm#42948 lists the five groups of a server."""
    assert " ".join(group.word for group in compressed_groups(options({"real_model": model, **more}))) == words


def test_a_block_that_the_kernels_do_not_take_is_refused():
    with pytest.raises(BadInput, match="a multiple of 256"):
        compressed_groups(options({"real_model": "deepseek-v4", "block_size": 64}))


@pytest.mark.parametrize(("model", "loaded"), [
    ("deepseek-ai/DeepSeek-V4-Flash", 768), ("zai-org/GLM-5", 960), ("deepseek-ai/DeepSeek-V3.2", 960),
    ("MiniMaxAI/MiniMax-M3", 896),
])  # fmt: skip
def test_a_prompt_sent_twice_is_found_in_whole_blocks_of_all_groups(capsys, model, loaded):
    line = f"vllm serve {model} --max-model-len 8192 --num-gpu-blocks-override 4000"
    assert main(["run", "P1020>1/P>1", "--server", line, "--json"]) == exits.HOLDS
    requests = json.loads(capsys.readouterr().out)["runs"][0]["requests"]
    assert [one["loaded"] for one in requests] == [0, loaded]


def test_a_configuration_file_stands_for_the_same_layers_as_the_name(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIGURATIONS["deepseek-v4"][1]))
    assert model_named(str(file), "vllm", files=True).model == model_named("deepseek-v4", "vllm").model


def test_layers_that_were_not_read_in_the_server_are_refused():
    with pytest.raises(BadInput, match="is not simulated"):
        model_named("hunyuan-v4", "vllm")
