"""Messages of a log whose line ends were lost or added."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cachesim.engines.shared.log_grammar import Line, LogGrammar
from cachesim.tools.server_logs.lines.line_prefixes import message, visible_text
from cachesim.tools.server_logs.lines.logical_lines import LineCounter, LogicalLineReader, logical_lines
from cachesim.tools.server_logs.lines.recognise import grammars, read_message

HERE = Path(__file__).parents[1]
LLAMA = grammars()["llama_cpp"]
IK = grammars()["ik_llama"]
LOG = (HERE / "verbosity_4.log").read_text("utf-8").splitlines()
CREATED = ("5.31.577.773 W slot create_check: id  0 | task 7 | created context checkpoint 1 of 32 (pos_min = 6656, "
           "pos_max = 8191, n_tokens = 8192, size = 159.393 MiB)")  # fmt: skip
RELEASED = "5.35.412.444 I slot      release: id  0 | task 7 | stop processing: n_tokens = 8163, truncated = 0"
IDLE = "5.35.412.458 I srv  update_slots: all slots are idle"
LAUNCHED = "5.35.999.458 I slot launch_slot_: id  0 | task 9 | processing task, is_child = 0"


def read(lines, grammar=LLAMA):
    return [(line.number, line.read.line.ev, line.logged.slot, line.logged.task, dict(line.read.numbers))
            for line in logical_lines(grammar, lines) if line.read]  # fmt: skip


def unstamped(line):
    return line[line.index(" ", 13) + 1 :] if line[13:15] in ("I ", "W ") else line


def wrapped(line, width):
    return [line[at : at + width] for at in range(0, len(line), width)]


def test_an_intact_log_has_a_message_per_line():
    found = list(logical_lines(LLAMA, LOG))
    assert [line.number for line in found] == list(range(1, len(LOG) + 1))
    assert [line.read for line in found] == [read_message(LLAMA, message(line)) for line in LOG]
    assert [line.text for line in found] == list(map(visible_text, LOG)) and {line.run for line in found} == {0}


@pytest.mark.parametrize("change", [str, unstamped, lambda line: f"[57130] {line}"], ids=["stamped", "plain", "router"])
@pytest.mark.parametrize("gap", ["", " "])
def test_joined_lines_are_split(change, gap):
    lines = [*map(change, (CREATED, RELEASED, IDLE, LAUNCHED))]
    expected = [(1, *found[1:]) for found in read(lines)]
    assert len(expected) == 4 and read([gap.join(lines)]) == expected
    assert expected[1][4] == {"n_tokens": 8163, "truncated": 0}


def test_joined_lines_of_ik_llama_are_split():
    line = 'INFO [    batch_pending_prompt] kv cache rm [p0, end) | tid="1" timestamp=2 id_slot=0 id_task=3817 p0=5037'
    assert [found[4]["p0"] for found in read([line + line], IK)] == [5037, 5037]


def test_a_time_stamp_is_not_taken_for_digits_of_the_number_before_it():
    """15 and 5 minutes are possible; the last time stamp decides, or the number is dropped."""
    joined = "I slot release: id  0 | task 7 | n_tokens = 8165.35.412.458 I srv  update_slots: all slots are idle"
    assert read([f"5.35.412.444 {joined}"])[0][4] == {"n_tokens": 816}
    assert read([f"816.35.412.444 {joined}"])[0][4] == {}
    assert read([joined])[0][4] == {}
    assert read([IDLE, joined])[1][4] == {"n_tokens": 816}                  # of the line before
    assert [found[1] for found in read([joined])] == ["release", "idle"]


def test_a_quoted_log_in_a_request_is_not_read():
    assert read([f'srv  log_server_r: request: {{"content": "{CREATED}"}}', f'  "content": "{CREATED}"']) == []


@pytest.mark.parametrize("width", [61, 80, 100, 120, 121])
def test_wrapped_lines_are_joined(width):
    """Each message keeps the number of its first line, and every number is whole."""
    lines, expected = [], []
    for line in (CREATED, RELEASED, LAUNCHED, IDLE):
        expected.append((len(lines) + 1, *read([line])[0][1:]))
        lines += wrapped(line, width)
    assert read(lines) == expected


def test_a_space_lost_at_the_line_end_does_not_matter():
    at = CREATED.index(" pos_max")
    assert read([CREATED[:at], CREATED[at + 1 :]]) == read([CREATED])


def test_a_real_log_wrapped_at_a_column_reads_like_the_log():
    lines, numbers = [], []
    for line in LOG:
        numbers.append(len(lines) + 1)
        lines += wrapped(line, 110)
    expected = [(numbers[found[0] - 1], *found[1:]) for found in read(LOG)]
    found = read(lines)
    assert [one for one in found if one not in expected] == []
    assert len(found) >= 0.97 * len(expected)


def test_the_rest_of_a_wrapped_line_may_look_like_a_message():
    done = "slot update_slots: id  0 | task 0 | prompt processing done, n_tokens = 5, batch."
    assert read([done, "n_tokens = 4"]) == [(1, "prompt_done", 0, 0, {"n_tokens": 5, "batch": 4})]


def test_a_number_that_a_wrap_may_have_cut_is_dropped():
    start = "slot release: id  0 | n_tokens = 2555"
    assert read([start, "0"])[0][4] == {} and read([start, IDLE])[0][4] == {"n_tokens": 2555}
    known = "slot create_check: id  0 | task 7 | c", "reated context checkpoint 1 of 32 (pos_min = 6656, pos_max = ", \
            "8191, n_tokens = 8192, size = 159.393 MiB)"
    assert len(known[0]) == len(start)
    assert [found[4].get("n_tokens") for found in read([*known, start, "0"])] == [8192, 25550]


@pytest.mark.parametrize("after", ["", "hello", IDLE, "llama_context: n_ctx = 2048"])
def test_lines_that_are_not_wrapped_stay_apart(after):
    for line in (CREATED[:60], "hello", IDLE):
        assert read([line, after, RELEASED]) == [*read([line, "", ""]), *((2, *found[1:]) for found in read([after])),
                                                 *((3, *found[1:]) for found in read([RELEASED]))]  # fmt: skip


def test_lost_prefixes_leave_slot_and_task_unknown():
    text = "created context checkpoint 1 of 32 (pos_min = 6656, pos_max = 8191, n_tokens = 8192, size = 159.393 MiB)"
    assert [found[2:4] for found in read([text, f"task 5 | {text}", f"| task 5 | {text}", f"0 | task 5 | {text}",
                                          f"id  0 | task 5 | {text}", f"check: id  3 | task 5 | {text}"])] == [
        (None, None), (None, 5), (None, 5), (None, 5), (0, 5), (3, 5)]  # fmt: skip


def test_an_uncertain_time_stamp_does_not_make_the_next_one_certain():
    lines = ["0.00.464.475 I llama_context: n_batch       = 640.00.020.920 I llama_context: n_ubatch      = 16"
             "0.00.655.301 I srv    load_model: initializing slots, n_slots = 1"]  # fmt: skip
    assert [found[4] for found in read(lines)] == [{}, {"n_ubatch": 16}, {"n_slots": 1}]


def test_messages_without_a_prefix_are_split():
    timings = ["prompt eval time =    1728.17 ms /    14 tokens (  123.44 ms per token)",
               "       eval time =     724.57 ms /    12 runs   (   60.38 ms per token)",
               "llama_context: n_batch = 64", "llama_context: n_ubatch = 16"]  # fmt: skip
    expected = [found[1:] for found in read(timings)]
    assert len(expected) == 4 and [found[1:] for found in read(["".join(timings)])] == expected
    assert [line.text.strip() for line in logical_lines(LLAMA, ["".join(timings)])] == [*map(str.strip, timings)]
    fields = 'INFO [ update_slots] kv cache rm [p0, end) | tid="1" timestamp=2 id_slot=0 id_task=4 p0=192'
    error = 'task error id_multi=-1 id_task=4 error="the request exceeds the available context size"'
    for gap in ("", " "):
        [rm] = read([f"{fields}{gap}{error}"], IK)
        assert (rm[1], rm[4]) == ("batch", {"tid": 1, "timestamp": 2, "p0": 192})


@pytest.mark.parametrize("cut", [1, 3, 20])
def test_fields_after_the_bar_are_joined(cut):
    line = 'INFO [ update_slots] slot released | tid="137" timestamp=178330 id_slot=0 id_task=12 n_ctx=2048 n_past=7'
    [found] = read([line[:-cut], line[-cut:], "", IDLE[15:]], IK)[:1]
    assert found[4].get("n_past", 7) == 7 and found[4].get("n_ctx", 2048) == 2048 and found[3] in (None, 12)
    assert found[4] == read([line], IK)[0][4] or cut < 20             # "t=7" may be a line of its own


def test_a_number_at_the_wrap_column_is_dropped_at_the_end_of_the_log():
    end = "slot release: id  0 | n_tokens = 2555"
    assert read([CREATED, end])[-1][4] == {"n_tokens": 2555}
    assert read([*wrapped(CREATED, len(end)), end])[-1][4] == {}


@pytest.mark.parametrize("after", ["something", '127.0.0.1 - - [27/Nov] "GET /health HTTP/1.1" 200', "Traceback (most",
                                   "2026-11-27 10:00:00,123 - proxy - INFO - ok", "..."])  # fmt: skip
def test_the_number_before_a_line_of_another_program_is_whole(after):
    assert read([RELEASED, after, IDLE])[0][4] == {"n_tokens": 8163, "truncated": 0}


@pytest.mark.parametrize("after", ["1", "12.5", ".5"])
def test_the_number_before_digits_may_be_cut(after):
    assert read([RELEASED, after, IDLE])[0][4] == {"n_tokens": 8163}


def test_an_unknown_line_that_nothing_continues_does_not_show_the_width_of_a_terminal():
    start = "slot release: id  0 | n_tokens = 2555"
    found = read(["x" * len(start), start, "0"])
    assert [one[4] for one in found if one[1] == "release"] == [{}]


def test_a_counter_knows_the_number_of_the_last_line():
    lines = LineCounter(["a", "b"])
    assert lines.number == 0 and [(line, lines.number) for line in lines] == [("a", 1), ("b", 2)]
    assert lines.number == 2


def test_an_unknown_message_before_an_uncertain_time_stamp_is_skipped():
    line = "5.35.412.444 I slot release: nothing known 8165.35.412.458 I srv  update_slots: all slots are idle"
    assert [found[1] for found in read([line.replace("5.35.412.444 I ", "")])] == ["idle"]


def test_the_minutes_of_a_time_stamp_are_whole():
    """The stamp before is a millionth of a second before its next minute: 100 minutes would be an hour later."""
    joined = "I slot release: id  0 | task 7 | n_tokens = 8100.59.999.999 I srv  update_slots: all slots are idle"
    assert read([f"0.59.999.999 {joined}"])[0][4] == {"n_tokens": 810}
    assert read(["0.59.999.999 I srv  update_slots: all slots are idle", joined])[1][4] == {"n_tokens": 810}


def test_a_message_may_be_wrapped_onto_five_lines():
    for parts, is_whole in ((5, True), (6, False)):
        lines = wrapped(CREATED, -(-len(CREATED) // parts))
        assert len(lines) == parts and (read([*lines, IDLE])[0] == read([CREATED])[0]) is is_whole


def test_a_reader_yields_a_message_after_four_more_lines():
    reader = LogicalLineReader(LLAMA)
    assert [[line.number for line in reader.read(number, IDLE)] for number in range(1, 8)] == [
        [], [], [], [], [1], [2], [3]]  # fmt: skip
    assert [line.number for line in reader.flush()] == [4, 5, 6, 7]


def test_the_next_time_stamp_may_be_59_minutes_after_the_first_of_a_minute():
    """4 minutes would be before the last time stamp, and 164 minutes more than an hour after it."""
    joined = "I slot release: id  0 | task 7 | n_tokens = 8164.00.000.100 I srv  update_slots: all slots are idle"
    assert read([f"5.00.000.000 {joined}"])[0][4] == {"n_tokens": 81}
    assert read(["5.00.000.000 I srv  update_slots: all slots are idle", joined])[1][4] == {"n_tokens": 81}


def test_a_number_0_before_minutes_of_0_is_certain():
    line = f"{unstamped(LAUNCHED)}0.01.539.246 I srv  update_slots: all slots are idle"
    assert read([line]) == [(1, "launch", 0, 9, {"is_child": 0}), (1, "idle", None, None, {})]


def test_the_end_of_a_split_message_may_be_unknown_and_uncertain():
    line = ("srv  send_error: request (5000 tokens) exceeds the available context size (4096 tokens)"
            "created context checkpoint 8165.35.412.458 I srv  update_slots: all slots are idle")  # fmt: skip
    found = [*logical_lines(LLAMA, [line])]
    assert [one.read and one.read.line.ev for one in found] == ["too_long", None, "idle"]
    assert found[1].text == "created context checkpoint "


def test_the_bar_of_a_message_begins_no_other_message():
    at = RELEASED.index("| task")
    assert read([RELEASED[:at], RELEASED[at:]]) == read([RELEASED])


def test_a_container_belongs_to_its_line_and_a_dot_does_not():
    line = "llama-1  | srv  update_slots: all slots are idle"
    assert [found.text for found in logical_lines(LLAMA, [line])] == [line]
    assert [found.text for found in logical_lines(LLAMA, [f".{line[11:]}"])] == [".", line[11:]]


def test_a_message_after_an_open_quote_is_part_of_the_quoted_text():
    line = f'srv  log_server_r: request: {{"content": "{unstamped(RELEASED)}'
    assert [(found.text, found.read) for found in logical_lines(LLAMA, [line])] == [(line, None)]


def test_an_unknown_line_does_not_begin_a_message():
    text = "| task 5 | created context checkpoint 1 of 32 (pos_min = 6, pos_max = 8, n_tokens = 9, size = 1.5 MiB)"
    assert [(found.number, found.text) for found in logical_lines(LLAMA, ["hello", text])] == [(1, "hello"), (2, text)]


def test_fields_after_a_line_of_another_program_are_not_joined():
    line = 'INFO [ update_slots] kv cache rm [p0, end) | tid="1" timestamp=2 id_slot=0 id_task=4 p0=192'
    texts = [line, "hello", "n_ctx=7 n_past=3"]
    assert [found.text for found in logical_lines(IK, texts)] == texts
    assert read(texts, IK) == [(1, "batch", 0, 4, {"tid": 1, "timestamp": 2, "p0": 192})]


def test_a_number_in_which_a_line_was_wrapped_is_dropped():
    """178330, or 178 and another text."""
    lines = ['INFO [ update_slots] slot released | tid="137" timestamp=178', "330 id_slot=0 id_task=12 n_ctx=2048"]
    assert read(lines, IK) == [(1, "release", 0, 12, {"tid": 137, "n_ctx": 2048})]


def test_a_task_at_the_wrap_column_is_dropped_at_the_end_of_the_log():
    end = 'INFO [ update_slots] slot released | tid="137" timestamp=178 id_slot=3 id_task=12'
    long = f'{"INFO [ update_slots]":{len(end) - 6}}kv cache rm [p0, end) | tid="1" p0=5 id_slot=0 id_task=8'
    found = [*logical_lines(IK, [*wrapped(long, len(end)), end])]
    assert [(line.logged.slot, line.logged.task) for line in found] == [(0, 8), (3, None)]
    assert [line.read and (line.read.slot, line.read.task) for line in found] == [(0, 8), (3, None)]


def test_only_lines_that_may_hold_a_second_message_are_searched_for_one():
    """The search for the words of all messages is slow."""
    searched = []

    class SearchedGrammar(LogGrammar):
        def beginnings(self, text):
            searched.append(text)
            return super().beginnings(text)

    grammar = SearchedGrammar((Line("idle", "all slots are idle"), Line("cancel", "cancel task, id_task = {}"),
                               Line("batch", "removed [{p0}, end)"), Line("mismatch", "{}n_stream mismatch{}")))
    fields = 'INFO [ update_slots] removed [5, end) | tid="1"'
    lines = ["hello", "all slots are idle", "cancel task, id_task = 1", "cancel task, id_task = 12", fields,
             "KV: n_stream mismatch: 2 and 4", "all slots are waiting"]  # fmt: skip
    assert [line.text for line in logical_lines(grammar, lines)] == lines
    assert searched == lines[3:]


def test_a_message_after_one_that_begins_with_any_text_is_split():
    message_of_two = ["KV: n_stream mismatch: 2 and 4", unstamped(CREATED)[unstamped(CREATED).index("created") :]]
    assert [line.text for line in logical_lines(LLAMA, ["".join(message_of_two)])] == message_of_two


def test_a_joined_message_has_its_whole_text_and_an_object_its_last_number():
    assert [line.text for line in logical_lines(LLAMA, [*wrapped(CREATED, 80), IDLE])] == [CREATED, IDLE]
    assert read([json.dumps({"msg": RELEASED})]) == read([RELEASED])
