"""Explanations of log lines: all cache lines of real logs are known, and their explanations refer to existing rules and
flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES
from cachesim.engines.shared.log_grammar import collapsed, pattern
from cachesim.tools.server_logs.lines.explanations import (
    explain_beginning,
    explain_joined,
    explain_line,
    explain_log,
    explain_text,
)
from cachesim.tools.server_logs.lines.recognise import engine_of_log, grammars, recognise

LOGS = Path(__file__).parents[5] / "shared" / "logs"
FULL = ("forcing full prompt re-processing due to lack of cache data (likely due to SWA or hybrid/recurrent memory, "
        "see https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055)")
LRU = "slot get_availabl: id  1 | task -1 | selected slot by LRU, t_last = -1\n"
CHECK = "I slot   operator(): id  2 | task 7 | checking checkpoint with [46260, 46261] against 43667..."
NOT_ABOUT_CACHES = ("Chat format", "graphs reused", "log_server_r", "print_timing: id 1 | task 169 |", "task 94 | ",
                    "statistics mtp", "2026-05-20 14:18:57 [DEBUG]")  # fmt: skip
ENGINE = {"ik-": "ik_llama", "mlxengine": "mlx_lm"}


@pytest.mark.parametrize("name", ["llama_cpp", "ik_llama", "mlx_lm", "vllm"])
def test_every_kind_of_line_has_a_meaning_and_every_rule_and_flag_exists(name):
    engine, grammar = ENGINES[name], ENGINES[name].log()
    assert {line.ev for line in grammar.lines} == set(grammar.meanings)
    prefixes = {prefix for meaning in grammar.meanings.values() for prefix in meaning.rules}
    assert [*engine.profiles]                    # iterating imports the rules
    assert all(any(rule.startswith(prefix) for rule in RULES) for prefix in prefixes)


@pytest.mark.parametrize("name", ["llama_cpp", "ik_llama", "mlx_lm", "vllm"])
def test_a_template_reads_what_it_writes(name):
    """Numbers inserted into a template are read back under their names, and no earlier template matches the line."""
    grammar = ENGINES[name].log()
    for line in grammar.lines:
        text = collapsed(line.template)
        for number, field in enumerate(pattern(line.template).groupindex, 3):
            text = text.replace("{" + field + "}", str(number), 1).replace("{" + field + ",}", str(number), 1)
        text = text.replace("{}", "x")
        read = grammar.read(text)
        assert read is not None and read.line.ev == line.ev, line
        if read.line is line:
            fields = [field for field in pattern(line.template).groupindex if field not in ("slot", "task")]
            assert set(fields) == set(read.numbers), line


@pytest.mark.parametrize("between", ["", " "])
def test_messages_whose_line_end_was_lost_are_explained_one_by_one(between):
    found = explain_joined(f"{CHECK}{between}{LRU.strip()}")
    assert found is not None and [kind["kind"] for kind in found["kinds"]] == ["ckpt_check", "slot_by_lru"]
    assert explain_joined(CHECK) is None and explain_joined("a word") is None


@pytest.mark.skipif(not LOGS.exists(), reason="../shared/logs is not there")
@pytest.mark.parametrize("file", sorted(LOGS.glob("*.log")), ids=lambda file: getattr(file, "stem", "none"))
def test_every_line_about_caches_of_a_real_log_is_known(file):
    lines = file.read_text("utf-8").splitlines()
    unknown = [line for line in lines if not recognise(line)]
    assert [line for line in unknown if not any(one in line for one in NOT_ABOUT_CACHES)] == []
    expected = next((name for start, name in ENGINE.items() if file.name.startswith(start)), "llama_cpp")
    assert engine_of_log(lines) == expected


def test_the_forced_full_evaluation_is_explained():
    found = explain_line(FULL)
    assert found is not None and found["engine"] == "llama_cpp" and found["also"] == ["ik_llama"]
    assert "n_past = 0" in found["says"] and found["causes"] and "-ctxcp" in found["flags"]
    assert any(rule.startswith("LC-CKPT-RESET") for rule in found["rules"])


def test_the_rules_of_an_engine_without_a_recorded_build_are_those_of_its_last_rule_set():
    found = explain_line("checkpoint rewind to 5 was refused; reprocessing from scratch")
    assert found is not None and (found["engine"], ENGINES["ik_llama"].newest) == ("ik_llama", "")
    assert {"IK-CKPT-PICK.POS-MAX", "IK-CKPT-RESUME.PROMPT-END"} <= {*found["rules"]}


def test_numbers_are_keyed_by_field_names():
    found = explain_line(CHECK)
    assert found is not None
    assert (found["slot"], found["task"]) == (2, 7)
    assert found["numbers"] == {"pos_min": 46260, "pos_max": 46261, "thold": 43667}


@pytest.mark.parametrize("line", ["", "hello", "checking checkpoint with", "\x1b[2J"])
def test_unknown_lines_are_not_explained(line):
    assert explain_line(line) is None


def test_a_log_is_explained_once_for_each_kind(tmp_path):
    file = tmp_path / "server.log"
    file.write_text("noise\n" + LRU * 3, "utf-8")
    data = explain_log(file)
    assert (data["engine"], data["lines"], data["known"]) == ("llama_cpp", 4, 3)
    assert [(one["kind"], one["line"], one["times"]) for one in data["kinds"]] == [("slot_by_lru", 2, 3)]


def test_utf_16_is_read(tmp_path):
    file = tmp_path / "server.log"
    file.write_text(LRU, "utf-16")
    assert explain_log(file)["known"] == 1


@pytest.mark.parametrize("text, what", [
    ("[TRT-LLM] [I] started", "TensorRT-LLM"), ("hello\nworld", "log"), ("", "log"), ("\x00\x01\x02" * 999, "log"),
])
def test_a_log_of_something_else(tmp_path, text, what):
    file = tmp_path / "other.log"
    file.write_text(text, "utf-8")
    with pytest.raises(BadInput, match=what):
        explain_log(file)


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing.log"):
        with pytest.raises(BadInput):
            explain_log(path)


def test_a_line_of_any_length_is_read(tmp_path):
    file = tmp_path / "long.log"
    file.write_text("x" * 1_000_000 + "\n" + LRU, "utf-8")
    assert explain_log(file)["lines"] == 2


def test_all_engines_have_a_log_grammar():
    assert set(grammars()) >= {"llama_cpp", "ik_llama", "mlx_lm", "vllm"}


SPELLINGS = [
    ("llama_cpp", "llama_kv_cache: size =  640.00 MiB (131072 cells,  10 layers,  4/1 seqs), K", "memory"),
    ("llama_cpp", "llama_kv_cache_unified: size =  160.00 MiB (  4096 cells,  40 layers,  1/ 1 seqs), K", "memory"),
    ("llama_cpp", "llama_kv_cache:      CUDA0 KV buffer size =    80.00 MiB", "memory_part"),
    ("llama_cpp", "slot print_timing: id  0 | task 5 | draft acceptance = 0.14583 (12345 accepted / 20000 generated)",
     "drafts"),
    ("llama_cpp", "slot print_timing: id  0 | task 5 | n_decoded =    102, tg =  11.77 t/s, tg_3s = 1", "generating"),
    ("llama_cpp", "slot update_slots: id  0 | task 9 | prompt tokenized, n_ctx_slot = 2048, n_keep = 0, "
                  "n_prompt_tokens = 49", "new_prompt"),
    ("llama_cpp", "srv    load_model: init: --clear-idle requires --kv-unified, disabling", "start_idle"),
    ("llama_cpp", "state_read_meta: failed to find available cells in kv cache", "pc_load_failed"),
    ("llama_cpp", "srv          load: failed to allocate memory for prompt cache state: std::bad_alloc", "pc_no_room"),
    ("llama_cpp", "slot load_slot_ch: id  1 | task 4 | truncated context checkpoint appendix in 'a.bin' - ignored",
     "ckpt_file_bad"),
    ("llama_cpp", "[1707123456] slot 0 : kv cache rm - [0, end)", "batch"),
    ("llama_cpp", "W find_slot: non-consecutive token position 79 after 7 for sequence 7 with 7 new tokens",
     "kv_gap"),
    ("llama_cpp", "srv    load_model: cache_reuse is not supported by multimodal, it will be disabled", "start_media"),
    ("llama_cpp", "srv    load_model: ctx_shift is not supported by multimodal, it will be disabled", "start_media"),
    ("llama_cpp", "srv    load_model: cache_reuse is not supported by this context, it will be disabled",
     "start_reuse"),
    ("llama_cpp", "slot process_mtmd: id  1 | task 4 | failed to decode mtmd chunk, idx = 36, res = 1", "media_failed"),
    ("llama_cpp", "slot   operator(): id  1 | task 4 | failed to process mtmd chunk, res = -1", "media_failed"),
    ("llama_cpp", "E failed to decode image", "media_failed"),
    ("llama_cpp", "slot launch_slot_: id  0 | task -1 | clearing cache for lora change. 2 loras -> 1 loras",
     "lora_clear"),
    ("mlx_lm", "2026-05-29 11:02:40  [INFO] [a model] Prompt processing progress: 6.0%", "progress_share"),
    ("ik_llama", 'INFO [                    init] new slot | tid="1" timestamp=2 id_slot=0 n_ctx_slot=32768', "server"),
    ("ik_llama", "batch_pending_prompt: cached sequence diverges at 12/40 and this model does not support partial "
                 "KV reuse - reprocessing from scratch", "full_reprocess"),
    ("ik_llama", "llama_new_context_with_model: KV self size  = 1166.63 MiB, c^KV (q8_0): 1166.63 MiB, x",
     "memory_part"),
    ("ik_llama", "prompt cache is disabled because this model has private state outside the generic KV cache",
     "no_cache"),
]  # fmt: skip
"""Lines as servers of many builds print them: with and without padding, with their prefixes."""


@pytest.mark.parametrize("engine, line, kind", SPELLINGS)
def test_other_spellings_are_known(engine, line, kind):
    assert [reading.read.line.ev for reading in recognise(line, (engine,))] == [kind]


@pytest.mark.parametrize("line", [
    'INFO [            update_slots] kv cache rm [p0, end) | tid="1" timestamp=2 id_slot=1 id_task=12 p0=35',
    '{"timestamp":2,"level":"INFO","function":"update_slots","message":"kv cache rm [p0, end)","slot_id":1,'
    '"task_id":12,"p0":35}',
])  # fmt: skip
@pytest.mark.parametrize("engine", ["llama_cpp", "ik_llama"])
def test_numbers_after_the_bar_take_precedence_over_names_in_the_text(engine, line):
    """llama-server of 2024 printed this form, too."""
    [reading] = recognise(line, (engine,))
    assert (reading.read.slot, reading.read.task, reading.read.numbers["p0"]) == (1, 12, 35)


def test_several_lines_are_explained_like_a_file(tmp_path):
    file = tmp_path / "server.log"
    file.write_text(LRU + CHECK + "\nunknown\n" + LRU, "utf-8")
    whole = explain_log(file)
    found = explain_text(file.read_text("utf-8"))
    assert {name for name in whole if whole[name] != found[name]} <= {"file"} and found["engine"] == "llama_cpp"
    with pytest.raises(BadInput):
        explain_text("unknown\n")
    with pytest.raises(BadInput, match="LMCache"):
        explain_text("LMCache INFO: Reqid: 0, Total tokens 12")


@pytest.mark.parametrize(("text", "kind"), [
    ("selected slot by LRU", "slot_by_lru"), ("selected slot by", None), ("no such line", None),
])  # fmt: skip
def test_the_beginning_of_a_single_kind_of_line_is_explained(text, kind):
    found = explain_beginning(text)
    assert (found and found["kind"]) == kind and (found is None or found["numbers"] == {})


def test_several_lines_have_counts_and_first_lines():
    found = explain_text(LRU + "unknown\n" + LRU + CHECK)
    assert [(kind["kind"], kind["line"], kind["times"]) for kind in found["kinds"]] == [
        ("slot_by_lru", 1, 2), ("ckpt_check", 4, 1)]
    assert (found["engine"], found["lines"], found["known"], found["file"]) == ("llama_cpp", 4, 3, "")


def test_a_very_long_line_is_read_up_to_a_limit():
    found = explain_line("x" * 100_000 + " selected slot by LRU, t_last = -1")
    assert found is None
