"""Tests of the report of ``diff``: verdicts, rules, requests and the first decision that differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.console import as_text
from cachesim.cli.main import main
from cachesim.engines.registry import rules_of
from cachesim.engines.shared.rule_set import DESCRIPTION_FIELDS, LOG_FIELDS
from cachesim.events import Decided
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.run.diff_report import SHOWN, _table, diff_data, diff_report, differing_line, percent
from tests.unit.tools.run.made import BROKEN, judgement, run, shown
from tests.unit.tools.table_columns import columns

OTHER = "llama_cpp@b8152"


def compared(mine, theirs, first=(), stored=((), ())):
    """Two runs of the same requests; ``first`` are the decisions of both in request 0, ``stored`` both caches."""
    runs = [run(*mine, stored=list(stored[0])), run(*theirs, profile=OTHER, stored=list(stored[1]))]
    for made, decided in zip(runs, first, strict=False):
        for rule, value in decided:
            made.log.emit(Decided(0, rule, value, {}))
    return diff_data(*runs)


def test_whether_a_request_differs_comes_first_and_then_the_verdicts():
    lines = shown(diff_report(compared([judgement()], [judgement(BROKEN)])))
    assert lines[1:4] == [
        "1 of 1 request differs: 0",
        "A llama_cpp@b10587  correct answer, 0 tokens re-evaluated",
        f"B {OTHER}  wrong answer at request 0, 0 tokens re-evaluated",
    ]


def test_the_rules_that_differ_are_counted_and_named():
    data = compared([judgement()], [judgement()])
    found = data["rules"]
    assert 0 < len(found["changes"]) < found["count"]
    lines = shown(diff_report(data, 1))
    assert f"{len(found['changes'])} of {found['count']} rules differ" in lines
    assert all(any(line.startswith(f"{one['field']}: ") for line in lines) for one in found["changes"])


def test_only_requests_that_differ_are_shown_unless_all_are_wanted():
    data = compared([judgement(), judgement(cache_n=3, prompt_n=7)], [judgement(), judgement(cache_n=7, prompt_n=3)])
    lines = shown(diff_report(data))
    assert "1 of 2 requests differs: 1" in lines
    [row] = [line for line in lines if line.startswith("1 B")]
    assert row.split()[2:9] == ["10", "3", "->", "7", "7", "->", "3"]
    assert not any(line.startswith("0 A") for line in lines)
    assert any(line.startswith("0 A") for line in shown(diff_report(data, 1)))


@pytest.mark.parametrize(("text", "cell"), [("A" * 40, "A" * 40), ("A" * 41, "A" * 39 + "…")])
def test_the_text_of_a_request_is_at_most_forty_characters_long(text, cell):
    request = {**compared([judgement()], [judgement()])["a"]["requests"][0], "text": text}
    assert [str(shown) for shown in _table([(request, request)], 200).columns[1].cells] == [cell]


def test_totals_and_their_share():
    lost = [(0, 3, "erased", "R.1", -1, "checkpoint"), (0, 4, "evicted", "R.2", 0, "entry")]
    data = compared([judgement(prompt_n=8, charges=lost)], [judgement(prompt_n=4, charges=lost[:1])])
    assert "evaluated in all: 8 -> 4 tokens (-50.0 %); re-evaluated: 7 -> 3" in shown(diff_report(data))


def test_the_prompt_caches_at_the_end_where_they_differ():
    same = compared([judgement()], [judgement()], stored=([(0, 9)], [(0, 9)]))
    assert "prompt cache at the end" not in shown(diff_report(same))
    lines = shown(diff_report(compared([judgement()], [judgement()], stored=([(0, 9), (-1, 4)], []))))
    at = lines.index("prompt cache at the end")
    assert lines[at + 1 : at + 3] == ["A 9 tokens of request 0, 4 tokens of an older conversation", "B empty"]


def test_the_first_decision_with_another_answer_is_told_and_variants_of_one_rule_are_alike():
    same = ("LC-NONE.A", 1), ("LC-NONE.B", 1)
    data = compared([judgement()], [judgement()], ([same[0], ("R.1", 5)], [same[1], ("R.1", 6)]))
    assert (data["first"]["request"], data["first"]["a"]["rule"]) == (0, "R.1")
    assert data["first"]["a"]["says"].startswith("5") and data["first"]["b"]["says"].startswith("6")
    assert "first difference at request 0" in shown(diff_report(data))


def test_runs_that_decide_alike_part_nowhere():
    data = compared([judgement()], [judgement()], ([("R.1", 5)], [("R.2", 5)]))
    assert data["first"] is None and shown(diff_report(data))[-1] == "all decisions with an effect are equal"
    assert shown(diff_report(data))[1] == "no request differs (of 1)"


def test_decisions_without_an_effect_do_not_differ():
    plans = [("LC-NPAST-ONE", 5)], [("LC-NPAST-ONE", 6)]
    because = [{"n_tokens": 9, "n_past": value} for [(_, value)] in plans]
    runs = [run(judgement()), run(judgement(), profile=OTHER)]
    for made, [(rule, value)], numbers in zip(runs, plans, because, strict=True):
        made.log.emit(Decided(0, rule, value, numbers))
    assert diff_data(*runs)["first"] is None
    runs[1].log.emit(Decided(0, "R.1", 1, {}))
    runs[0].log.emit(Decided(0, "R.1", 2, {}))
    assert diff_data(*runs)["first"]["a"]["rule"] == "R.1"


def test_without_profiles_a_reported_bug_is_compared_with_its_fix(capsys):
    assert main(["diff", "llama-17527-two-agents-dense"]) == 0
    out = capsys.readouterr().out
    assert "A llama_cpp@b7400 " in out and "B llama_cpp@b7789 " in out
    assert main(["diff", "A5/A"]) == 2 and "two different profiles" in capsys.readouterr().err
    assert main(["diff", "llama-17527-two-agents-dense", "-p", "llama_cpp@b7400"]) == 2


def first_difference(name, *profiles):
    """The first decision that differs in a bundled scenario."""
    runs = [run_judged(load(corpus_files()[name]), profile, "provenance") for profile in profiles]
    data = diff_data(*runs)
    return data["first"]["request"], data["first"]["together"], shown(diff_report(data))


def test_of_requests_sent_together_each_has_its_own_first_decision_that_differs():
    """Request 3 is launched in the slot that request 0 has left."""
    name = "llama-23720-checkpoint-too-large-window"
    request, together, lines = first_difference(name, "llama_cpp@b9231", "llama_cpp@b9473")
    assert (request, together) == (3, []) and "first difference at request 3" in lines


def test_a_decision_without_a_slot_is_that_of_all_requests_sent_together():
    name = "mlx-1169-joined-chat-continues-first-hybrid"
    request, together, lines = first_difference(name, "mlx_lm@m1072-metal", "mlx_lm@0.31.3")
    assert (request, together) == (0, [0, 1]) and "first difference at requests 0 to 1, sent together" in lines


def test_memory_that_the_server_does_not_count_is_compared():
    theirs = judgement()
    theirs.uncounted = 2000
    lines = shown(diff_report(compared([judgement()], [theirs])))
    assert "uncounted memory after request 0: 0 -> 2,000 bytes" in lines


CHANGE = {"field": "f", "old": "a", "new": "b", "source": ""}


def with_changes(number, verbose=0, **change):
    """Return the lines about rules, of so many changes."""
    data = compared([judgement()], [judgement()])
    data["rules"] = {"count": 20, "changes": [{**CHANGE, "field": f"f{n}", **change} for n in range(number)]}
    lines = shown(diff_report(data, verbose))
    return [line for line in lines if line.startswith(("f", "and ")) or " of 20 rules " in line]


def test_some_rules_are_named_and_the_others_counted():
    assert with_changes(1) == ["1 of 20 rules differs", "f0: a -> b"]
    assert with_changes(1, source="#12")[1:] == ["f0: a -> b (#12)"]
    names = [f"f{n}: a -> b" for n in range(SHOWN + 2)]
    assert with_changes(SHOWN) == [f"{SHOWN} of 20 rules differ", *names[:SHOWN]]
    assert with_changes(SHOWN + 2)[1:] == [*names[:SHOWN], "and 2 more (-v, or cachesim profiles diff)"]
    assert with_changes(SHOWN + 2, verbose=1)[1:] == names


def test_the_requests_that_differ_are_counted_and_named():
    assert differing_line([], 3).plain == "no request differs (of 3)"
    assert differing_line([{"request": 2}], 3).plain == "1 of 3 requests differs: 2"
    assert differing_line([{"request": 0}, {"request": 2}], 3).plain == "2 of 3 requests differ: 0, 2"


def test_a_change_in_percent_needs_a_first_value():
    assert [percent(8, 4), percent(3, 4), percent(3, 3, 2), percent(0, 5), percent(100, 101, 0)] == [
        " (-50.0 %)", " (+33.3 %)", " (+0.00 %)", "", " (+1 %)"]  # fmt: skip


def test_another_observable_than_the_table_shows_has_a_line():
    other = judgement(tokens_cached=5)
    lines = shown(diff_report(compared([judgement(tokens_cached=4)], [other])))
    assert any(line.startswith("request 0 ") and "4 -> 5" in line for line in lines)
    both = compared([judgement(tokens_cached=4)], [judgement(cache_n=3, prompt_n=7, tokens_cached=5)])
    assert not any(line.startswith("request 0 ") for line in shown(diff_report(both)))
    more = [line for line in shown(diff_report(both, 1)) if line.startswith("request 0 ")]
    assert len(more) == len(both["observed"][0]["differs"]) > 1


def test_a_wrong_answer_has_its_fault_below_its_run():
    data = compared([judgement()], [judgement(BROKEN)])
    data["b"]["requests"][0]["read_instead"] = ["read this", "and that"]
    lines = as_text(diff_report(data)).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("B llama"))
    assert lines[at + 1].strip().startswith("request 0:") and lines[at + 2].rstrip() == "    request 0 read this"
    assert "and that" not in "".join(lines)


def test_equal_flags_are_printed_once_and_a_title_only_for_a_file():
    data = compared([judgement()], [judgement()])
    flags = {"default": ["-c 5"], "set": [], "derived": []}
    for name in "ab":
        data[name]["flags"] = flags
    assert as_text(diff_report(data)).splitlines()[:2] == ["try", "flags: -c 5"]
    data["b"]["flags"] = {**flags, "default": ["-c 6"]}
    data["scenario"], data["title"] = "file", "a title"
    assert as_text(diff_report(data)).splitlines()[:4] == ["file", "a title", "A flags: -c 5", "B flags: -c 6"]


def test_an_equal_reason_and_verdict_are_shown_once():
    data = compared([judgement(cache_n=3, prompt_n=7)], [judgement(BROKEN, cache_n=3, prompt_n=7)])
    for name in "ab":
        data[name]["requests"][0]["reason"] = "why"
    [row] = [line for line in shown(diff_report(data)) if line.startswith("0 A")]
    assert row.split()[2:5] == ["10", "3", "7"] and row.endswith("why") and "why ->" not in row
    assert " -> WRONG" in row


def test_rules_and_decisions_of_two_engines_are_not_compared():
    mlx = run(judgement(cache_n=4), profile="mlx_lm@0.32.2")
    mlx.scenario = replace(mlx.scenario, engine="mlx_lm", profiles=("mlx_lm@0.32.2",))
    data = diff_data(run(judgement()), mlx)
    assert (data["rules"], data["first"]) == (None, None)
    assert shown(diff_report(data))[-1] == "rules and decisions of two engines are not compared"
    assert [one["request"] for one in data["observed"]] == [0]


def test_of_requests_sent_together_the_first_decision_in_the_log_is_named():
    line = from_line("A20/B20{together}", model="A", server={"parallel": 2})
    runs = [run_judged(line, "llama_cpp@b10587", "provenance") for _ in range(2)]
    events = runs[1].log.events
    places = [i for i, event in enumerate(events) if isinstance(event, Decided) and event.rule == "LC-NPAST-LCP"]
    assert [events[place].slot for place in places] == [0, 1] and runs[1].requests[1].answer.id_slot == 0
    for place in places:
        events[place] = replace(events[place], rule="X.1")
    first = diff_data(*runs)["first"]
    assert (first["request"], first["together"], first["a"]["rule"], first["b"]["rule"]) == (
        1, [], "LC-NPAST-LCP", "X.1")  # fmt: skip


def test_uncounted_memory_is_that_after_the_last_request_where_it_differs():
    mine, theirs = [judgement(), judgement(), judgement()], [judgement(), judgement(), judgement()]
    for number, size in ((0, 1000), (1, 2000)):
        theirs[number].uncounted = size
    lines = [line for line in shown(diff_report(compared(mine, theirs))) if "uncounted" in line]
    assert lines == ["uncounted memory after request 1: 0 -> 2,000 bytes"]
    assert not any("uncounted" in line for line in shown(diff_report(compared(mine, mine))))


def test_numbers_of_requests_are_aligned_at_their_last_digit():
    data = compared([judgement(cache_n=3, prompt_n=7), judgement(n=12, cache_n=4, prompt_n=8)],
                    [judgement(cache_n=3, prompt_n=7), judgement(n=12, cache_n=11, prompt_n=1)])  # fmt: skip
    pairs = list(zip(data["a"]["requests"], data["b"]["requests"], strict=True))
    lines = [line.rstrip() for line in as_text(_table(pairs, 80)).splitlines()]
    assert lines[0].split()[:5] == ["#", "request", "prompt", "reused", "evaluated"]
    ends = [lines[0].index(name) + len(name) for name in ("prompt", "reused", "evaluated")]
    for line, cells in ((lines[1], ("10", "3", "7")), (lines[2], ("12", "4 -> 11", "8 -> 1"))):
        assert all(line[:end].rstrip().endswith(cell) for end, cell in zip(ends, cells, strict=True))
        assert line[: ends[0]].endswith(cells[0]) and line[: ends[2]].endswith(cells[2])


def test_the_table_has_a_head_for_every_column():
    data = compared([judgement()], [judgement()])
    pairs = list(zip(data["a"]["requests"], data["b"]["requests"], strict=True))
    assert columns(_table(pairs, 80)) == [
        ("#", "number"), ("request", "folded 7"), ("prompt", "number"), ("reused", "number"), ("evaluated", "number"),
        ("answer", "text"), ("reason", "text")]  # fmt: skip


def test_lines_about_requests_are_indented_alike():
    data = compared([judgement(tokens_cached=4)], [judgement(tokens_cached=5)])
    lines = [[line for line in as_text(diff_report(data, verbose)).splitlines() if "4 -> 5" in line]
             for verbose in (0, 1)]  # fmt: skip
    assert lines[0] == lines[1] and lines[0][0].startswith("  request 0 ")


def test_rules_that_only_change_the_log_are_counted_only_if_it_is_compared():
    fields = {name.partition(".")[0]: name for name in rules_of(OTHER).fields()}
    assert LOG_FIELDS & fields.keys() and DESCRIPTION_FIELDS & fields.keys()
    every = [name.partition(".")[0] for name in rules_of("llama_cpp@b10587").fields()]
    found = [diff_data(run(judgement()), run(judgement(), profile=OTHER), log)["rules"]["count"]
             for log in (False, True)]  # fmt: skip
    assert diff_data(run(judgement()), run(judgement(), profile=OTHER))["rules"]["count"] == found[0]
    assert found == [sum(name not in hidden for name in every)
                     for hidden in ({*DESCRIPTION_FIELDS, *LOG_FIELDS}, DESCRIPTION_FIELDS)]
