"""Prefixes of pasted log lines are removed, and nothing else."""

from __future__ import annotations

import json
from time import process_time

import pytest

from cachesim.tools.server_logs.line_prefixes import LONGEST, message, visible_text

CORE = "slot update_slots: id  0 | task 20 | forcing full prompt re-processing due to lack of cache data"
TEXT = "forcing full prompt re-processing due to lack of cache data"


@pytest.mark.parametrize("line", [
    CORE,
    f"0.33.810.930 W {CORE}",
    f"[57130] 0.33.810.930 W {CORE}",
    f"W {CORE}",
    f"May 23 01:43:26 corrm-pc start_llama_server.sh[500563]: 47.06.433.273 W {CORE}",
    f"мая 23 01:43:26 host llama[5]: 47.06.433.273 W {CORE}",
    f"\x1b[33m0.33.810.930 W\x1b[0m {CORE}\x1b[0m",
    f"[33m{CORE}[0m",
    f"2026-05-20T14:18:57.123456789Z {CORE}",
    f"llama-1  | {CORE}",
    f"> {CORE}",
    f'time=2026-08-27T10:00:00.000+02:00 level=INFO source=server.go:1 msg="{CORE}"',
    json.dumps({"type": "log", "time": 843, "level": "info", "msg": CORE + "\n"}),
    json.dumps({"log": CORE + "\n", "stream": "stderr"}),
    "slot update_slots: id 0 | task 20 | " + TEXT,
    "slot   operator(): id  0 | task 20 |  " + TEXT,
])
def test_prefixes_and_wrappers_are_removed(line):
    logged = message(line)
    assert (logged.text, logged.slot, logged.task) == (TEXT, 0, 20)


def test_numbers_after_a_bar_are_fields():
    fields = 'tid="13" timestamp=17 id_slot=0 id_task=3817 p0=50376'
    logged = message(f"INFO [    batch_pending_prompt] kv cache rm [p0, end) | {fields}")
    assert (logged.text, logged.slot, logged.task, logged.fields["p0"]) == ("kv cache rm [p0, end)", 0, 3817, 50376)


def test_json_of_older_servers_has_its_numbers_beside_the_text():
    logged = message(json.dumps({"level": "INFO", "msg": "slot released", "id_slot": 1, "id_task": 7, "n_past": 99}))
    assert (logged.text, logged.slot, logged.task, logged.fields["n_past"]) == ("slot released", 1, 7, 99)


@pytest.mark.parametrize("line", [
    "", "{", "{]", '{"msg": 3}', "[" * 9999, "\x00\x01", "slot", "slot x:", "a" * 99_999, "{" * 5000,
])
def test_garbage_is_an_unchanged_message(line):
    assert len(message(line).text) <= LONGEST


def test_escape_sequences_are_removed():
    text = visible_text("\x1b]0;title\x07\x1b[2Jx\u202ey\r")
    assert text == visible_text(text)
    assert not set(visible_text("\x1b[2J\x9b31m\x07\u202e\u200b")) & set("\x1b\x9b\x07\u202e\u200b")


def test_a_server_without_slots_names_none():
    assert message("srv  update_slots: all slots are idle")[:3] == ("all slots are idle", None, None)
    assert message("slot get_availabl: id  1 | task -1 | x").task == -1


@pytest.mark.parametrize("line", ["INFO [a] " + " " * 4_000, "|" + "INFO [a] " * 10_000, "slot " + " " * 20_000,
                                  "slot f: id 0 |" + " " * 20_000, "id " * 8_000])  # fmt: skip
def test_a_line_of_blanks_is_read_in_linear_time(line):
    """4,000 blanks took 36 CPU seconds, eight times as long as 2,000."""
    begun = process_time()
    message(line)
    assert process_time() - begun < 2
