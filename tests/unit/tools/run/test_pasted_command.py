"""The argument --server of commands."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.llama_cpp.flags import NEVER
from cachesim.engines.registry import ENGINES, present_name
from cachesim.tools.run.pasted_command import apply_pasted, model_of, read_pasted

VLLM = "vllm serve Qwen/Qwen3-8B --max-num-seqs 8 --port 80"
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 64, "hidden_size": 512, "max_position_embeddings": 4096,
}


def lines_of(capsys: pytest.CaptureFixture[str], *argv: str, code: int = exits.HOLDS) -> tuple[str, str]:
    """Run a command, and return its output and its notes."""
    assert main(list(argv)) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_run_takes_rule_set_model_and_options_from_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = lines_of(capsys, "run", "A60/A", "--server", VLLM)
    assert "AAAA  vllm@0.33.0" in out and "--max-num-seqs 8" in out
    assert "model Qwen/Qwen3-8B: no file of it is here, taken from its name" in err
    assert "ignored, without an effect on the cache: --port" in err


def test_arguments_of_the_command_take_precedence(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = lines_of(capsys, "run", "A60/A", "--server", VLLM, "-p", "vllm@0.30.0", "--model", "GA",
                        "--set", "max_num_seqs=4")  # fmt: skip
    assert "GA  vllm@0.30.0" in out and "--max-num-seqs 4" in out and "taken from its name" not in err


@pytest.mark.parametrize("command", [
    ("why", "A6/A", "1"), ("diff", "A6/A", "-p", "vllm@0.33.0", "-p", "vllm@0.30.0"), ("advise", "A6/A"),
    ("fuzz", "--examples", "1"), ("bisect", "A6"),
])  # fmt: skip
def test_other_commands_take_it_too(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    _, err = lines_of(capsys, *command, "--server", VLLM)
    assert "--server: vllm@0.33.0, max_num_seqs=8" in err


def test_import_takes_the_layers_of_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "llama-server -m Qwen3-8B.gguf -c 4096 --host h"
    log = tmp_path / "server.log"
    log.write_text("slot launch_slot_: id  0 | task 0 | processing task\n")
    out, err = lines_of(capsys, "import", str(log), "--server", line)
    assert "--server: llama_cpp@b11549, ctx_size=4096" in err
    assert "llama_cpp@b11549 (given), model AAAA@36864/0" in out


def test_memory_takes_the_model_and_the_arguments_of_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    line = "vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp8 --max-model-len 4096"
    out, err = lines_of(capsys, "memory", "--server", line, "--memory", "8GiB")
    assert "Qwen3-8B under vllm@0.33.0 --kv-cache-dtype fp8 --max-model-len 4096" in out
    assert "kv_cache_dtype=fp8" in err


def test_memory_refuses_the_sizes_of_a_sibling(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = lines_of(capsys, "memory", "--server", "vllm serve Qwen/Qwen3.6-9B", code=exits.BAD_INPUT)
    assert "the model 'Qwen/Qwen3.6-9B' of the command line is unknown" in err
    _, err = lines_of(capsys, "memory", code=exits.BAD_INPUT)
    assert "required: MODEL" in err


def test_a_model_may_be_named_beside_a_shell_variable(capsys: pytest.CaptureFixture[str]) -> None:
    line = 'vllm serve "$M" --max-model-len ${L:-4096}'
    out, err = lines_of(capsys, "run", "A60/A", "--server", line, "--model", "GA")
    assert "GA  vllm@0.33.0" in out and "max_model_len=4096" in err
    assert "assumed not to be set, so that the default in the command line holds: L" in err


def test_a_shell_variable_may_stand_for_the_folder_of_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = lines_of(capsys, "run", "A60/A", "--server", "llama-server -m $MODELS/Qwen3-8B-Q4_K_M.gguf")
    assert "taken from its name" in err and "AAAA@36864/0  llama_cpp@b11549" in out


def test_layers_are_read_from_a_file_that_is_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    out, err = lines_of(capsys, "run", "A60/A", "--server", f"vllm serve {tmp_path}")
    assert f"layers read from {tmp_path / 'config.json'}" in err and "vllm@0.33.0" in out


def test_the_layers_of_a_draft_model_are_read_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 1}))
    line = f"mlx_lm.server --model Qwen/Qwen3-8B --draft-model {tmp_path}"
    out, _ = lines_of(capsys, "run", "A60/B9", "--server", line, code=exits.BROKEN)
    assert "set: --draft-model A" in out


@pytest.mark.parametrize(("line", "message"), [
    ("", "expected"), (" ", "the command line is empty"), ("[]", "the command line is empty"),
    ("ollama serve", "no known server in the command line: 'ollama'"),
    ("--max-num-seqs 8", "does not name a program"),
    ("vllm serve M", "the model 'M' of the command line is unknown, and no file of it is here (--model MODEL"),
    ("vllm serve 'M", "character 12: this quotation mark has no end"),
    ("vllm serve M (x", "character 14: '(' is shell syntax"),
    ("vllm serve M --max-model-len $LEN", "character 30: the value of '--max-model-len' is a shell variable"),
    ("vllm serve $M", "character 12: the model is a shell variable (put its value there, or add --model MODEL)"),
    ("vllm serve M --speculative-config '{\"method\"'", "character 35: flag '--speculative-config': broken"),
    ("vllm serve M --max-model-len 8q", "flag '--max-model-len': expected an integer such as 8192 or 32k"),
    ("vllm serve Qwen3-8B --block-size 0", "block_size is 0"),
    ("vllm serve M --scheduling-policy x", "not simulated, and may change what is reused: --scheduling-policy 'x'"),
    ("llama-server -m M.gguf -fmoe", "llama_cpp@b11549 (ik_llama has it: -p ik_llama)"),
    ("vllm serve \x1b[31mM", "is unknown"), ("vllm serve " + "M" * 30_000, "characters, at most 20,000"),
])  # fmt: skip
def test_hostile_or_incomplete_text_is_one_line_and_exit_code_2(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not line:
        lines_of(capsys, "run", "A60/A", "--server", line)
        return
    _, err = lines_of(capsys, "run", "A60/A", "--server", line, code=exits.BAD_INPUT)
    assert message in err.splitlines()[-1] and "\x1b" not in err


def test_a_rule_set_of_another_engine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = lines_of(capsys, "run", "A60/A", "--server", VLLM, "-p", "llama_cpp", code=exits.BAD_INPUT)
    assert "--server starts vllm, but -p names llama_cpp" in err


def test_a_flag_that_the_chosen_release_lacks_is_refused_with_its_name_there(
    capsys: pytest.CaptureFixture[str]
) -> None:
    line = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --mamba-scheduler-strategy extra_buffer"
    _, err = lines_of(capsys, "run", "A60/A", "--server", line, "-p", "sglang@0.5.23", code=exits.BAD_INPUT)
    assert ("sglang@0.5.23 has no flag '--mamba-scheduler-strategy' (0.5.23 has --mamba-radix-cache-strategy)") in err


@pytest.mark.parametrize(("profile", "flag", "name"), [
    ("vllm@0.30.0", "--enable-mamba-shared-prefix-checkpoint", "--enable-mamba-fine-grained-prefix-cache"),
    ("vllm@0.33.0", "--enable-mamba-fine-grained-prefix-cache", "--enable-mamba-shared-prefix-checkpoint"),
    ("llama_cpp@b11549", "--draft-max 4", "--spec-draft-n-max"), ("llama_cpp@b11549", "--no-mmap", "--load-mode"),
])  # fmt: skip
def test_a_renamed_flag_is_refused_with_its_name_in_the_chosen_release(profile: str, flag: str, name: str) -> None:
    program = "vllm serve M" if profile.startswith("vllm") else "llama-server -m M"
    with pytest.raises(BadInput) as caught:
        read_pasted(f"{program} {flag}", [profile])
    release = profile.partition("@")[2]
    assert f"{profile} has no flag '{flag.partition(' ')[0]}'" in caught.value.cause
    assert caught.value.hint == f"{release} has {name}"


def test_without_a_rule_set_the_newest_release_with_all_flags_is_simulated() -> None:
    found = read_pasted("python -m sglang.launch_server --model-path M --mamba-scheduler-strategy no_buffer", [])
    assert found.profile == "sglang@0.5.9"
    assert found.notes == ("command line at character 47: sglang@0.5.23 has no flag '--mamba-scheduler-strategy' "
                           "(0.5.23 has --mamba-radix-cache-strategy): sglang@0.5.9 is simulated (-p chooses)",
                           )  # fmt: skip
    assert read_pasted("vllm serve M --calculate-kv-scales", []).profile == "vllm@0.27.1"
    assert read_pasted("llama-server -m M -fa -c 8", []).profile == "llama_cpp@b6160"
    assert read_pasted("llama-server -m M -fa on -c 8", []).profile == "llama_cpp@b11549"


def test_a_rule_set_between_two_compared_releases_has_the_arguments_of_both() -> None:
    found = read_pasted("llama-server -m M --ctx-checkpoints 4 -cpent 9", ["llama_cpp@b8260"])
    assert found.command.options == {"ctx_checkpoints": 4, "checkpoint_min_step": 9}
    assert found.notes == ("arguments of llama_cpp@b8260 were not compared: read as those of llama_cpp@b8156 and "
                           "llama_cpp@b8352",)  # fmt: skip


@pytest.mark.parametrize(("flags", "profile", "options"), [
    ("-cpent 128", "b9294", {"checkpoint_min_step": 128}),
    ("--checkpoint-every-n-tokens -1", "b9294", {"checkpoint_min_step": NEVER}),
    ("--no-clear-idle -np 2", "b8672", {"cache_idle_slots": False, "parallel": 2}),
    ("--clear-idle", "b8672", {"cache_idle_slots": True}),
    ("--spec-type ngram-mod --spec-ngram-size-n 24 --draft-min 48 --draft-max 64", "b8929",
     {"spec_type": "ngram-mod", "spec_draft_n_max": 64}),
    ("--spec-ngram-check-rate 3", "b7964", {}),
    ("--spec-draft-replace a b --ctx-checkpoints 3", "b9093", {"ctx_checkpoints": 3}),
])  # fmt: skip
def test_flags_that_a_few_builds_had_choose_the_newest_of_them(flags: str, profile: str, options: dict) -> None:
    found = read_pasted(f"llama-server -m M {flags}", [])
    assert found.command.options == options
    assert f"llama_cpp@{profile} is simulated (-p chooses)" in found.notes[0]


def test_a_fork_is_told_by_its_path_or_by_the_rule_set() -> None:
    line = "llama-server -m M -c 64"
    assert read_pasted(f"/src/ik_llama.cpp/build/bin/{line}", []).engine.name == "ik_llama"
    assert read_pasted(f"/src/llama.cpp/build/bin/{line}", []).engine.name == "llama_cpp"
    assert read_pasted(line, ["ik_llama@main"]).engine.name == "ik_llama"
    assert read_pasted("docker run ghcr.io/x/ik_llama.cpp:server -m M", []).engine.name == "ik_llama"


def test_flags_alone_belong_to_the_engine_of_the_rule_set() -> None:
    found = read_pasted("command:\n  - --max-num-seqs\n  - '8'", ["vllm@0.33.0"])
    assert found.command.options == {"max_num_seqs": 8}


@pytest.mark.parametrize(("config", "options", "needs"), [
    ('{"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": '
     '{"cpu_bytes_to_use": 1000, "blocks_per_chunk": 2, "eviction_policy": "arc"}}',
     {"blocks_per_chunk": 2, "eviction_policy": "arc"}, ["num_cpu_chunks"]),
    ('{"kv_connector": "OffloadingConnector"}', {}, ["num_cpu_chunks"]),
])  # fmt: skip
def test_cpu_offload_asks_for_the_number_of_its_chunks(config: str, options: dict[str, object], needs: list[str],
                                                       capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    line = f"vllm serve Qwen3-8B --kv-transfer-config '{config}'"
    command = read_pasted(line, []).command
    assert (command.options, [*command.needs]) == (options, needs)
    _, err = lines_of(capsys, "run", "A6", "--server", line, code=exits.BAD_INPUT)
    assert "--set num_cpu_chunks=VALUE" in err
    lines_of(capsys, "run", "A6", "--server", line, "--set", "num_cpu_chunks=64")


@pytest.mark.parametrize("config", [
    '{"kv_connector": "LMCacheConnectorV1"}', '{"kv_connector": null}', "{}",
    '{"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"spec_name": "X"}}',
    '{"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"other": 1}}',
])  # fmt: skip
def test_other_connectors_are_refused(config: str) -> None:
    with pytest.raises(BadInput, match="not simulated"):
        read_pasted(f"vllm serve M --kv-transfer-config '{config}'", [])


@pytest.mark.parametrize(("config", "options"), [
    ('{"method": "qwen3_next_mtp", "num_speculative_tokens": 2}', {"speculative_method": "mtp"}),
    ('{"method": "eagle3", "model": "x", "num_speculative_tokens": 2}', {"speculative_method": "eagle3"}),
    ('{"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4}', {"speculative_method": "ngram"}),
])  # fmt: skip
def test_the_speculative_config_is_read(config: str, options: dict[str, object]) -> None:
    found = read_pasted(f"vllm serve M --speculative-config '{config}'", []).command
    assert found.options == {**options, "num_speculative_tokens": 2}


@pytest.mark.parametrize("config", [
    '{"method": "suffix", "num_speculative_tokens": 2}', '{"method": ["mtp"], "num_speculative_tokens": 2}',
    '{"method": "mtp", "parallel_drafting": true}',
])  # fmt: skip
def test_other_drafters_are_refused(config: str) -> None:
    with pytest.raises(BadInput, match="not simulated"):
        read_pasted(f"vllm serve M --speculative-config '{config}'", [])


@pytest.mark.parametrize("config", ['[]', '{"num_speculative_tokens": 0}', '{"num_speculative_tokens": "2"}', "3"])
def test_a_broken_speculative_config_is_refused(config: str) -> None:
    with pytest.raises(BadInput, match="flag '--speculative-config'"):
        read_pasted(f"vllm serve M --speculative-config '{config}'", [])


@pytest.mark.parametrize(("arguments", "profiles", "option", "size"), [
    ("vllm serve M --attention-backend FLASHMLA", [], "block_size", 64),
    ("vllm serve M --attention-backend flashinfer_mla", [], "block_size", 32),
    ("vllm serve M --attention-backend CUTLASS_MLA --block-size 256", [], "block_size", 256),
    ("""vllm serve M --attention-config '{"backend": "CUTLASS_MLA"}'""", [], "block_size", 128),
    ("vllm serve M --attention-config.backend FLASHMLA", [], "block_size", 64),
    ("vllm serve M --attention-backend FLASHINFER", [], "block_size", None),
    ("sglang serve M --attention-backend flashmla --page-size 32", [], "page_size", 64),
    ("sglang serve M --page-size 32 --attention-backend trtllm_mla", [], "page_size", 32),
    ("sglang serve M --decode-attention-backend trtllm_mla", [], "page_size", 64),
    ("sglang serve M --prefill-attention-backend trtllm_mla", [], "page_size", None),
    ("sglang serve M --prefill-attention-backend trtllm_mha", [], "page_size", 64),
    ("sglang serve M --speculative-draft-attention-backend trtllm_mha", [], "page_size", 64),
    ("sglang serve M --attention-backend trtllm_mha --page-size 128", ["sglang@0.5.20"], "page_size", 128),
    ("sglang serve M --attention-backend trtllm_mha --page-size 128", ["sglang@0.5.9"], "page_size", 64),
    ("sglang serve M --attention-backend cutlass_mla", ["sglang@0.5.9"], "page_size", 128),
    ("sglang serve M --attention-backend fa3", [], "page_size", None),
])  # fmt: skip
def test_an_attention_backend_sets_the_tokens_of_a_block(
    arguments: str, profiles: list[str], option: str, size: int | None
) -> None:
    assert read_pasted(arguments, profiles).command.options.get(option) == size


def test_a_size_that_the_server_sets_is_noted_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    line = "sglang serve llama-3 --attention-backend trtllm_mha"
    note = "--page-size 64 (--attention-backend trtllm_mha takes 16 or 32 or 64 or 128)"
    assert read_pasted(line, []).command.derived == [note]
    out, notes = lines_of(capsys, "run", "A100/A.B20", "--server", line)
    assert "--page-size 64" in out
    assert f"set by the server: {note}" in notes


def test_a_backend_with_which_the_server_does_not_start_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        read_pasted("vllm serve M --attention-backend FLASHMLA --block-size 16", [])
    assert str(refused.value) == ("the server does not start: --attention-backend FLASHMLA needs --block-size in "
                                  "multiples of 64 (--block-size 64)")  # fmt: skip


@pytest.mark.parametrize(("flags", "page"), [
    ("--attention-backend ascend", 128), ("--device npu", 128), ("--device npu --attention-backend ascend", 128),
    ("--device npu --page-size 32", 32), ("--device musa", 64), ("--attention-backend intel_xpu --page-size 16", 128),
    ("--device cuda", None)])  # fmt: skip
def test_a_device_has_pages_of_its_own(flags: str, page: int | None) -> None:
    assert read_pasted(f"sglang serve M {flags}", []).command.options.get("page_size") == page


def test_pages_that_depend_on_the_device_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    line = "sglang serve Qwen3-8B --attention-backend fa4"
    assert "page_size" in read_pasted(line, []).command.needs
    args, _ = applied(line, capsys, profiles=[], model=None, settings=["page_size=128"])
    assert args["settings"][-1:] == ["page_size=128"]


@pytest.mark.parametrize(("flags", "options"), [
    ("--dtype float32", {"model_dtype": "float32"}), ("--dtype float8", None), ("--dtype bfloat16", {}),
    ("--distributed-executor-backend mp", {}),
    ("--distributed-executor-backend ray", {"async_scheduling": False}), ("--additional-config '{}'", {}),
    ("""--additional-config '{"gdn_prefill_backend": "triton"}'""", {}),
    ("""--additional-config '{"ascend_scheduler_config": {"enabled": true}}'""", None)])  # fmt: skip
def test_what_changes_blocks_or_steps_of_vllm_is_used_or_refused(flags: str, options: dict[str, bool] | None) -> None:
    if options is None:
        with pytest.raises(BadInput, match="not simulated, and may change what is reused"):
            read_pasted(f"vllm serve M {flags}", [])
    else:
        assert read_pasted(f"vllm serve M {flags}", []).command.options == options


def applied(command: str, capsys: pytest.CaptureFixture[str], **given: object) -> tuple[dict[str, object], list[str]]:
    """Return the arguments of a command after ``--server``, and the notes."""
    args = Namespace(pasted=command, **{"settings": [], **given})
    apply_pasted(args)
    return {name: value for name, value in vars(args).items() if name != "pasted"}, [
        line.removeprefix("cachesim: ") for line in capsys.readouterr().err.splitlines()]  # fmt: skip


def test_a_line_gives_what_the_arguments_lack_and_precedes_their_settings(capsys: pytest.CaptureFixture[str]) -> None:
    args, notes = applied("llama-server -m Qwen3-8B.gguf -c 4096 -np 2 --host h --port 1 --host g", capsys,
                          profiles=[], model=None, settings=["parallel=3"])  # fmt: skip
    assert args == {"profiles": [present_name("llama_cpp")], "model": "AAAA@36864/0",
                    "settings": ["n_ctx_train=40960", "ctx_size=4096", "parallel=2", "parallel=3"]}  # fmt: skip
    assert notes == [
        "model Qwen3-8B.gguf: no file of it is here, taken from its name",
        "qwen3 is AAAA: 36 layers, 36 with attention; a token: 147,456 bytes",
        f"no version is named: {present_name('llama_cpp')} is assumed (-p chooses)",
        f"--server: {present_name('llama_cpp')}, ctx_size=4096, parallel=2",
        "ignored, without an effect on the cache: --host, --port"]  # fmt: skip


def test_a_command_of_sizes_refuses_another_size_of_a_known_family() -> None:
    with pytest.raises(BadInput, match=r"the model 'Qwen3-0\.3B' of the command line is unknown"):
        model_of("Qwen3-0.3B", "llama_cpp", real=True)
    assert model_of("Qwen3-0.3B", "llama_cpp", real=False).model == "Qwen3-0.3B"


def test_a_draft_model_of_an_unknown_size_has_the_layers_of_its_family(capsys: pytest.CaptureFixture[str]) -> None:
    line = "llama-server -m Qwen3-8B.gguf -md Qwen3-0.3B.gguf"
    assert applied(line, capsys, profiles=[], model=None)[0]["settings"][-1] == "model_draft=AAAA"


@pytest.mark.parametrize(("build", "arguments", "context"), [
    ("b11549", "", "40960"), ("b11549", "--override-kv qwen3.context_length=int:131072", "131072"),
    ("b11549", "--override-kv a.b=bool:true,qwen3.context_length=int:65536", "65536"),
    ("b11549", "--rope-scaling yarn --rope-scale 4", "0"), ("b11549", "--rope-scaling none", "40960"),
    ("b10566", "--rope-scaling yarn --rope-scale 4", "40960"), ("b9713", "-c 8192 --rope-freq-scale 0.25", "40960"),
])  # fmt: skip
def test_the_trained_context_is_that_of_the_line(
    capsys: pytest.CaptureFixture[str], build: str, arguments: str, context: str
) -> None:
    """YaRN changes it from #28030 on, which b10809 has and b10566 has not; 0 = not known."""
    line = f"llama-server -m Qwen3-8B.gguf {arguments}"
    args, _ = applied(line, capsys, profiles=[f"llama_cpp@{build}"], model=None)
    assert dict(one.split("=") for one in args["settings"])["n_ctx_train"] == context


def test_a_line_keeps_the_rule_set_and_the_model_of_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    line = "llama-server -m Qwen3-8B.gguf --no-cache-prompt"
    for given in ({"profiles": ["llama_cpp@b9713"], "models": ["GA"]}, {"profile": "llama_cpp@b9713", "model": "GA"},
                  {"profile": "llama_cpp@b9713"}):  # fmt: skip
        args, notes = applied(line, capsys, **given)
        assert args == {**given, "settings": ["cache_prompt=false"]}
        assert notes == ["--server: llama_cpp@b9713, cache_prompt=false"]


def test_a_command_with_a_single_rule_set_or_without_one_takes_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    newest = present_name("vllm")
    assert applied(VLLM, capsys, profile="")[0] == {"profile": newest, "settings": ["max_num_seqs=8"]}
    assert applied(VLLM, capsys)[0] == {"settings": ["max_num_seqs=8"]}


def test_a_line_without_a_model_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    args, notes = applied("mlx_lm.server", capsys, profiles=[], model=None)
    assert args == {"profiles": [present_name("mlx_lm")], "model": None, "settings": []}
    assert notes == ["--server: the command line names no model; --model names one",
                     f"no version is named: {present_name('mlx_lm')} is assumed (-p chooses)",
                     f"--server: {present_name('mlx_lm')}, no option that is simulated"]  # fmt: skip


def test_conversations_are_drawn_for_the_model_of_the_line_if_the_engine_has_some(
    capsys: pytest.CaptureFixture[str]
) -> None:
    args, notes = applied("mlx_lm.server --model qwen3-next", capsys, profiles=[], models=None)
    assert args["models"] == ["GGGA"] and notes[1].startswith("qwen3-next is GGGA: 48 layers")
    args, notes = applied("mlx_lm.server --model GA", capsys, profiles=[], models=["S"])
    assert args["models"] == ["S"] and len(notes) == 2
    args, notes = applied("mlx_lm.server --model falcon-h1", capsys, profiles=[], models=None)
    assert args["models"] is None
    assert notes[2] == "no conversations are drawn for HH: A, AA, W8 A, W8 W8, GA, GGGA, S, CA, H, W8 G are"


def test_a_command_of_sizes_takes_the_names_of_both_models(capsys: pytest.CaptureFixture[str]) -> None:
    line = "llama-server -m /m/Qwen3.5-9B-Q4_K_M.gguf -md Qwen3.5-0.8B.gguf -ctkd q8_0 --cache-ram 9"
    sized = {"profiles": [], "model": None}
    args, notes = applied(line, capsys, **sized, draft="")
    assert (args["model"], args["draft"]) == ("Qwen3.5-9B-Q4_K_M", "Qwen3.5-0.8B")
    assert args["settings"] == ["cache_type_k_draft=q8_0", "cache_ram=9"]
    assert notes[0] == "model /m/Qwen3.5-9B-Q4_K_M.gguf: no file of it is here, taken from its name"
    assert applied(line, capsys, **sized, draft="A")[0]["draft"] == "A"
    assert applied("vllm serve Qwen3-8B", capsys, **sized, sizes=False)[0]["model"] == "Qwen3-8B"


def test_an_option_that_the_line_needs_may_be_among_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    line = """vllm serve --kv-transfer-config '{"kv_connector": "OffloadingConnector"}'"""
    with pytest.raises(BadInput) as refused:
        applied(line, capsys, profiles=[], settings=["max_num_seqs=8"])
    assert refused.value.hint == "--set num_cpu_chunks=VALUE"
    for setting in ("num_cpu_chunks=64", "--num-cpu-chunks=64"):
        assert applied(line, capsys, profiles=[], settings=[setting])[0]["settings"][-1] == setting


def test_each_kind_of_unread_argument_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, notes = applied("VLLM_B=2 VLLM_A=1 numactl -N 0 vllm serve ${M:-GA} --port ${P:-8} --cpu-offload-gb 4 "
                       "--attention-backend X", capsys, profiles=["vllm@0.33.0"], model="GA")  # fmt: skip
    assert notes == [
        "--server: vllm@0.33.0, no option that is simulated",
        "assumed not to be set, so that the default in the command line holds: M",
        "ignored, without an effect on the cache: --port",
        "not simulated, and assumed not to matter here: --attention-backend X",
        "device_memory is not given: max_num_batched_tokens 2048, as on a device of less than 70 GiB (--set "
        "device_memory=GIB)",
        "change the size of the pool, which is not derived from them: --cpu-offload-gb (--set num_gpu_blocks=N)",
        "not read, before the program: numactl, -N, 0",
        "environment variables that are not read: VLLM_B, VLLM_A",
        "max_model_len is not given, and the length of the model is not known: no request is too long"]  # fmt: skip
    _, notes = applied("vllm serve --num-gpu-blocks-override 8 --cpu-offload-gb 4", capsys, profiles=["vllm@0.33.0"],
                       settings=["device_memory=80", "max_model_len=99", "block_size=16"])  # fmt: skip
    assert notes == ["--server: vllm@0.33.0, num_gpu_blocks=8"]


def test_rule_sets_outside_the_compared_releases_are_read_as_their_neighbours(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_as(profile: str) -> tuple[str, ...]:
        return read_pasted(f"{'sglang serve' if 'sglang' in profile else 'llama-server -m'} M", [profile]).notes

    assert read_as("llama_cpp@b5735") == (
        "arguments of llama_cpp@b5735 were not compared: read as those of llama_cpp@b5833",)  # fmt: skip
    assert read_as("sglang@before-17061") == ()               # beside a compared one
    line = ("sglang@0.5.9", "sglang@before-17061", "sglang@0.5.20")
    engines = {"sglang": replace(ENGINES["sglang"], beside={}, line=line)}
    monkeypatch.setattr("cachesim.tools.run.pasted_command.ENGINES", engines)
    assert read_as("sglang@before-17061") == (
        "arguments of sglang@before-17061 were not compared: read as those of sglang@0.5.9 and sglang@0.5.20",)
    assert read_as("sglang@before-27038") == (                # without a place: read as the newest with one
        "arguments of sglang@before-27038 were not compared: read as those of sglang@0.5.20 and sglang@0.5.21",)


def test_each_of_several_rule_sets_must_have_the_arguments() -> None:
    line = "llama-server -m M --ctx-checkpoints 4"
    found = read_pasted(line, ["llama_cpp@b9713", "llama_cpp@b8260"])
    assert found.profile == "llama_cpp@b9713" and len(found.notes) == 1
    with pytest.raises(BadInput, match="llama_cpp@b5833 has no flag '--ctx-checkpoints'"):
        read_pasted(line, ["llama_cpp@b9713", "llama_cpp@b5833"])


def test_a_known_model_that_an_engine_lacks_has_the_reason_and_another_is_unknown() -> None:
    for engine, message in {
        "sglang": "sglang: model 'hy4-preview' is not simulated: its layers have attention to the best rows "
                  "(--model MODEL)",
        "mlx_lm": "mlx_lm: model 'hy4-preview' is not simulated: mlx-lm 0.32.2 has no mlx_lm/models/hy_v4.py "
                  "(--model MODEL)",
    }.items():  # fmt: skip
        with pytest.raises(BadInput) as refused:
            model_of("tencent/hy4-preview", engine, real=False)
        assert str(refused.value) == message
    with pytest.raises(BadInput) as refused:
        model_of("mamba-2", "ik_llama", real=False)
    assert str(refused.value) == "ik_llama has no model 'mamba-2' (its models: cachesim options ik_llama)"
    with pytest.raises(BadInput) as refused:
        model_of("nothing/M", "vllm", real=False)
    assert str(refused.value) == ("the model 'nothing/M' of the command line is unknown, and no file of it is here "
                                  "(--model MODEL, layers such as GGGA, or a known name)")  # fmt: skip


def test_of_several_containers_the_first_that_starts_a_server_is_read():
    services = ["  cache:\n    image: redis\n    command: redis-server --port 1\n",
                "  model:\n    image: x\n    command: llama-server -m M -c 8\n",
                "  other:\n    image: x\n    command: llama-server -m M -c 9\n"]  # fmt: skip
    for order in ((0, 1, 2), (1, 0, 2)):
        found = read_pasted("services:\n" + "".join(services[i] for i in order), ["llama_cpp@b10587"])
        assert found.command.options == {"ctx_size": 8}
    with pytest.raises(BadInput, match="no known server in the command line: 'redis-server'"):
        read_pasted("services:\n" + services[0], [])


SGLANG = "python3 -m sglang.launch_server --model-path M"
COMPOSE = "services:\n  a:\n    image: {}\n    command: {}\n"
CHART = "image:\n  repository: vllm/vllm-openai\n  tag: v0.31.0\nargs:\n  - --model\n  - M\n"


@pytest.mark.parametrize(("text", "profile", "assumed"), [
    ("docker run --gpus all vllm/vllm-openai:v0.30.0 --model M", "vllm@0.30.0", False),
    ("docker run -p 8000:8000 vllm/vllm-openai:v0.31.0-cu129 --model M", "vllm@0.31.0", False),
    ("docker run vllm/vllm-openai:v0.28.0 --model M", "vllm@0.28.0", False),
    ("docker run vllm/vllm-openai:v0.26.0 --model M", "vllm@0.26.0", False),
    ("docker run vllm/vllm-openai:v0.10.2 --model M", "vllm@0.24.0", True),
    ("docker run vllm/vllm-openai:latest --model M", "vllm@0.33.0", True),
    (f"docker run lmsysorg/sglang:v0.5.9 {SGLANG}", "sglang@0.5.9", False),
    (f"docker run lmsysorg/sglang:v0.5.22-cu130 {SGLANG}", "sglang@0.5.22", False),
    (f"docker run lmsysorg/sglang:v0.5.24-cu130 {SGLANG}", "sglang@0.5.23", True),
    ("docker run ghcr.io/ggml-org/llama.cpp:server-cuda-b11549 -m M", "llama_cpp@b11549", False),
    ("docker run ghcr.io/ggml-org/llama.cpp:server-b9713 -m M", "llama_cpp@b9713", False),
    ("pip install vllm==0.32.0\nvllm serve M", "vllm@0.32.0", False),
    (COMPOSE.format("lmsysorg/sglang:v0.5.20", SGLANG), "sglang@0.5.20", False),
    ("FROM vllm/vllm-openai:v0.30.0\nCMD [\"--model\", \"M\"]\n", "vllm@0.30.0", False),
    (CHART, "vllm@0.31.0", False),
])  # fmt: skip
def test_a_version_that_the_text_names_is_simulated(text: str, profile: str, assumed: bool) -> None:
    found = read_pasted(text, [])
    assert found.profile == profile
    assert ("assumed" in found.notes[0]) is assumed


def test_a_rule_set_beside_a_named_version_is_simulated_and_the_difference_is_said() -> None:
    found = read_pasted("docker run vllm/vllm-openai:v0.30.0 --model M", ["vllm@0.33.0"])
    assert (found.profile, found.notes[:1]) == (
        "vllm@0.33.0", ("vllm/vllm-openai:v0.30.0 names vllm 0.30.0: -p vllm@0.33.0 is simulated",))


@pytest.mark.parametrize(("text", "profile"), [
    ("pip install vllm==0.30.0 && vllm serve GA", "vllm@0.30.0"), ("uvx vllm@0.31.0 serve GA", "vllm@0.31.0"),
    ("cd /x && . bin/activate; vllm serve GA && echo done", "vllm@0.33.0"),
    ("git clone https://github.com/vllm-project/vllm; cd vllm; git checkout v0.30.0; vllm serve GA", "vllm@0.30.0"),
    ("conda install vllm=0.31.0; vllm serve GA", "vllm@0.31.0"), ("vllm serve GA    # vLLM 0.32.0", "vllm@0.32.0"),
    ("bash -c 'pip install vllm-0.30.0+cu129-cp38-abi3-linux_x86_64.whl && vllm serve GA'", "vllm@0.30.0"),
    ("export SGLANG_VERSION=v0.5.9 && python3 -m sglang.launch_server --model-path GA", "sglang@0.5.9"),
])  # fmt: skip
def test_a_list_of_commands_starts_the_version_that_it_names(text: str, profile: str) -> None:
    found = read_pasted(text, [])
    assert (found.profile, found.command.model) == (profile, "GA")


@pytest.mark.parametrize(("text", "options"), [
    ("vllm serve Qwen/Qwen3-8B\nINFO 11-02 [kv_cache_utils.py:1147] GPU KV cache size: 320,576 tokens, Maximum "
     "concurrency for 40,960 tokens per request: 7.83x", {"kv_cache_size_tokens": 320576, "max_model_len": 40960}),
    ("vllm serve GA\n(EngineCore pid=7) INFO 11-02 [executor.py:9] # GPU blocks: 27839, # CPU blocks: 2048",
     {"num_gpu_blocks": 27839}),
    ("sglang serve --model-path GA\n[2026-11-01 10:00:00 TP0] max_total_num_tokens=432001, chunked_prefill_size=8192, "
     "max_prefill_tokens=16384, max_running_requests=2109, context_len=40960, available_gpu_mem=7.21 GB",
     {"max_total_tokens": 432001, "chunked_prefill_size": 8192, "max_running_requests": 2109, "context_len": 40960}),
])  # fmt: skip
def test_lines_of_the_log_state_the_sizes_of_the_server(text: str, options: dict[str, int]) -> None:
    found = read_pasted(text, []).command
    assert found.options == found.logged == options


def test_a_device_that_is_too_small_limits_the_assumed_pool(capsys: pytest.CaptureFixture[str]) -> None:
    line = "vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.5 --max-model-len 4096"
    out, _ = lines_of(capsys, "run", "P40>1/Q40>1", "--server", line, "--set", "device_memory=2")
    assert "assumed: --num-gpu-blocks-override 455, all of 2 GiB x 0.5" in out
    assert main(["run", "P40>1/Q40>1", "--server", line, "--set", "device_memory=2", "--json"]) == exits.HOLDS
    flags = json.loads(capsys.readouterr().out)["runs"][0]["flags"]
    assert (flags["assumed"], flags["assumed_cap"]) == (["--num-gpu-blocks-override 455"], "2 GiB x 0.5")


@pytest.mark.parametrize(("tag", "differs"), [("v0.6.6.post1", True), ("v0.8.0", False), ("v0.26.0", False)])
def test_a_release_before_the_rule_sets_names_what_they_do_not_have(tag, differs):
    said = " ".join(read_pasted(f"docker run vllm/vllm-openai:{tag} --model Qwen/Qwen3-8B", []).notes)
    assert ("prefixes are reused only with --enable-prefix-caching" in said) is differs
