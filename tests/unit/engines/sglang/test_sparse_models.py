"""Pages and pools of models that choose or compress rows; the released scheduler is compared in tests/peers."""

from __future__ import annotations

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.shared.newest_sizes import CONFIGURATIONS
from cachesim.scenarios.option_checks import model_named

SERVER = "python -m sglang.launch_server --model-path {} {}"


@pytest.mark.parametrize(("model", "flags", "loaded"), [
    ("deepseek-ai/DeepSeek-V4-Flash", "", 768), ("deepseek-ai/DeepSeek-V4-Flash", "--page-size 64", 768),
    ("deepseek-ai/DeepSeek-V3.2", "--page-size 1", 960), ("zai-org/GLM-5.1", "", 960),
    ("MiniMaxAI/MiniMax-M3", "", 896), ("MiniMaxAI/MiniMax-M3", "--page-size 64", 960),
])  # fmt: skip
def test_a_prompt_sent_twice_is_found_in_pages_that_the_server_sets(capsys, model, flags, loaded):
    assert main(["run", "P1020>1/P>1", "--server", SERVER.format(model, flags), "--json"]) == exits.HOLDS
    requests = json.loads(capsys.readouterr().out)["runs"][0]["requests"]
    assert [one["loaded"] for one in requests] == [0, loaded]


def test_a_configuration_file_sets_the_same_options_as_the_name(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIGURATIONS["deepseek-v4"][1]))
    by_file, by_name = model_named(str(file), "sglang", files=True), model_named("deepseek-v4", "sglang")
    assert by_file.model == by_name.model == "W128 A"
    assert by_file.options == {**by_name.options, "real_model": str(file)}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("model", ["glm-5", "minimax-m3"])
def test_memory_by_the_name_of_a_model_is_derived(capsys, engine, model):
    assert main(["memory", model, "-p", engine, "--memory", "40GiB"]) == exits.HOLDS
    assert capsys.readouterr().out.startswith("40.0 GiB hold ")


@pytest.mark.parametrize("command", [
    ["memory", "deepseek-v4", "-p", "sglang", "--memory", "40GiB"],
    ["run", "P9>1", "-p", "sglang@0.5.19", "--model", "deepseek-v4", "--set", "pool_gib=40"],
])  # fmt: skip
def test_memory_that_is_not_derived_is_refused(capsys, command):
    """`memory` lists pools by slots of whole bytes; releases before 0.5.20 were not compared."""
    assert main(command) == exits.BAD_INPUT
    assert capsys.readouterr().err.splitlines()[-1].startswith("cachesim: sglang: ")
