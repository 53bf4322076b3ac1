"""``cachesim memory``: totals, flags in the servers' spelling, what fits, and what to lower."""

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.shared.model_sizes import known_sizes, real_model
from cachesim.tools.memory.command import prepared

GIB = 1 << 30


def told(capsys, line, code=exits.HOLDS):
    """The data of a command line."""
    assert main(["memory", *line.split(), "--json"]) == code
    return json.loads(capsys.readouterr().out)["memory"]


def one(capsys, line, code=exits.HOLDS):
    (found,) = told(capsys, line, code)
    return found


def parts(found):
    return {part["name"]: part["bytes"] for part in found["parts"]}


def test_the_total_is_the_sum_of_the_parts(capsys):
    found = one(capsys, "qwen3-next -c 65536 -np 2 -kvu --ctx-checkpoints 8 --cache-ram 1024")
    assert parts(found) == {"attention rows": 65536 * 24576, "states": 2 * 79036416, "checkpoints": 16 * 79037308,
                            "prompt cache": 1024 << 20}  # fmt: skip
    assert found["total"] == sum(parts(found).values())
    values = {"--ctx-size": 65536, "--parallel": 2, "--kv-unified": True, "--ctx-checkpoints": 8, "--cache-ram": 1024}
    assert {flag["flag"]: flag["value"] for flag in found["set"]} == values


def test_quantised_rows_and_drafts_count(capsys):
    found = one(capsys, "qwen3.5-27b -c 4096 -np 1 -ctk q8_0 --cache-type-v=q4_0 --spec-type draft-mtp -ctkd q8_0")
    assert parts(found)["attention rows"] == 4096 * 16 * 1024 // 32 * (34 + 18)
    assert parts(found)["draft: attention rows"] == 4096 * (1024 // 32 * 34 + 2048)
    assert parts(found)["states"] == 4 * 48 * 3268608


def test_a_draft_model_is_a_model_of_its_own(capsys):
    for line in ("-md gemma-3", "--draft gemma-3"):
        found = one(capsys, f"llama-3 -c 4096 -np 1 --spec-type draft-simple {line}")
        assert parts(found)["draft: window rows"] == 1024 * 22 * 1024


def test_without_a_limit_half_of_a_flag_is_shown_with_its_saving(capsys):
    found = one(capsys, "qwen3-next -np 4 -kvu")
    lower = {change["flag"]: (change["after"], change["total"], change["fits"]) for change in found["lower"]}
    assert lower["--ctx-checkpoints"] == (16, found["total"] - 64 * 79037308, None)
    assert [change["total"] for change in found["lower"]] == sorted(change["total"] for change in found["lower"])


def test_the_value_to_lower_to_is_the_largest_that_fits(capsys):
    found = one(capsys, "qwen3-next -np 4 -kvu --memory 16GiB", exits.BROKEN)
    first = found["lower"][0]
    assert (first["flag"], first["before"], first["fits"], found["together"]) == ("--ctx-checkpoints", 32, True, [])
    line = "qwen3-next -np 4 -kvu --memory 16GiB --ctx-checkpoints"
    assert one(capsys, f"{line} {first['after']}")["total"] == first["total"] <= 16 * GIB
    assert one(capsys, f"{line} {first['after'] + 1}", exits.BROKEN)["fits"] is False


def test_flags_are_combined_if_none_alone_is_enough(capsys):
    found = one(capsys, "qwen3.5-27b -p ik_llama -c 65536 --memory 8GiB", exits.BROKEN)
    assert not any(change["fits"] for change in found["lower"])
    values = " ".join(f"{change['flag']} {change['after']}" for change in found["together"])
    again = one(capsys, f"qwen3.5-27b -p ik_llama -c 65536 --memory 8GiB {values}")
    assert again["fits"] and again["total"] == found["together"][-1]["total"]


def test_an_unlimited_prompt_cache_never_fits_and_is_lowered_first(capsys):
    found = one(capsys, "qwen3-next -c 4096 --cache-ram -1 --memory 100GiB", exits.BROKEN)
    assert (found["fits"], found["unlimited"], found["lower"][0]["flag"]) == (False, "--cache-ram", "--cache-ram")
    assert found["lower"][0]["fits"] and one(capsys, "qwen3-next -c 4096 --cache-ram -1")["lower"][0]["after"] == 8192


def test_the_largest_context_that_fits_is_the_last_that_does(capsys):
    most = one(capsys, "llama-3 -c 4096 --memory 20GiB")["largest_context"]
    assert one(capsys, f"llama-3 -c {most} --memory 20GiB")["fits"]
    assert not one(capsys, f"llama-3 -c {most + 256} --memory 20GiB", exits.BROKEN)["fits"]
    context = real_model("llama-3").context
    assert one(capsys, "llama-3 -c 4096 --memory 4000GiB")["largest_context"] == context
    assert one(capsys, f"llama-3 -c {context} --memory 4000GiB")["largest_context"] == context


def test_pools_fill_the_room(capsys):
    blocks, slots = told(capsys, "llama-3 -p vllm -p sglang --memory 20GiB --kv-cache-dtype fp8_e4m3")
    assert blocks["pool"] == [{"name": "blocks", "number": 20480}, {"name": "tokens", "number": 327680}]
    assert slots["pool"] == [{"name": "slots of rows", "number": 327680}] and slots["fits"]


def test_a_conversation_has_a_length_where_no_flag_limits_it(capsys):
    found = one(capsys, "qwen3 -p mlx_lm --tokens 1000 --prompt-cache-size 3 --decode-concurrency 1 --memory 2GiB")
    assert found["total"] == 4 * 1024 * 36 * 4096 and found["pool"] == [{"name": "conversations", "number": 14}]


def test_a_number_of_blocks_is_enough_for_a_server_that_fills_its_memory(capsys):
    assert one(capsys, "llama-3 -p vllm --num-gpu-blocks-override 100")["total"] == 100 * 2097152
    assert one(capsys, "llama-3 -p sglang --max-total-tokens 1000")["total"] == 1000 * 131072


def test_recorded_sessions_cost_tokens_on_the_estimated_server(capsys):
    data = "--workload tests/workloads/data --scale 16"
    found = one(capsys, f"qwen3-next {data} -np 1 -c 65536 --cache-ram 64")
    cost = found["workload"]
    assert [sessions["number"] for sessions in cost["sessions"]] == [1, 2]
    assert cost["evaluated"] == cost["sessions"][-1]["evaluated"] >= cost["evaluated_unlimited"] > 0
    assert all(change["workload"]["answered"] == cost["answered"] == 12 for change in found["lower"])
    filled = one(capsys, f"qwen3-32b -p vllm --memory 2GiB {data}")
    assert filled["workload"]["answered"] == 12
    assert main(["memory", "qwen3-next", "--workload", "nowhere.json"]) == exits.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("model", ["gemma-4-31b", "qwen3.5", "Qwen/Qwen3.5-4B", "nemotron-3-nano"])
@pytest.mark.parametrize("engine", ["llama_cpp", "vllm", "sglang"])
def test_run_and_memory_know_the_same_models(capsys, model, engine):
    assert one(capsys, f"{model} -p {engine} --tokens 4096 --memory 4000GiB")["fits"]
    assert main(["run", "A4", "-p", engine, "--model", model]) == exits.HOLDS


def test_a_context_may_be_a_single_token(capsys):
    assert one(capsys, "llama-3 -p mlx_lm --tokens 1 --memory 4000GiB")["fits"]


@pytest.mark.parametrize(("line", "named"), [
    ("nosuch", "'nosuch'"), ("qwen3-next --memory 0GiB", "0GiB"), ("qwen3-next --memory nan", "nan"),
    ("qwen3-next --tokens 0", "--tokens"), ("qwen3-next -ctk q3", "'q3'"), ("qwen3-next -ctk", "'-ctk'"),
    ("mamba-2", "context"), ("qwen3-next -p nosuch", "nosuch"), ("llama-3.3-70b", "llama-3.3-70b"),
    ("qwen3-next -p vllm", "--memory 32GiB, or --num-gpu-blocks-override"), ("deepseek-v5", "deepseek-v5"),
    ("llama-3 -p sglang", "--memory 32GiB, or --max-total-tokens"),
    ("qwen3-next -p sglang --mamba-full-memory-ratio x", "'x'"),
    ("qwen3-next --memory 8GiB -p sglang --mamba-full-memory-ratio 0", "above 0"), ("qwen3 -np 65", "64"),
    ("mamba-2 -p ik_llama", "'mamba-2'"), ("glm-5 -p ik_llama -p llama_cpp", "'glm-5'"),
    ("hunyuan-v4 -p vllm --memory 64GiB", "vllm"), ("deepseek-v4 -p sglang --memory 64GiB", "sglang"),
    ("minimax-m3 -p mlx_lm --memory 64GiB", "mlx_lm"),
])  # fmt: skip
def test_bad_input_is_one_line(capsys, line, named):
    assert main(["memory", *line.split()]) == exits.BAD_INPUT
    error = capsys.readouterr().err
    assert named in error and error.count("\n") == 1


@pytest.mark.parametrize("line", [
    "qwen3-next --memory 16GiB -np 4 -kvu", "gpt-oss -p sglang --memory 20GiB", "qwen3-next",
    "qwen3.5-27b --memory 12GiB --cache-ram -1", "qwen3 -p mlx_lm --memory 9GiB",
])  # fmt: skip
def test_the_report_has_80_columns_and_begins_with_the_answer(capsys, line):
    main(["memory", *line.split()])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and "GiB" in lines[0]


@pytest.mark.parametrize(("words", "prepared_words"), [
    ("qwen3 -ctk q8_0", "qwen3 --set cache_type_k=q8_0"), ("qwen3 -ctk=q8_0", "qwen3 --set cache_type_k=q8_0"),
    ("qwen3 -p sglang -ctk q8_0", "qwen3 -p sglang -ctk q8_0"),                 # not a flag of this engine
    ("qwen3 -p llama_cpp@b11549 -md x", "qwen3 -p llama_cpp@b11549 --draft x"),
    ("qwen3 --profile vllm -md x", "qwen3 --profile vllm -md x"),
    ("qwen3 -p vllm --profile llama_cpp -md x", "qwen3 -p vllm --profile llama_cpp --draft x"),
    ("qwen3 -p nosuch -md x", "qwen3 -p nosuch --draft x"),                     # all engines: the error comes later
    ("--model vllm -ctk q8_0", "vllm --set cache_type_k=q8_0"),               # a folder of this name
    ("--model qwen3 -c 5", "qwen3 -c 5"), ("--model=qwen3", "qwen3"), ("-h -ctk", "-h -ctk"),
])  # fmt: skip
def test_flags_that_change_only_sizes_are_those_of_the_named_engines(words, prepared_words):
    assert prepared(words.split(), ()) == prepared_words.split()


def test_a_model_is_required_and_each_rule_set_is_estimated_once(capsys):
    assert main(["memory"]) == exits.BAD_INPUT and "MODEL" in capsys.readouterr().err
    assert main(["memory", "qwen3", "--gib", "2"]) == main(["memory", "qwen3", "--memory", "2GiB"])
    older, newer = capsys.readouterr().out.split("qwen3 under")[:2]
    assert older and newer
    found = told(capsys, "qwen3 -p llama_cpp@b9518 -p mlx_lm@0.32.2 -p llama_cpp@b9518")
    assert [estimate["profile"] for estimate in found] == ["llama_cpp@b9518", "mlx_lm@0.32.2"]
    found = told(capsys, "qwen3 -p sglang@0.5.20 -p llama_cpp@b9518 --memory 9GiB", exits.BROKEN)
    assert [estimate["fits"] for estimate in found] == [True, False]


def test_the_list_has_every_name_with_the_source_of_its_sizes(capsys):
    assert main(["memory", "--models", "--json"]) == exits.HOLDS
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)["models"]}
    assert list(listed) == known_sizes()
    assert listed["gemma-3-27b"]["repository"] == "google/gemma-3-27b-it"
    assert "convert_gemma3_weights.py" in listed["gemma-3-27b"]["compared"] and not listed["mamba-2"]["compared"]
    assert main(["memory", "--models"]) == exits.HOLDS
    assert "not verified" in capsys.readouterr().out
