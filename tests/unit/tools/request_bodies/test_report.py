"""The report on imported bodies, line by line."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cachesim.tools.request_bodies.report import (
    CAUSES,
    HEADS,
    SHOWN,
    _advise,
    _simulation,
    _table,
    bodies_report,
    headline,
    request_numbers,
)
from tests.unit.tools.table_columns import columns

CAUSE = {"name": "date", "says": "the date", "detail": "", "where": "", "path": "", "character": 0, "again": 1500,
         "in_requests": [1], "harmless": False, "evidence": None, "advice": ""}  # fmt: skip
ROW = {"request": 0, "conversation": 1, "tokens": 2000, "reusable": 0, "again": 0, "simulated": 0, "cause": "new",
       "path": "", "parameters": [], "not_kept": 0, "foreign": 0}  # fmt: skip
PLAYED = {"played": 2, "profile": "p@1", "model": "A", "tokens": 4000, "reused": 1000, "new_tokens": 1500,
          "again": 1500, "not_kept": 0, "adapters": "", "foreign": 0, "adapters_assumed": False, "not_played": 0,
          "limit": ""}  # fmt: skip
CHANGED = {**ROW, "request": 1, "again": 1500, "reusable": 1000, "cause": "date", "path": "messages[0]"}
DATA = {"requests": [ROW, CHANGED], "files": ["a.jsonl"], "arguments": [], "simulation": PLAYED, "tokens_exact": True,
        "tokens": 4000, "again": 1500, "most": 256, "losing": [1], "causes": [CAUSE],
        "forms": ["chat"], "conversations": 1, "tokenizer": "t",
        "rendering": "plain", "skipped": 0, "media": 0, "models": ["m"]}  # fmt: skip


def lines(everything=False, out="", **fields):
    """Return the lines of a report on 100 columns, without blanks at their ends."""
    console = Console(file=io.StringIO(), width=100)
    console.print(bodies_report({**DATA, **fields}, out, everything))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def whole(**fields):
    return " ".join(" ".join(lines(**fields)).split())


@pytest.mark.parametrize("fields, text, style", [
    ({}, "1 of 2 requests cannot reuse more than 256 tokens: 1,500 of 4,000 prompt tokens (38 %) are re-evaluated "
         "because the prompt changed", "bold red"),
    ({"again": 400, "tokens_exact": False}, "1 of 2 requests cannot reuse more than ~256 tokens: ~400 of ~4,000 prompt "
     "tokens (10 %) are re-evaluated because the prompt changed", "bold yellow"),
    ({"again": 401}, None, "bold red"),
    ({"losing": []}, "1 of 2 requests changed the previous prompt, without re-evaluation of what followed: 4,000 "
                     "prompt tokens", "bold yellow"),
    ({"losing": [], "causes": [{**CAUSE, "harmless": True}]}, "no changed prompts: 2 requests, 4,000 prompt tokens",
     "bold green"),
    ({"losing": [], "causes": [], "requests": [{**ROW, "parameters": [
        {"name": "messages[3].x[1]", "matters": "perhaps"}, {"name": "messages[4].x[0]", "matters": "unknown"},
        {"name": "seed", "matters": "no"}]}]},
     "no changed texts: 1 request, 4,000 prompt tokens; not known whether changed fields change the prompt: "
     "messages[].x[]", "bold yellow"),
    ({"tokens": 0, "again": 0}, None, "bold yellow"),
])  # fmt: skip
def test_the_headline_is_the_result_in_a_sentence(fields, text, style):
    found = headline({**DATA, **fields})
    assert found.style == style and (text is None or found.plain == text)


def test_a_cause_has_its_place_evidence_and_advice():
    seen = {"previous": 3, "request": 4, "text_common": "x" * 20, "text_before": "é\n", "text_after": "y" * 80}
    cause = {**CAUSE, "detail": "shorter", "where": "the system prompt", "path": "messages[0]", "character": 1234,
             "evidence": seen, "advice": "put it last"}  # fmt: skip
    text = whole(causes=[cause])
    assert "cause the date (shorter) in the system prompt (messages[0] at character 1,234), request 1: 1,500 tokens " \
           "re-evaluated" in text  # fmt: skip
    rows = lines(causes=[cause])
    assert f"  3    {'x' * 14}\\xe9\\n" in rows and f"  4    {'x' * 14}{'y' * 51}..." in rows
    assert "try    put it last" in rows
    shown = lines(causes=[{**cause, "evidence": {**seen, "text_before": "", "text_after": "y" * 54}}])
    assert f"  3    {'x' * 14}(nothing)" in shown and f"  4    {'x' * 14}{'y' * 54}" in shown
    assert "cause the date (at the end), request 1" in whole()


def test_only_the_most_expensive_causes_are_listed():
    assert not any("more cause" in line for line in lines(causes=[CAUSE] * CAUSES))
    found = lines(causes=[CAUSE] * (CAUSES + 2) + [{**CAUSE, "harmless": True}])
    assert "2 more causes in --json" in found and sum(line.startswith("cause") for line in found) == CAUSES


@pytest.mark.parametrize("numbers, text", [
    ([3], "request 3"), ([1, 2], "requests 1, 2"), ([*range(12)], f"requests {', '.join(map(str, range(12)))}"),
    ([*range(13)], f"requests {', '.join(map(str, range(12)))}, ..."),
])  # fmt: skip
def test_long_lists_of_requests_are_cut(numbers, text):
    assert request_numbers(numbers) == text


def test_the_table_has_a_row_for_each_request_and_says_how_many_are_left_out():
    rows = [line.split() for line in lines()]
    heads = ["#", "conv", "prompt", "common", "again", "reused"]
    assert [*heads, "compared", "with", "the", "previous", "request"] in rows
    assert ["0", "1", "2,000", "0", "-", "0", "new"] in rows
    assert ["1", "1", "2,000", "1,000", "1,500", "0", "date", "(messages[0])"] in rows
    many = [{**ROW, "request": number} for number in range(SHOWN + 1)]
    assert any("1 more with -v" in line for line in lines(requests=many))
    assert not any("more with -v" in line for line in lines(requests=many[:-1]))
    shown = [line.split() for line in lines(requests=many, everything=True)]
    assert [str(SHOWN), "1", "2,000", "0", "-", "0", "new"] in shown
    unknown = [line.split() for line in lines(requests=[{**ROW, "simulated": None}])]
    assert ["0", "1", "2,000", "0", "-", "-", "new"] in unknown


def test_notes_name_what_was_not_counted():
    fields = {"skipped": 2, "media": 1, "models": ["m", "n"], "forms": ["chat", "raw"], "tokens_exact": False}
    text = whole(**fields)
    assert "chat and raw, 1 conversation; tokens estimated (t), prompts rendered: plain" in text
    assert "2 files or lines without a request body" in text
    assert "several models, each with a separate cache: m, n" in text
    assert "1 image, sound or file: compared by a digest; their own tokens are not counted" in text
    plain = whole()
    assert "tokens exact (t)" in plain
    unsaid = ("without a request body", "several models", "digest", "changed between")
    assert not any(part in plain for part in unsaid)


def test_changed_fields_are_listed_by_their_effect():
    kinds = {"yes": "selects the cache", "perhaps": "may change the prompt: --template", "no": "no effect on the cache",
             "unknown": "not known whether it changes the prompt"}  # fmt: skip
    row = {**ROW, "parameters": [{"name": f"f-{matters}", "matters": matters} for matters in kinds]}
    text = whole(requests=[row, row])
    assert all(f"changed between requests: f-{matters} ({says})" in text for matters, says in kinds.items())


def test_the_simulation_divides_the_tokens():
    assert "simulated under p@1, model A: 4,000 prompt tokens = 1,000 reused + 1,500 new + 1,500 re-evaluated " \
           "because the prompt changed + 0 re-evaluated because the server did not keep them" in whole()  # fmt: skip
    assert "not simulated: too long" in whole(simulation={"played": 0, "limit": "too long"})
    late = {**PLAYED, "not_played": 3, "limit": "--limit", "adapters": "adapters are given"}
    assert "3 requests at the end not simulated: --limit" in whole(simulation=late)
    assert "adapters are given" in whole(simulation=late)


@pytest.mark.parametrize("is_assumed, says", [
    (True, "7 reused tokens of request 1: undecided whether they were computed under the adapters asked for"),
    (False, "7 reused tokens of request 1 were computed under other adapters: wrong"),
])  # fmt: skip
def test_tokens_of_other_adapters_are_wrong_only_if_the_adapters_are_known(is_assumed, says):
    requests = [ROW, {**ROW, "request": 1, "foreign": 7}]
    assert says in whole(requests=requests, simulation={**PLAYED, "foreign": 7, "adapters_assumed": is_assumed})


def test_the_next_command_explains_the_worst_request_of_the_written_file():
    second, third = {**ROW, "request": 1, "not_kept": 2}, {**ROW, "request": 2, "not_kept": 2, "again": 1}
    worst = [{**ROW, "again": 9}, second, third]
    assert lines(out="my case.toml", requests=worst)[-1] == "next: cachesim why 'my case.toml' 2"
    assert lines(arguments=["--template", "t"])[-1] == "next: cachesim import a.jsonl --template t -o case.toml"
    assert not any(line.startswith("next:") for line in lines(simulation={"played": 0, "limit": "x"}))


def test_numbers_are_aligned_and_causes_wrap_anywhere():
    found = columns(_table(DATA, False))
    assert found == [*((name, "number") for name in HEADS), ("compared with the previous request", "folded")]
    assert [row.style for row in _table(DATA, False).rows] == ["", "red"]
    unplayed = columns(_table({**DATA, "simulation": {**PLAYED, "played": 0}}, False))
    assert unplayed == [*found[:-2], found[-1]]


@pytest.mark.parametrize(("files", "arguments", "command"), [
    (["a.jsonl"], ["--model", "A"], "cachesim advise a.jsonl --model A"),
    (["a", "b"], [], "cachesim import a b -o case.toml, then cachesim advise case.toml"),
    (["a"], ["--tokenizer", "t"], "cachesim import a --tokenizer t -o case.toml, then cachesim advise case.toml"),
    (["a"], ["--template", "t"], "cachesim import a --template t -o case.toml, then cachesim advise case.toml"),
])  # fmt: skip
def test_all_suggestions_are_printed_by_a_command_for_the_same_prompts(files, arguments, command):
    data = {"files": files, "arguments": arguments}
    assert (_advise(data, ""), _advise(data, "c.toml")) == (command, "cachesim advise c.toml")


def test_the_simulation_is_a_paragraph_of_its_own():
    assert len([*_simulation(DATA)]) == 1
    assert len([*_simulation({**DATA, "simulation": {**PLAYED, "adapters": "a"}})]) == 2
