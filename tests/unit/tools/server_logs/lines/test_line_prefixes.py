"""Prefixes of pasted log lines are removed, and nothing else."""

from __future__ import annotations

import json
from time import process_time

import pytest

from cachesim.tools.server_logs.lines.line_prefixes import LONGEST, message, plain_message, prefix_end, visible_text

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
    f"> {CORE}", CORE.replace("20", "**20**"),
    f'time=2026-08-27T10:00:00.000+02:00 level=INFO source=server.go:1 msg="{CORE}"',
    json.dumps({"type": "log", "time": 843, "level": "info", "msg": CORE + "\n"}),
    json.dumps({"log": CORE + "\n", "stream": "stderr"}),
    "slot update_slots: id 0 | task 20 | " + TEXT,
    "slot   operator(): id  0 | task 20 |  " + TEXT,
])
def test_prefixes_and_wrappers_are_removed(line):
    logged = message(line)
    assert (logged.text, logged.slot, logged.task) == (TEXT, 0, 20)


@pytest.mark.parametrize(("line", "level", "stamp", "source", "prefix"), [
    (f"1.33.810.930 W {CORE}", "W", 93_810_930, "", 15), (f"0.00.000.001 D {CORE}", "D", 1, "", 15),
    (f"[57130] 0.33.810.930 W {CORE}", "W", 33_810_930, "57130", 23), (f"W {CORE}", "W", None, "", 2),
    (f"May 23 01:43:26 pc llama[5]: 0.00.000.001 I {CORE}", "I", 1, "llama[5]", 44),
    (f"Nov 30 10:50:23 0.00.000.001 W {CORE}", "W", 1, "", 31), (f"10:50:23 web.1  | {CORE}", "", None, "web.1", 18),
    (f"llama-1  | {CORE}", "", None, "llama-1", 11), (f"[pod/a/b] {CORE}", "", None, "pod/a/b", 10),
    (f"<13>1 2026-05-20T14:18:57Z host app 77 ID - {CORE}", "", None, "app 77", 44),
    (f"[x][WARNING] {CORE}", "W", None, "", 13), (f"  > {CORE}", "", None, "", 4), (CORE, "", None, "", 0),
    (f"- {CORE}", "", None, "", 0), (f"  {CORE}", "", None, "", 0),
    (f"llama-1  | [57130] 0.00.000.001 W {CORE}", "W", 1, "llama-1 57130", 34),
    (f"text 0.00.000.002 E {CORE}", "E", 2, "", 0), (f"5.0.00.000.002 E {CORE}", "", None, "", 0),
])  # fmt: skip
def test_a_prefix_has_a_level_a_time_and_a_source(line, level, stamp, source, prefix):
    logged = message(line)
    assert (logged.text, logged.level, logged.stamp, logged.source, logged.prefix) == (
        TEXT, level, stamp, source, prefix)  # fmt: skip
    assert prefix_end(line) == prefix


@pytest.mark.parametrize(("line", "text", "slot", "task"), [
    (f"id  3 | task 20 | {TEXT}", TEXT, 3, 20), (f"| task 20 | {TEXT}", TEXT, None, 20),
    (f"task -1 | {TEXT}", TEXT, None, -1), (f"f: id  3 | task 20 | {TEXT}", TEXT, 3, 20),
    (f'{{"a": "{CORE}"', f'{{"a": "{CORE}"', None, None), (f"slot f: id  3 | {TEXT}", TEXT, 3, None),
])  # fmt: skip
def test_a_prefix_that_was_cut_off_leaves_slot_and_task(line, text, slot, task):
    assert message(line)[:3] == (text, slot, task)


@pytest.mark.parametrize(("level", "letter"), [("WARN", "W"), ("ERR", "E"), ("INFO", "I"), ("VERB", "D")])
def test_levels_of_older_servers(level, letter):
    logged = message(f"{level} [ f] text | id_slot=1 n=2 word=\"x y\" glued=5abc")
    assert logged[:5] == ("text", 1, None, "f", {"n": 2, "word": "x y"}) and logged.level == letter


def test_a_wrapped_message_keeps_its_source_and_its_fields():
    logged = message('llama-1  | level=INFO msg="kv cache \\"rm\\"" n=5 word="x"')
    assert (logged.text, logged.fields, logged.source) == ('kv cache "rm"', {"n": 5, "word": "x"}, "llama-1")
    assert message("level=INFO msg=word n=5")[:1] == ("word",)


@pytest.mark.parametrize(("fields", "text", "found"), [
    ({"message": "m", "slot_id": 2, "task_id": 3, "time": 9, "n": 1.5}, "m", (2, 3, {"n": 1.5})),
    ({"MESSAGE": "m", "n": 1}, "m", (None, None, {})),
    ({"msg": 5, "log": "l", "id_slot": 1}, "l", (1, None, {"msg": 5})),
])  # fmt: skip
def test_json_has_numbers_only_with_a_slot(fields, text, found):
    logged = message(json.dumps(fields))
    assert (logged.text, (logged.slot, logged.task, logged.fields)) == (text, found)


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


@pytest.mark.parametrize(("times", "end"), [(1, 2), (7, 14), (8, 16), (9, 16)])
def test_at_most_eight_parts_of_a_prefix_are_removed(times, end):
    assert prefix_end("> " * times + "text") == end


@pytest.mark.parametrize("line", ['{"a": 1}', '{"msg": 5, "id_slot": 1}', "{}", '{"msg": ["x"]}', "{'msg': 'x'}"])
def test_an_object_without_a_text_is_an_unchanged_line(line):
    assert (message(line).text, message(line).fields) == (line, {})


def test_a_long_line_is_cut():
    assert plain_message("x" * (LONGEST + 1)).text == "x" * LONGEST
    assert plain_message("x" * (LONGEST - 1) + "  y").text == "x" * (LONGEST - 1)


def test_a_long_object_is_read_as_a_cut_line():
    line = f'{{"msg": "text",{" " * LONGEST}"id_slot": 1}}'
    assert message(line)[:2] == ('{"msg": "text",', None)
    short = line.replace(" " * LONGEST, " " * (LONGEST - len(line) + LONGEST))
    assert len(short) == LONGEST and message(short)[:2] == ("text", 1)


def test_what_stands_before_and_after_a_message_is_not_a_part_of_it():
    assert message(json.dumps({"msg": "m", "id_slot": 1, "k" * 50: 5})).fields == {"k" * 40: 5}
    assert message('llama-1  | level=INFO msg="kv cache" n=5').prefix == 11
    assert message('slot f: id  3 | task 4 | error "x"')[:4] == ('error "x"', 3, 4, "f")
    assert message("srv  update_slots: all slots are idle").function == "update_slots"
    assert message("llama-1  | hello there").text == "hello there"
