"""Report of a comparison with a server: both sides of each request, and the first difference."""

from __future__ import annotations

from cachesim.base.console import as_text
from cachesim.tools.live.verify_report import SAME, verify_report
from tests.unit.tools.table_columns import FOLDED, NUMBER, TEXT, columns

SIDE = {"cache_n": 4, "prompt_n": 5, "status": 200, "equal": True}


def row(number, same, **theirs):
    return {"number": number, "text": "A", "ours": SIDE, "theirs": {**SIDE, **theirs}, "same": same, "first": "",
            "why": ""}  # fmt: skip


def lines(*rows, **data):
    said = {"scenario": "case", "model": "GA", "profile": "llama_cpp@b11549", "requests": rows, "notes": [],
            "undecided": "", "same": True, **data}  # fmt: skip
    return [" ".join(line.split()) for line in as_text(verify_report(said)).splitlines()]


def test_values_of_both_sides_stand_beside_each_other_where_they_differ():
    first = {**row(1, False, cache_n=0, prompt_n=None, status=500), "first": "cache_n"}
    text = lines(row(0, True), first, {**row(2, None, status=0), "why": "no reply"}, same=False)
    assert text[0] == "case GA llama_cpp@b11549" and "reused evaluated answer" in text[1]
    assert any("4 | 0 5 | -" in line and "HTTP 500" in line for line in text)
    assert any("process ended" in line for line in text)
    assert "request 1: first difference: cache_n" in text and "request 2: undecided: no reply" in text
    assert text[-1] == f"=> {SAME[False][0]}"


def test_without_requests_there_is_no_table():
    text = lines(notes=["images are small"], undecided="no adapters", same=None)
    assert text == ["case GA llama_cpp@b11549", "note: images are small", "not run: no adapters", f"=> {SAME[None][0]}"]


def test_a_report_in_whole_lines():
    rows = [row(0, True), row(12, False, cache_n=0, prompt_n=None, equal=False), row(2, None, status=-1, equal=None),
            row(3, False, status=400)]  # fmt: skip
    rows[2]["ours"] = {**SIDE, "cache_n": None}
    rows[2]["theirs"]["cache_n"] = None
    assert lines(*rows, same=False) == [
        "case GA llama_cpp@b11549", "# request reused evaluated answer", "0 A 4 5 right same",
        "12 A 4 | 0 5 | - right | WRONG DIFFERS", "2 A - 5 right | never answered undecided",
        "3 A 4 5 right | HTTP 400 DIFFERS", "=> DIFFERS"]


def test_columns_and_lines_have_their_layout():
    rows = [{**row(0, False), "first": "cache_n"}, {**row(1, None), "why": "late"}]
    data = {"scenario": "case", "model": "GA", "profile": "e@1", "requests": rows, "notes": ["n"], "undecided": "x",
            "same": False}  # fmt: skip
    head, table, *below = verify_report(data).renderables
    assert columns(table) == [("#", NUMBER), ("request", FOLDED), *((name, TEXT) for name in (
        "reused", "evaluated", "answer", ""))]  # fmt: skip
    assert [(str(span.style), head.plain[span.start : span.end]) for span in head.spans] == [
        ("bold", "case"), ("cyan", "e@1")]  # fmt: skip
    assert [line.spans[0].style if line.spans else line.style for line in below] == ["red", "yellow", "dim", "yellow",
                                                                                      ""]  # fmt: skip
    assert [cell.style for cell in table.columns[-1].cells] == ["bold red", "yellow"]
