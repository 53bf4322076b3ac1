"""Contents of logs without a request, with the line numbers of their values."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cachesim.base import exits, untrusted_files
from cachesim.cli.main import main
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines.recognise import engine_of_log, grammars, recognise
from cachesim.tools.server_logs.report import log_contents as module
from cachesim.tools.server_logs.report.log_contents import contents_report, log_contents
from tests.shared import ROOT
from tests.unit.tools.server_logs.report_sentences import EMPTY, happened

CACHE = """\
srv    load_model: prompt cache is enabled, size limit: 8192 MiB
srv        update:  - cache state: 1 prompts, 20.000 MiB (limits: 8192.000 MiB, 0 tokens, 30000 est)
srv        update:    - prompt 0x1:     900 tokens, checkpoints:  1,    20.000 MiB
srv         alloc:  - making room for prompt cache entry, removing oldest entry (size = 20.000 MiB)
srv        update:  - cache state: 2 prompts, 97.461 MiB (limits: 8192.000 MiB, 0 tokens, 346707 est)
srv        update:    - prompt 0x2:    1286 tokens, checkpoints:  1,    39.231 MiB
srv        update:    - prompt 0x3:    1261 tokens, checkpoints:  2,    58.230 MiB
slot create_check: id  1 | task 4 | created context checkpoint 2 of 8 (pos_min = 166, pos_max = 805, size = 15.008 MiB)
erasing old context checkpoint (pos_min = 16037, pos_max = 16037, size = 75.376 MiB)
0.01.000.000 W srv  load_model: an unknown warning of 3 things
srv  update_slots: a new kind of line
srv  log_server_r: done request: POST /v1/chat/completions 127.0.0.1 200
state_read_meta: failed to find available cells in kv cache
"""
OLLAMA = (
    'time=2026-06-03T14:21:06.039+02:00 level=DEBUG source=cache.go:151 msg="loading cache slot" id=0 '
    'cache=53 prompt=62 used=50 remaining=12\n'
    'time=2026-06-03T14:21:06.039+02:00 level=DEBUG source=cache.go:211 msg="evicting cache slot" id=1 '
    'inputs=640 used=2026-06-03T14:20:00\n'
    'time=2026-06-03T14:21:07.039+02:00 level=DEBUG source=cache.go:300 msg="context limit hit - '
    'shifting" id=0 limit=4096 input=4096 keep=4 discard=2046\n'
)
OLLAMA_MLX = (
    'time=2026-08-21T10:00:00.000+02:00 level=INFO source=prefix_cache.go:125 msg="cache hit" total=900 '
    'matched=700 cached=512 left=388\n'
    'time=2026-08-21T10:00:00.000+02:00 level=WARN source=prefix_cache.go:252 msg="failed to restore '
    'cache, freeing all caches" offset=512\n'
)
STUDIO_MLX = """\
2026-09-19 01:57:01 [DEBUG]
 [cache_wrapper][INFO]: Trimmed 41 tokens from the prompt cache
2026-09-19 01:57:07 [DEBUG]
 [cache_wrapper][WARNING]: Tried to trim '71' tokens from the prompt cache, but could not: Cache is not trimmable.
[coordinator][INFO]: Prompt cache restore: cached_tokens=17408 uncached_tokens=24 lifetime_efficiency=62.41%
cache_store: VLM prompt cache disk usage: used_mib=7244.8 cap_mib=166720.0 records=232 lifetime=model_load
"""
STUDIO = """\
[2025-07-19 20:33:33][DEBUG] Looking for non-prefix contiguous prompt sequences of size >= 256 to reuse from cache
Cache reuse summary: 939/940 of prompt (99%), 939 prefix, 0 non-prefix
Total prompt tokens: 940
Prompt tokens to decode: 1
"""


def contents(text):
    lines = text.splitlines()
    engine = engine_of_log(lines)
    return log_contents(read_session(engine, grammars()[engine], lines), grammars()[engine])


def imported(capsys, tmp_path, text, *argv):
    (tmp_path / "server.log").write_text(text, "utf-8")
    code = main(["import", str(tmp_path / "server.log"), *argv])
    return code, " ".join(capsys.readouterr().out.split())


def test_the_last_state_of_the_prompt_cache_counts():
    found = contents(CACHE)
    assert found["cache"]["line"] == 5 and found["cache"]["numbers"]["prompts"] == 2
    assert [(row["line"], row["numbers"]) for row in found["entries"]] == [
        (6, {"n_tokens": 1286, "checkpoints": 1, "mib": 39.231}),
        (7, {"n_tokens": 1261, "checkpoints": 2, "mib": 58.23})]  # fmt: skip
    evicted = [(row["line"], row["numbers"]["mib"], row["what"]) for row in found["evictions"]]
    assert evicted == [(4, 20.0, "size limit")]
    assert contents(CACHE.splitlines()[0])["cache"]["numbers"] == {"limit_mib": 8192}
    assert contents("slot release: id  0 | task 7 | stop processing: n_tokens = 5, truncated = 0")["cache"] is None


def test_a_word_in_place_of_a_number_is_left_out(capsys, tmp_path):
    text = CACHE.replace("39.231 MiB", "much MiB")
    assert contents(text)["entries"][0]["numbers"] == {"n_tokens": 1286, "checkpoints": 1}
    assert "1,286 tokens (line 6)" in imported(capsys, tmp_path, text, "-v")[1]


def test_checkpoints_are_listed_with_their_slots():
    found = contents(CACHE)["checkpoints"]
    assert [(row["line"], row["what"], row["slot"], row["task"], row["numbers"]["pos_max"]) for row in found] == [
        (8, "created", 1, 4, 805), (9, "erased", None, None, 16037)]


def test_warnings_are_quoted_and_unknown_lines_listed():
    found = contents(CACHE)
    assert [(row["line"], row["text"]) for row in found["warnings"]] == [
        (10, "an unknown warning of 3 things"), (13, "state_read_meta: failed to find available cells in kv cache")]
    assert [row["line"] for row in found["unknown"]] == [10, 11]       # not the HTTP access line


@pytest.mark.parametrize(("text", "name", "numbers"), [
    (OLLAMA, "Ollama's runner", {"ollama_slot": {"id": 0, "cache": 53, "prompt": 62, "used": 50, "remaining": 12}}),
    (OLLAMA_MLX, "Ollama's MLX runner", {"ollama_prefix": {"total": 900, "matched": 700, "cached": 512, "left": 388}}),
    (STUDIO_MLX, "LM Studio's mlx-engine", {"studio_trim": {"n_tokens": 41}, "studio_clear": {"n_tokens": 71},
                                            "disk": {"mib": 7244.8, "limit_mib": 166720.0}}),
    (STUDIO, "LM Studio's llama.cpp engine",
     {"studio_reused": {"cache_n": 939, "n_tokens": 940, "share": 99, "prefix": 939, "moved": 0}}),
])  # fmt: skip
def test_other_software_is_named_and_summarised(capsys, tmp_path, text, name, numbers):
    _, out = imported(capsys, tmp_path, text, "--json")
    [log] = json.loads(out)["logs"]
    assert log["contents"]["software"] == [name] and log["contents"]["only_others"]
    read = {one["what"]: one["numbers"] for one in log["statements"] if one["kind"] == "read"}
    assert numbers.items() <= read.items()
    assert f"Log of {name}, which is not simulated." in imported(capsys, tmp_path, text)[1]


def test_a_request_of_other_software_is_not_simulated(capsys, tmp_path):
    line = "[cache_wrapper][INFO]: Prompt cache: using 0/3968 tokens from cache\nPrompt processing progress: 25.0%\n"
    [log] = json.loads(imported(capsys, tmp_path, line, "--json")[1])["logs"]
    assert (log["line"], log["profile"], log["toml"], log["missing"]) == ("", "", "", [])
    code, out = imported(capsys, tmp_path, line)
    assert code == exits.UNDECIDED and "3,968" in out and "imulated under" not in out and "-lv 4" not in out


def test_progress_of_another_runner_is_not_that_of_an_engine_with_the_same_words():
    line = 'time=2026-08-19T19:41:28.630+02:00 level=INFO source=pipeline.go:200 msg="Prompt processing progress" '
    assert engine_of_log([f"{line}processed=489 total=490"]) == "mlx_lm" and engine_of_log([line]) is None
    verbose = "VERB [ update_slots] prompt processing progress | id_slot=0 n_past=512 n_ctx=4096 n_tokens=512"
    assert [one.read.line.ev for one in recognise(verbose, ["ik_llama"])] == ["in_full"]
    assert recognise(f"{line}processed=489 total=490", ["ik_llama"]) == []


@pytest.mark.parametrize("line", ['msg="cache hit" key=7', 'msg="evicting leaf"', "cache hit", "created snapshot"])
def test_words_of_unrelated_software_are_not_taken_for_ollama(line):
    assert engine_of_log([line]) is None


def test_a_request_whose_prefix_is_lost_has_no_slot(capsys, tmp_path):
    text = "new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 50\n"
    rows = {}
    for name, line in (("lost", text), ("printed", f"slot update_slots: id  0 | task 5 | {text}")):
        [log] = json.loads(imported(capsys, tmp_path, line, "--json")[1])["logs"]
        rows[name] = [(row["slot"], row["task"]) for row in log["requests"]]
    assert rows == {"lost": [(None, None)], "printed": [(0, 5)]}


def test_lines_of_other_software_in_a_simulated_log_are_named():
    found = contents(CACHE + OLLAMA)
    assert found["software"] == ["Ollama's runner"] and not found["only_others"]


def test_runs_have_their_lines():
    text = CACHE + "slot launch_slot_: id  0 | task 7 | processing task, is_child = 0\n"
    found = contents(text + "build: 9999 (abc) with gcc\n" + text)
    assert [(run["first"], run["last"]) for run in found["runs"]] == [(1, 14), (15, 29)]


def test_a_log_is_read_from_standard_input():
    done = subprocess.run([sys.executable, "-m", "cachesim", "import", "-", "--json", "-q"], input=CACHE, text=True,
                          capture_output=True, cwd=ROOT, check=False)  # fmt: skip
    [log] = json.loads(done.stdout)["logs"]
    assert (log["file"], log["lines"], log["contents"]["cache"]["line"]) == ("-", 13, 5)


def test_only_an_argument_names_standard_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(untrusted_files.BadInput, match="no such file"):
        list(untrusted_files.open_lines(tmp_path.__class__("-")))
    assert untrusted_files.argument_path("-") is untrusted_files.STDIN
    assert str(untrusted_files.argument_path("./-")) == "-"


def test_long_lists_are_cut_without_v():
    entries = [happened(number, n_tokens=number) for number in range(7)]
    warnings = [{"line": number, "text": "x"} for number in range(8)]
    whole, cut = ([*contents_report({**EMPTY, "entries": entries, "warnings": warnings}, everything)]
                  for everything in (True, False))  # fmt: skip
    assert (len(whole), len(cut), str(cut[-1].style)) == (9, 8, "dim") and "(line 6)" not in str(cut[0])
    assert [len([*contents_report({**EMPTY, "warnings": warnings[:number]}, False)]) for number in (6, 7)] == [6, 7]
    for name, rows in (("entries", entries[:6]), ("warnings", warnings[:6])):
        some = {**EMPTY, name: rows}
        assert [*map(str, contents_report(some, False))] == [*map(str, contents_report(some, True))]


def test_a_log_without_requests_is_summarised(capsys, tmp_path):
    code, out = imported(capsys, tmp_path, CACHE, "-v")
    assert code == exits.UNDECIDED
    for numbers in ("97.461 MiB", "1,286 tokens", "58.23 MiB", "[166, 805]", "[16037, 16037]", "20.0 MiB"):
        assert numbers in out


def test_lists_are_bounded(monkeypatch):
    whole = contents(CACHE * 2)
    monkeypatch.setattr(module, "MOST", 1)
    found = contents(CACHE * 2)
    assert found["entries"] == whole["entries"][-1:]                               # the newest
    for name in ("checkpoints", "evictions", "warnings", "unknown"):
        assert found[name] == whole[name][:1] != whole[name]


def test_the_limit_of_a_cache_without_a_state_is_known():
    for line, kind in (("prompt cache is enabled, size limit: no limit", "no_limit"),
                       ("prompt cache is disabled - use `--cache-ram N` to enable it", "no_cache")):  # fmt: skip
        assert contents(f"srv    load_model: {line}")["cache"] == {
            "line": 1, "kind": kind, "text": line, "numbers": {}}  # fmt: skip


def test_the_lines_of_the_main_run_end_with_its_last_message():
    launch = "slot launch_slot_: id  0 | task {} | processing task, is_child = 0\n"
    text = launch.format(7) + launch.format(8) + "srv  update_slots: new\n" + launch.format(7)
    found = contents(text)
    assert [(run["first"], run["last"], run["known"]) for run in found["runs"]] == [(1, 3, 2), (4, 4, 1)]
    assert found["kinds"] == {"launch": 3}


def test_messages_of_a_line_keep_their_order():
    idle, release = "0.00.001.000 I srv  update_slots: all slots are idle", \
        "0.00.002.000 I slot release: id  0 | task 7 | stop processing: n_tokens = 5, truncated = 0"  # fmt: skip
    assert [*contents(idle + release)["kinds"]] == ["idle", "release"]
    assert [*contents(release + idle)["kinds"]] == ["release", "idle"]
