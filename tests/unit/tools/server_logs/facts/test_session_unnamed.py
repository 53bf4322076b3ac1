"""Requests of mlx_lm.server's log, which names neither slot nor task."""

from __future__ import annotations

from cachesim.tools.server_logs.facts.conclusions import conclude
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.lines.recognise import grammars, recognise
from cachesim.tools.server_logs.report.shown_requests import shown_requests

STAMP = "2026-11-21 13:50:16,140 - {} - {}"
FETCH, PROGRESS = "Prompt Cache: {} sequences, 0.00 GB", "Prompt processing progress: {}/{}"


def info(text, *numbers):
    return STAMP.format("INFO", text.format(*numbers))


def reply(prompt, made, cached):
    """Return the lines of an answer as mlx_lm logs it at level DEBUG: JSON after the stamp, line by line."""
    return [STAMP.format("DEBUG", "Outgoing Response: {"), '\t"usage": {', f'\t\t"prompt_tokens": {prompt},',
            f'\t\t"completion_tokens": {made},', f'\t\t"total_tokens": {prompt + made},',
            '\t\t"prompt_tokens_details": {', f'\t\t\t"cached_tokens": {cached}', "\t\t}", "\t}", "}"]  # fmt: skip


def read(*lines):
    found = read_session("mlx_lm", grammars()["mlx_lm"], lines).requests
    return [(one.n_tokens, one.cache_n, one.prompt_n, one.predicted_n) for one in found]


def test_nothing_is_found_in_an_empty_cache():
    assert read(info(FETCH, 0), info(PROGRESS, 59, 60), info(PROGRESS, 60, 60)) == [(60, 0, 60, None)]


def test_reused_tokens_are_unknown_if_only_progress_is_logged():
    lines = [info(FETCH, 0), info(PROGRESS, 60, 60), info(FETCH, 1), info(PROGRESS, 0, 7), info(PROGRESS, 7, 7)]
    assert read(*lines) == [(60, 0, 60, None), (None, None, 7, None)]


def test_an_answer_gives_the_reused_tokens():
    lines = [info(FETCH, 0), info(PROGRESS, 60, 60), *reply(60, 3, 0), info(FETCH, 1), info(PROGRESS, 1, 1)]
    assert read(*lines, *reply(50, 2, 49)) == [(60, 0, 60, 3), (50, 49, 1, 2)]


def test_a_stream_does_not_take_the_answer_of_a_later_request():
    lines = [info(FETCH, 1), info(PROGRESS, 9, 9), info(FETCH, 2), info(PROGRESS, 9, 9), *reply(40, 2, 31)]
    assert read(*lines)[1] == (40, 31, 9, 2)


def test_an_answer_ends_only_its_own_request():
    lines = [info(FETCH, 0), info(FETCH, 0), info(PROGRESS, 592, 592), info(PROGRESS, 700, 700)]
    found = read(*lines, *reply(592, 3, 0), *reply(700, 4, 0))
    assert found == [(592, 0, 592, 3), (700, 0, 700, 4)]


def test_concurrent_requests_are_distinguished_by_their_evaluated_tokens():
    lines = [info(FETCH, 0), info(FETCH, 0), info(PROGRESS, 500, 592), info(PROGRESS, 2048, 12699),
             info(PROGRESS, 592, 592), info(PROGRESS, 12699, 12699)]  # fmt: skip
    assert read(*lines) == [(592, 0, 592, None), (12699, 0, 12699, None)]


def test_the_numbers_of_a_request_are_one_row():
    [row] = shown_requests([said.as_data() for said in conclude(read_session("mlx_lm", grammars()["mlx_lm"], [
        info(FETCH, 3), info(PROGRESS, 100, 100), *reply(5100, 20, 5000)])).statements])  # fmt: skip
    assert (row.name, dict(row.numbers)) == (
        "line 1", {"n_tokens": 5100, "cache_n": 5000, "prompt_n": 100, "predicted_n": 20})  # fmt: skip


DEBUG = STAMP.format("DEBUG", "{}")
PART = [DEBUG.format(text) for text in (
    "*** Cache is prefix of prompt (cache_len: 4388, prompt_len: 4460). Processing suffix. ***",
    "Returning 72 tokens for processing.", "*** Common prefix (1204) shorter than cache (4600). Attempting trim. ***")]


def test_the_server_that_keeps_one_prompt_has_its_requests_with_their_losses():
    trimmed = [DEBUG.format(text) for text in ("    Trimming 3396 tokens from cache.",
                                               "Returning 31 tokens for processing.")]  # fmt: skip
    assert read(*PART, *trimmed) == [(4460, 4388, 72, None), (1235, 1204, 31, None)]
    reset = [DEBUG.format(text) for text in ("    Cache cannot be trimmed. Resetting cache.",
                                             "*** Resetting cache. ***",
                                             "Returning 4711 tokens for processing.")]  # fmt: skip
    assert read(*PART, *reset)[1] == (4711, 0, 4711, None)
    session = read_session("mlx_lm", grammars()["mlx_lm"], [*PART, *reset])
    [cause] = [said for said in conclude(session).statements if said.what == "cause"]
    assert cause.numbers == {"cause": "cannot-trim", "lost": 1204}


def test_progress_may_be_ambiguous():
    """A request found an empty cache, but the log does not show which."""
    found = read(info(FETCH, 0), info(FETCH, 3), info(PROGRESS, 8, 8), info(PROGRESS, 20, 20))
    assert [one[:3] for one in found] == [(None, None, 8), (None, None, 20)]


def test_numbers_of_a_request_body_are_not_those_of_an_answer():
    sent = [STAMP.format("DEBUG", "Incoming Request Body: {"), '\t"prompt_tokens": 7,', '\t"cached_tokens": 3', "}"]
    assert read(*sent, info(FETCH, 0), info(PROGRESS, 4, 4)) == [(4, 0, 4, None)]


def test_a_log_that_begins_in_the_middle_has_the_answer():
    assert read(*reply(50, 2, 49)) == [(50, 49, 1, 2)]


def test_guesses_do_not_count_as_agreement_and_the_log_level_is_suggested(tmp_path):
    file = tmp_path / "server.log"
    file.write_text("\n".join([info(FETCH, 0), info(PROGRESS, 60, 60), info(FETCH, 1), info(PROGRESS, 7, 7)]))
    data, text = import_log(file)
    assert (data["engine"], data["agree"], data["differ"]) == ("mlx_lm", 1, 0)
    assert [bool(one["assumed"]) for one in data["requests"]] == [False, True] and text
    assert any("--log-level DEBUG" in one for one in data["missing"])


def test_an_entry_after_a_dash_is_known():
    [reading] = recognise(STAMP.format("INFO", "- assistant: 2 sequences, 0.10 GB"), ("mlx_lm",))
    assert reading.read.line.ev == "fetch_kind" and reading.read.numbers["kind"] == "assistant"


def test_lines_of_lm_studio_are_known():
    text = "[coordinator][INFO]: Prompt cache restore: cached_tokens=5 uncached_tokens=30 lifetime_efficiency=14.0%"
    assert read(text) == [(35, 5, 30, None)]
    assert recognise("[cache_store][INFO]: VLM prompt cache disk usage: used_mib=16.0 cap_mib=30720.0 x=1")
