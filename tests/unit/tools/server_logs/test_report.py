"""Report on an imported log: the result first, assumptions last."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cachesim.tools.server_logs.report import import_report, report_rest, short


def request(number, agrees=True, **more):
    return {"request": number, "step": number, "slot": 0, "n_tokens": 1000 + number, "lcp": 5, "prompt_n": 7,
            "cache_n": 8, "simulated": 9, "agrees": agrees, "undecided": False, "assumed": "", "left_out": "",
            **more}  # fmt: skip


def data(requests=(), summary=None, **more):
    nothing = {"requests": len(requests), "tokens": 200, "evaluated": 50, "lost": 0, "forced": [], "from_nothing": [],
               "again": [], "causes": []}  # fmt: skip
    return {"file": "a.log", "engine": "llama_cpp", "lines": 12, "recognised": 10, "log_requests": 7,
            "requests": list(requests), "turns": [], "profile": "llama_cpp@x", "profile_given": False, "model": "A",
            "statements": [], "agree": 0, "differ": 0, "undecided": 0, "missing": [], "line": "A9",
            "rejected": False, "complete": True, "contradicted": [], "candidates": 1, "first_lines": [], "cures": [],
            "arguments": [],
            "summary": nothing | (summary or {}), **more}  # fmt: skip


def rendered(found, out="", everything=False):
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(import_report(found, out, everything))
    return console.file.getvalue()


def test_the_first_line_counts_the_known_lines():
    assert rendered(data()).startswith("a.log: a log of llama_cpp, 10 of 12 lines known, 7 requests\n")


@pytest.mark.parametrize("summary, says", [
    ({"requests": 0}, "Not compared: the log shows neither reused nor evaluated tokens."),
    ({}, "No tokens re-evaluated: 25 % of 200 prompt tokens evaluated."),
    ({"lost": 40}, "25 % of 200 prompt tokens evaluated, 40 of them re-evaluated."),
    ({"lost": 40, "from_nothing": [1]}, "1 of 2 requests were evaluated from position 0 despite a common prefix: 25 %"),
    ({"lost": 40, "from_nothing": [1], "requests": 1}, "The request was evaluated from position 0"),
    ({"tokens": 1, "evaluated": 1}, "No tokens re-evaluated: 100 % of 1 prompt tokens evaluated."),
    ({"tokens": 0, "evaluated": 0}, "No tokens re-evaluated: 0 % of 0 prompt tokens evaluated."),
    ({"forced": [*range(12)]}, "at request 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11: 25 %"),
    ({"forced": [*range(13)]}, "at request 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11: 25 %"),
    ({"forced": [0, 1]}, "The server forced full re-processing at request 0, 1: 25 % of 200 prompt tokens evaluated;"),
])  # fmt: skip
def test_the_result_is_one_sentence(summary, says):
    text = rendered(data([request(0), request(1)], summary))
    assert says in text and text.count("No tokens re-evaluated") == ("No tokens re-evaluated" in says)


def test_without_prompt_lengths_nothing_is_compared():
    for rows in ([], [request(0, step=-1)], [request(0, step=-1)] * 2):
        assert "Not simulated: the log shows no prompt length." in rendered(data(rows, {"requests": 0}))
    for rows in ([request(0)], [request(0, step=-1), request(1)]):
        assert "Not compared: the log shows neither reused nor evaluated tokens." in rendered(
            data(rows, {"requests": 0}))  # fmt: skip


def test_counts_are_short_from_ten_thousand_on():
    assert [short(n) for n in (0, 9_999, 10_000, 1_234_567)] == ["0", "9,999", "10k", "1,235k"]


def test_causes_with_lost_tokens_are_listed_with_advice():
    causes = [{"cause": "a", "says": "the history was edited", "requests": [1], "lost": 1234, "advice": "do not"},
              {"cause": "b", "says": "a new conversation", "requests": [0], "lost": 0, "advice": "more slots"},
              {"cause": "c", "says": "extends", "requests": list(range(20)), "lost": 5, "advice": ""}]  # fmt: skip
    assert "Client: extends" not in rendered(data([request(0)], {"causes": causes}))
    text = rendered(data([request(0)], {"causes": causes}), everything=True)
    assert "Client: the history was edited (request 1: 1,234 tokens re-evaluated)." in text and "Try: do not." in text
    assert "a new conversation" not in text and "more slots" not in text and text.count("Try:") == 1
    assert "Client: extends (requests 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...: 5 tokens re-evaluated)." in text


def test_each_request_has_a_line_with_its_certainty():
    rows = [request(0), request(1, False), request(2, None, undecided=True), request(3, None, left_out="no length"),
            request(4, assumed="x"), request(5, cache_n=None, lcp=0)]  # fmt: skip
    text = rendered(data(rows), everything=True)
    lines = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert [line[0] for line in lines] == list("012345")
    assert [line[7] for line in lines] == ["exact", "differs", "undecided", "no", "assumed", "exact"]
    assert lines[5][:7] == ["5", "0", "1,005", "-", "7", "-", "9"]


def test_the_table_of_the_simulation_is_shown_only_with_v():
    rows = [request(number) for number in range(3)]
    assert "1,002" not in rendered(data(rows)) and "1,002" in rendered(data(rows), everything=True)


@pytest.mark.parametrize("numbers, says", [
    ((5, 0, 0), "llama_cpp@x (most likely), model A:\n  5 of 5 requests reused as many tokens as in the log"),
    ((5, 2, 0), "llama_cpp@x (best of those tried), model A:\n  Not reproduced: no simulated run meets all printed"),
    ((5, 2, 3), "5 of 10 requests reused as many tokens as in the log, 3 undecided: the search stopped early"),
    ((0, 0, 0), "model A:\n  the log does not show how many tokens were reused"),
])
def test_the_agreement_of_simulation_and_log(numbers, says):
    agree, differ, undecided = numbers
    found = data([request(0)], agree=agree, differ=differ, undecided=undecided, rejected=bool(differ))
    assert says in rendered(found)
    assert "(given)" in rendered(data([request(0)], profile_given=True))


def test_differences_assumptions_and_gaps_are_listed():
    rows = [request(number, False, assumed=f"why {number}") for number in range(15)]
    text = rendered(data(rows, missing=["the log has no timings"]))
    assert "differ at 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...: the log is right" in text
    assert "assumed at request 0: why 0" in text and "why 1" not in text and "more assumptions" in text
    assert "Not shown by this log:\n  the log has no timings" in text
    assert "why 14" in rendered(data(rows), everything=True)
    assert "differ at 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11: the log is right" in rendered(data(rows[:12]))
    assert "differ" not in rendered(data([request(0)]))


def test_a_rejected_simulation_states_the_printed_numbers_alone():
    lines = [{"line": 7 + n, "what": "ckpt_create", "printed": {"n": n}, "simulated": {"n": 9} if n else None,
              "by_all": n == 1} for n in range(5)]  # fmt: skip
    rejected = data([request(0)], {"lost": 40}, rejected=True, contradicted=lines, candidates=3)
    text = rendered(rejected)
    assert "Not reproduced: no simulated run meets all printed numbers (nearest of 3 candidates)." in text
    assert "line 7: ckpt_create n = 0; simulated: no such event\n" in text and "re-evaluated" not in text
    assert "line 8: ckpt_create n = 1; simulated: n = 9; no candidate meets it" in text
    assert [f"({tried})." in rendered({**rejected, "candidates": number}) for number, tried in (
        (1, "only candidate"), (2, "nearest of 2 candidates"))] == [True, True]  # fmt: skip
    early = rendered({**rejected, "complete": False})
    assert "Not reproduced yet: the search stopped early (nearest of 3 candidates)." in early
    assert "line 10" not in text and "2 more lines with -v" in text and "(best of those tried)" in text
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(import_report(rejected, "", False))
    assert console.file.getvalue() == text
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(report_rest(rejected, "", False))
    assert text.endswith(console.file.getvalue()) and "Not reproduced" in console.file.getvalue()
    assert "line 11: ckpt_create n = 4" in rendered(rejected, everything=True) and "adapters or images" not in text
    few = rendered({**rejected, "contradicted": lines[:3]})
    assert "line 9" in few and "with -v" not in few
    adapters = data([request(0)], rejected=True, contradicted=[{**lines[0], "what": "lora_clear"}])
    assert "A log does not name adapters or images: the simulated requests have none." in rendered(adapters)


def test_the_first_lines_stand_below_the_headline():
    lines = [{"what": "time", "says": "The log prints 3.0 s for the prompts of 2 requests.", "lines": [4]},
             {"what": "next", "says": "next: cachesim advise a.log", "lines": []}]  # fmt: skip
    text = rendered(data([request(0)], first_lines=lines)).splitlines()
    assert text[2:4] == [line["says"] for line in lines]


def test_a_second_cure_stands_with_the_simulation():
    cure = {"change": "--cache-ram 0", "request": 1, "evaluated": 10, "rests_on": [], "before": 90}
    text = rendered(data([request(0)], cures=[cure, {**cure, "change": "-np 4"}]))
    assert "Another cure: -np 4: request 1 evaluates 10 instead of 90 tokens." in text and "--cache-ram" not in text


def test_the_counts_are_of_the_requests_whose_counts_the_log_shows():
    assert "prompt tokens evaluated in 1 of 2 requests, whose counts the log shows." in rendered(
        data([request(0), request(1)], {"requests": 1}))  # fmt: skip
    assert "whose counts" not in rendered(data([request(0), request(1)], {"requests": 2}))
    assert "whose counts" not in rendered(data([request(0), request(1, step=-1)], {"requests": 1}))


def test_requests_that_differ_are_red_and_those_that_were_left_out_yellow():
    rows = [request(0), request(1, False), request(2, None, left_out="no length"), request(3, False, left_out="why")]
    console = Console(file=io.StringIO(), width=200, color_system="standard", force_terminal=True, no_color=False)
    console.print(import_report(data(rows), "", True))
    lines = [line for line in console.file.getvalue().splitlines() if ",00" in line]
    assert ["\x1b[31m" in line for line in lines] == [False, True, False, True]
    assert ["\x1b[33m" in line for line in lines] == [False, False, True, False]
    plain = [line.split() for line in rendered(data(rows), everything=True).splitlines() if ",00" in line]
    notes = (["exact"], ["differs"], ["no", "length"], ["why"])
    assert plain == [[str(at), "0", f"1,00{at}", "5", "7", "8", "9", *note] for at, note in enumerate(notes)]


def test_a_request_of_unknown_slot_and_number_has_dashes():
    row = {**request(0), "request": None, "slot": None, "lcp": None, "cache_n": None, "simulated": None}
    text = rendered(data([row]), everything=True)
    assert ["-", "-", "1,000", "-", "7", "-", "-", "exact"] in [line.split() for line in text.splitlines()]


def test_the_contents_of_a_log_are_shown_in_short_beside_a_cause():
    contents = {"software": ["Ollama"], "only_others": False, "cache": None, "entries": [], "checkpoints": [],
                "evictions": [], "unknown": [], "runs": [{"first": 1, "last": 9}, {"first": 10, "last": 20}],
                "warnings": [{"line": 7, "text": "low memory"}]}  # fmt: skip
    text = rendered(data(contents=contents))
    assert "Contains lines of Ollama" in text and "server runs: 2 (lines 1-9, 10-20)" in text
    assert 'warning in line 7: "low memory"' in text and "with -v" not in text
    cause = {"kind": "follows", "what": "cause", "run": 0, "slot": 0, "task": 7, "lines": [1], "says": "a",
             "numbers": {"cause": "edited-prompt"}}  # fmt: skip
    short = rendered(data(contents=contents, statements=[cause]))
    assert "server runs: 2" in short and "low memory" not in short and "1 more line about its contents with -v" in short


def test_a_log_without_a_line_has_nothing_simulated():
    assert "Simulated with assumed texts" in rendered(data([request(0)]))
    assert "Simulated with assumed texts" not in rendered(data([request(0)], line=""))


def test_kinds_of_lines_are_listed_only_if_the_contents_show_nothing():
    contents = {"software": ["Ollama"], "only_others": False, "cache": None, "entries": [], "checkpoints": [],
                "evictions": [], "unknown": [], "runs": [], "warnings": []}  # fmt: skip
    read = {"kind": "read", "what": "launch", "run": 0, "slot": 0, "task": 7, "lines": [1], "says": "a", "numbers": {}}
    listed = "kinds of lines: launch 1 (line 1)"
    assert listed in rendered(data(statements=[read], contents={**contents, "software": []}))
    short = rendered(data(statements=[read], contents=contents))
    assert listed not in short and "Contains lines of Ollama" in short


def test_a_first_line_that_follows_from_the_log_is_printed_once():
    ended = {"kind": "follows", "what": "ended", "run": 0, "slot": None, "task": None, "lines": [3], "says": "it ends",
             "numbers": {}}  # fmt: skip
    lines = [{"what": "ended", "says": "Line 3: it ends.", "lines": [3]}, {"what": "next", "says": "go", "lines": []}]
    text = rendered(data(statements=[ended], first_lines=lines))
    assert text.count("Line 3: it ends.") == 1 and text.count("go\n") == 1


def test_counts_are_aligned_and_whole():
    lines = rendered(data([request(0), request(1, n_tokens=12)]), everything=True).splitlines()
    first, second = (next(line for line in lines if line.split()[:2] == [number, "0"]) for number in "01")
    assert first.split()[2:7] == ["1,000", "5", "7", "8", "9"] and second.split()[2:7] == ["12", "5", "7", "8", "9"]
    assert first.index("1,000") + 5 == second.index("12") + 2


def test_the_rows_of_a_part_of_the_report_follow_each_other():
    shown = rendered(data([request(0)], missing=["the first note", "the second"]))
    assert shown.endswith("\n\nNot shown by this log:\n  the first note\n  the second\n")


def test_a_single_line_about_adapters_explains_why_a_log_is_not_reproduced():
    lines = [{"line": 4 + at, "what": what, "printed": {"n": 1}, "simulated": None, "by_all": False}
             for at, what in enumerate(("lora_set", "batch"))]  # fmt: skip
    text = "A log does not name adapters or images: the simulated requests have none."
    assert text in rendered(data([request(0)], rejected=True, contradicted=lines))
    assert text not in rendered(data([request(0)], rejected=True, contradicted=lines[1:]))
