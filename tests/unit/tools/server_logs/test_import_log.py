"""Import of a log: the simulated numbers of the scenario are those of the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.limits import lift
from cachesim.cli.main import main
from cachesim.engines.shared.log_grammar import PromptHint
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.run.arguments import CaseOptions
from cachesim.tools.server_logs.command import log_case
from cachesim.tools.server_logs.import_log import LOOKED_AT, import_log
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.rebuild.prefix_trials import UNCACHED
from cachesim.tools.server_logs.rebuild.slot_contents import SlotText
from tests.unit.tools.server_logs.simulated_log import simulated_log

LOGS = Path(__file__).parents[5] / "shared" / "logs"
CACHED = Path(__file__).parent / "default_verbosity.log"      # b11549, -np 2 -kvu -c 2048 -b 64 -ub 16, a hybrid model
EVERYTHING = Path(__file__).parent / "verbosity_4.log"        # the same requests at -lv 4

PARALLEL = Path(__file__).parent / "parallel_slots.log"       # b11549, -np 3 -c 8192 -b 128 -ub 64, a hybrid model


def test_default_verbosity_is_enough_for_lengths_slots_and_prefixes():
    data, text = import_log(CACHED)
    assert (data["engine"], data["model"], data["agree"], data["differ"]) == ("llama_cpp", "GGGA", 7, 0)
    assert data["line"] == "A120>a5/A.B30>b4/C90>c4/D120>d6/D[:80].E80>e3/D[:80].F40>f4/G30>g4"
    assert [one["slot"] for one in data["requests"]] == [1, 1, 0, 1, 1, 1, 0]
    assert 'engine = "llama_cpp"' in text


def test_at_verbosity_4_the_tree_of_prefixes_is_known():
    data, _ = import_log(EVERYTHING)
    assert data["line"] == "A120>a5/A.B30>b4/C90>c4/A[:80].D40>d6/A[:80].E80>e3/A[:80].F40>f4/G30>g4"
    assert (data["agree"], data["differ"]) == (7, 0)
    assert data["server"] == {
        "parallel": 2, "batch_size": 64, "ubatch_size": 16, "kv_unified": True, "cache_ram": 8192,
        "ctx_checkpoints": 32, "checkpoint_min_step": 8192, "ctx_size": 2048,
        "slot_prompt_similarity": 0.1,
    }  # fmt: skip
    assert data["summary"]["from_nothing"] == [3, 4, 5] and data["missing"] == []


def test_overlapping_requests_are_sent_together():
    """Three clients with four turns each on three slots of a real server: waiting times are reconstructed, too."""
    data, _ = import_log(PARALLEL, ["llama_cpp@b11549"])
    assert (data["agree"], data["differ"]) == (12, 0)
    first, second, third, fourth, *_ = data["line"].split("/")
    assert "together" not in first and second.endswith("{together+12}")         # tasks 1 and 14, then 15 and 19
    assert third.endswith("{together}") and fourth.endswith("{together+3}")
    assert all(one["left_out"] == "" and one["assumed"] == "" for one in data["requests"])


def test_only_the_first_requests_of_a_long_log_are_simulated():
    lift({"log-requests": 9, "rebuilt": 5})
    data, _ = import_log(PARALLEL, ["llama_cpp@b11549"])
    assert (data["log_requests"], len(data["requests"]), data["agree"]) == (12, 5, 5)
    assert " 5 of 12 " in data["missing"][0] and "--limit rebuilt=N" in data["missing"][0]


def test_lines_of_another_server_are_counted_from_the_first(tmp_path):
    vllm = "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, " \
           "Waiting: 0 reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%"  # fmt: skip
    plain = CACHED.read_text("utf-8")
    at = len(plain.splitlines()) + 2
    data, _ = imported(tmp_path, f"{plain}something\n{vllm}\n{vllm}\n")
    [note] = [note for note in data["missing"] if "vllm" in note]
    assert " 2 lines " in note and f"line {at}" in note
    late = "something\n" * LOOKED_AT
    assert not [note for note in imported(tmp_path, f"{late}{plain}{vllm}\n")[0]["missing"] if "vllm" in note]


def test_json_lines_and_prefixes_are_ignored(tmp_path):
    plain = import_log(CACHED)[0]["line"]
    wrapped = tmp_path / "wrapped.log"
    lines = CACHED.read_text("utf-8").splitlines()
    wrapped.write_text("".join(json.dumps({"log": line + "\n"}) + "\n" for line in lines), "utf-8")
    assert import_log(wrapped)[0]["line"] == plain
    wrapped.write_text("".join(f"May 22 01:30:52 pc llama[7]: \x1b[33m{line}\x1b[0m\r\n" for line in lines), "utf-8")
    assert import_log(wrapped)[0]["line"] == plain


def test_the_file_runs_and_reuses_the_logged_tokens(tmp_path, capsys):
    out = tmp_path / "my-case.toml"
    assert main(["import", str(CACHED), "-q", "-o", str(out)]) == 0
    capsys.readouterr()
    assert load(out).title == "imported from default_verbosity.log"
    assert main(["run", str(out), "--json"]) in (0, 1)
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert [one["cache_n"] for one in run["requests"]] == [0, 116, 0, 0, 0, 0, 0]


def test_an_existing_file_is_not_overwritten(tmp_path, capsys):
    out = tmp_path / "case.toml"
    out.write_text("mine")
    assert main(["import", str(CACHED), "-o", str(out)]) == 2
    assert "the file exists" in capsys.readouterr().err and out.read_text() == "mine"
    assert main(["import", str(CACHED), "-q", "-o", str(out), "--force"]) == 0
    assert out.read_text() != "mine"


@pytest.mark.parametrize("cut", range(0, 58, 3))
def test_a_truncated_log_is_imported_or_refused(tmp_path, cut):
    """A log with a missing beginning or end can be imported or is refused with BadInput."""
    lines = CACHED.read_text("utf-8").splitlines(keepends=True)
    for part in (lines[cut:], lines[:cut]):
        file = tmp_path / "part.log"
        file.write_text("".join(part), "utf-8")
        try:
            data, _ = import_log(file, ["llama_cpp@b11549"], "GGGA")
        except BadInput:
            continue
        assert data["log_requests"] <= 8


@pytest.mark.parametrize("argv, what", [
    (["missing.log"], "no such file"), (["--set", "ubatch_size=16", "x"], "--set needs -p"),
])
def test_wrong_arguments_are_one_line(capsys, argv, what):
    assert main(["import", *argv]) == 2
    err = capsys.readouterr().err
    assert what in err and err.count("\n") == 1


@pytest.mark.long
def test_an_imported_log_is_drawn(tmp_path, capsys):
    picture = tmp_path / "x.svg"
    assert main(["import", str(CACHED), "--svg", str(picture), "-p", "llama_cpp@b11549", "--model", "GGGA", "-q"]) == 0
    assert picture.read_text("utf-8").startswith("<svg") and "7 of 7 requests" in capsys.readouterr().out
    assert main(["import", str(CACHED), str(PARALLEL), "--svg", str(picture)]) == 2
    assert "a picture can show one log only" in capsys.readouterr().err


def test_a_log_of_something_else_is_named(tmp_path, capsys):
    file = tmp_path / "other.log"
    file.write_text("[TRT-LLM] [I] Starting server\n")
    assert main(["import", str(file)]) == 2
    assert "log of unsupported software: TensorRT-LLM" in capsys.readouterr().err


def test_a_text_is_cut_and_continued():
    text = SlotText().append_word("A", 10).append_word("B", 5)
    assert (text.size, text.notation("B"), text.prefix(12).notation(), text.prefix(4).notation()) == (
        15, "A.B5", "A.B[:2]", "A[:4]")  # fmt: skip
    assert text.prefix(0).parts == () and text.prefix(99) == text


@pytest.mark.skipif(not LOGS.exists(), reason="../shared/logs is not there")
def test_a_real_log_is_reconstructed():
    """test_real_logs.py has the others, and what is in them."""
    data, _ = import_log(LOGS / "buun-2026-05-hybrid-42.log")
    assert (data["line"], data["agree"], data["differ"]) == ("A5663/A[:3433].B231>b1", 1, 0)
    assert not data["rejected"]


@pytest.mark.skipif(not LOGS.exists(), reason="../shared/logs is not there")
@pytest.mark.long
def test_prefixes_of_three_slots_are_taken_from_the_log():
    data, _ = import_log(LOGS / "llamacpp-b6992-gptoss-17118.log")
    assert [(one["slot"], one["n_tokens"], one["lcp"]) for one in data["requests"]] == [
        (0, 5752, 331), (1, 6325, 331), (3, 870, 333)]  # fmt: skip
    assert data["model"] == "G W128" and data["server"]["ctx_checkpoints"] == 8
    assert data["profile"] == "llama_cpp@b8152"   # the spelling ended before b8218; older ones lack such models
    assert data["rejected"] and {23} <= {row["line"] for row in data["contradicted"]}
    assert {row["line"] for row in data["contradicted"]}.isdisjoint({1, 2, 3})       # entries before the log


NEVER = "".join(f"slot {where}: id  0 | task {task} | {text}\n" for number in range(6) for where, task, text in (
    ("get_availabl", -1, "selected slot by LCP similarity, f_sim_best = 0.929 (> 0.100 thold), f_keep = 0.929"),
    ("launch_slot_", 9 * number + 9, "processing task, is_child = 0"),
    ("update_slots", 9 * number + 9, "new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 420"),
    ("update_slots", 9 * number + 9, "n_tokens = 390, memory_seq_rm [390, end)"),
    ("print_timing", 9 * number + 9, "prompt eval time = 9.00 ms / 30 tokens (1 ms per token)"),
    ("print_timing", 9 * number + 9, "eval time = 9.00 ms / 1 tokens (1 ms per token)"),
    ("release", 9 * number + 9, "stop processing: n_tokens = 420, truncated = 0")))  # fmt: skip
"""Impossible log: a recurrent state cannot be truncated."""


@pytest.mark.long
@pytest.mark.parametrize("sought", [5, 100_000])
def test_a_search_that_stops_early_reports_undecided_requests(tmp_path, capsys, sought):
    lift({"sought": sought})
    (file := tmp_path / "a.log").write_text(NEVER)
    data, _ = import_log(file, model="GGGA")
    differing = [one for one in data["requests"] if one["simulated"] != one["cache_n"]]
    assert differing
    code, stopped_early = main(["import", str(file), "--model", "GGGA", "--limit", f"sought={sought}"]), sought == 5
    assert (data["undecided"], data["differ"]) == ((len(differing), 0) if stopped_early else (0, len(differing)))
    assert {one["agrees"] for one in differing} == {None if stopped_early else False}
    told = [one for one in data["missing"] if "stopped early, after 5 work units" in one]
    assert (told and told[0].endswith("(--limit sought=N allows more)")) or not stopped_early
    out = " ".join(capsys.readouterr().out.split())
    assert "undecided: the search stopped early" in out if stopped_early else "simulation and log differ" in out
    assert code == (3 if stopped_early else 0)


def test_options_follow_from_steps_and_limits(tmp_path):
    lines = [f"slot get_availabl: id  {slot} | task -1 | selected slot by LRU, t_last = -1\n"
             "srv        update:  - cache state: 0 prompts, 0.000 MiB (limits: 8192.000 MiB, 1024 tokens, 9 est)\n"
             f"slot launch_slot_: id  {slot} | task {task} | processing task, is_child = 0\n"
             f"slot update_slots: id  {slot} | task {task} | new prompt, n_ctx_slot = 1024, n_keep = 0, "
             "task.n_tokens = 150\n"
             + "".join(f"slot update_slots: id  {slot} | task {task} | n_tokens = {at}, memory_seq_rm [{at}, end)\n"
                       for at in (0, 64, 128)) for slot, task in ((0, 1), (1, 9))]  # fmt: skip
    file = tmp_path / "server.log"
    file.write_text("".join(lines))
    server = import_log(file, ["llama_cpp@b11549"], "A")[0]["server"]
    assert (server["batch_size"], server["ctx_size"], server["kv_unified"]) == (64, 1024, True)


@pytest.fixture
def options_of(tmp_path):
    """Return the function from the lines of a log to the options of its server. Only the first candidate is tried."""

    def options(*lines):
        lift({"sought": 1})
        return imported(tmp_path, "\n".join(lines))[0]["server"]

    return options


LAUNCH = "slot launch_slot_: id  0 | task 1 | processing task, is_child = 0"
STATE = "srv        update:  - cache state: 0 prompts, 0.000 MiB (limits: 8192.000 MiB, 98304 tokens, 9 est)"


def prompt(n_tokens, *starts):
    """Return the lines of a prompt of the slot, with batches that begin at these tokens."""
    head = "slot update_slots: id  0 | task 1 |"
    return [LAUNCH, f"{head} new prompt, n_ctx_slot = 24576, n_keep = 0, task.n_tokens = {n_tokens}",
            *(f"{head} n_tokens = {at}, memory_seq_rm [{at}, end)" for at in starts)]  # fmt: skip


def test_the_shares_of_a_context_show_the_number_of_slots(options_of):
    found = options_of(STATE, *prompt(100, 0))
    assert (found["parallel"], found["ctx_size"]) == (4, 98304)


def test_a_line_about_an_idle_slot_shows_that_it_exists(options_of):
    idle = "slot process_sing: id  3 | task -1 | saving idle slot to prompt cache"
    assert options_of(idle, *prompt(100, 0))["parallel"] == 4


@pytest.mark.parametrize(("starts", "size"), [
    ((8253, 8267, 8779), None),          # a micro-batch before the last tokens: a batch is longer than that
    ((8271, 8779), None), ((2775, 8779), 6004), ((8253, 8271, 8779), 512), ((2048, 4096, 6144, 8192, 8267, 8779), 2048),
])  # fmt: skip
def test_a_step_before_the_last_tokens_shows_a_batch_size_only_if_a_batch_ends_there(options_of, starts, size):
    assert options_of(*prompt(8783, *starts)).get("batch_size") == size


def test_created_checkpoints_show_the_size_of_the_micro_batch():
    prompts = [PromptHint(300, 0, [280, 296]), PromptHint(400, 280, [300, 380])]
    assert grammars()["llama_cpp"].hints(prompts)["ubatch_size"][0] == 16


def test_the_case_of_a_log_states_whether_the_simulation_contradicts_it(tmp_path):
    text = (Path(__file__).parent / "excerpt.log").read_text("utf-8")
    for name, said in (("a.log", text), ("b.log", text.replace("against 1499", "against 1400"))):
        (tmp_path / name).write_text(said)
        facts = log_case(tmp_path / name, CaseOptions()).facts
        assert facts.is_refuted is (name == "b.log")


def test_a_build_that_does_not_load_the_model_is_skipped_or_named():
    log = Path(__file__).parent / "excerpt.log"
    _, text = import_log(log, ("llama_cpp@b4579", "llama_cpp@b9231"), "GGGA")[:2]
    assert "llama_cpp@b9231" in text
    data, text = import_log(log, ("llama_cpp@b4579",), "GGGA")[:2]
    assert text == "" and "model 'GGGA' (hybrid) cannot be loaded by llama_cpp@b4579" in " ".join(data["missing"])


def test_a_number_that_no_server_accepts_leaves_the_rest_of_the_report(tmp_path, capsys):
    lines = ["srv    load_model: initializing, n_slots = 4294967297, n_ctx_slot = 32768, kv_unified = 'true'",
             "slot launch_slot_: id  0 | task 0 | processing task",
             "slot update_slots: id  0 | task 0 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 420",
             "slot update_slots: id  0 | task 0 | n_tokens = 390, memory_seq_rm [390, end)"]  # fmt: skip
    (path := tmp_path / "a.log").write_text("\n".join(lines))
    data, text = import_log(path)
    assert (text, data["requests"], data["statements"] == []) == ("", [], False)
    assert "not simulated: server flag 'parallel' must be -1 or 1 to 64, not 4294967297" in data["missing"]
    assert main(["import", str(path), "-p", "llama_cpp@b11549", "--set", "parallel=100"]) == 2
    assert "'parallel' must be -1 or 1 to 64, not 100" in capsys.readouterr().err


def test_the_date_of_a_line_chooses_the_rule_set_if_its_spelling_does_not(tmp_path):
    stamp = "2026-02-07T10:54:35+01:00 host.server[14]: slot"
    lines = [f"{stamp} launch_slot_: id  2 | task 37 | processing task, is_child = 0",
             f"{stamp} update_slots: id  2 | task 37 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 40",
             f"{stamp} print_timing: id  2 | task 37 | prompt eval time = 9.00 ms / 40 tokens"]  # fmt: skip
    (file := tmp_path / "a.log").write_text("\n".join(lines))
    assert import_log(file)[0]["profile"] == "llama_cpp@2026-02-07"
    file.write_text("\n".join(line.partition(": ")[2] for line in lines))
    assert import_log(file)[0]["profile"] == DEFAULT_PROFILE


@pytest.mark.parametrize("model", ["A", "GGGA"])
def test_a_request_that_reused_nothing_without_a_reason_may_have_turned_the_cache_off(tmp_path, model):
    file = tmp_path / "a.log"
    file.write_text(simulated_log("A400>a2/A.a.B90>b2!/A.a.B.b.C80>c2", model))
    data, text = import_log(file)
    assert (data["agree"], data["differ"], data["rejected"]) == (3, 0, False)
    assert [UNCACHED in one["assumed"] for one in data["requests"]] == [False, True, False]
    assert "cache_prompt = false" in text


def test_a_server_that_names_the_reason_is_believed(tmp_path):
    file = tmp_path / "a.log"
    file.write_text(simulated_log("A400>a2/A[:200].B90>b2", "GGGA"))
    data, _ = import_log(file)
    assert (data["agree"], data["differ"]) == (2, 0)
    assert not any(UNCACHED in one["assumed"] for one in data["requests"])


def infill_log(path):
    """Return a log of two prompts on a hybrid model that share 398 tokens and reuse none."""
    done = f"srv  log_server_r: done request: POST {path} 10.8.0.6 200"
    head = "slot update_slots: id  0 | task {} | {}"
    return "\n".join([
        "slot launch_slot_: id  0 | task 7 | processing task, is_child = 0",
        head.format(7, "new prompt, n_ctx_slot = 32768, n_keep = 0, task.n_tokens = 400"),
        head.format(7, "n_tokens = 0, memory_seq_rm [0, end)"), done,
        "slot print_timing: id  0 | task 7 | prompt eval time = 9.00 ms / 400 tokens (1 ms per token)",
        "slot print_timing: id  0 | task 7 |        eval time = 0.00 ms /   1 tokens (1 ms per token)",
        "slot      release: id  0 | task 7 | stop processing: n_tokens = 400, truncated = 0",
        "slot launch_slot_: id  0 | task 14 | processing task, is_child = 0",
        head.format(14, "new prompt, n_ctx_slot = 32768, n_keep = 0, task.n_tokens = 1084"),
        head.format(14, "n_past = 398, slot.prompt.tokens.size() = 400, seq_id = 0, pos_min = 399, n_swa = 1"),
        head.format(14, "forcing full prompt re-processing due to lack of cache data"),
        head.format(14, "n_tokens = 0, memory_seq_rm [0, end)"),
    ])  # fmt: skip


def imported(tmp_path, text):
    path = tmp_path / "a.log"
    path.write_text(text)
    return import_log(path)


def test_requests_to_another_path_are_simulated_as_that_kind_of_task(tmp_path):
    data, text = imported(tmp_path, infill_log("/infill"))
    assert data["line"] == "A400>a1{task=infill}/A[:398].B686>b1{task=infill}"
    assert (data["agree"], data["differ"], data["assumed_options"]) == (2, 0, {})
    assert 'task = "infill"' in text
    assert all("infill request, as in all access lines of the log" in one["assumed"] for one in data["requests"])


def test_a_chat_without_a_checkpoint_needs_another_option(tmp_path):
    data, _ = imported(tmp_path, infill_log("/v1/chat/completions"))
    assert "task" not in data["line"]
    assert (data["agree"], data["assumed_options"]) == (2, {"ctx_checkpoints": 0})


def test_the_requests_of_a_log_with_several_kinds_are_taken_as_completions(tmp_path):
    chat = "srv  log_server_r: done request: POST /v1/chat/completions 10.8.0.6 200"
    data, _ = imported(tmp_path, f"{infill_log('/infill')}\n{chat}")
    assert "task" not in data["line"]


@pytest.mark.parametrize(("n_tokens", "starts", "size"), [
    (1512, (0, 1000, 1508), 1000), (1516, (0, 1000, 1512), 1000), (2004, (0, 1000, 2000), 1000), (700, (0,), None),
    (3000, (0, 2100), 2100), (516, (0, 512), None), (1028, (0, 512, 1024), None), (4, (0,), None),
    (2564, (0, 2048, 2560), 2048), (2600, (0, 2052, 2596), 2052), (1530, (0, 1017, 1526), 1024),
    (1530, (0, 1015, 1526), 1015), (1530, (0, 1016, 1526), 1024), (2052, (0, 2048), None), (2053, (0, 2049), 2049),
])  # fmt: skip
def test_the_longest_step_between_batches_shows_their_size(options_of, n_tokens, starts, size):
    """The server evaluates the last 4 tokens of a prompt in a batch of their own."""
    assert options_of(*prompt(n_tokens, *starts)).get("batch_size") == size
