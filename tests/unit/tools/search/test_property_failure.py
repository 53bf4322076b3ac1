"""Tests of findings: sentences are made from kind and numbers, and crashes are reported with a shortened traceback."""

from __future__ import annotations

import json
from unittest.mock import patch

import pytest

from cachesim.base import exits
from cachesim.base.errors import CAUSE
from cachesim.cli.main import main
from cachesim.judging.fault_kinds import SENTENCES, FaultKind
from cachesim.scenarios.load import load
from cachesim.tools.search.property_failure import PropertyFailure, exit_code, parse_finding
from cachesim.tools.search.run_properties import INNER, OUTER, SIMULATOR, USERS_RULE, WIDE, crashed
from tests.unit.tools.search.test_campaign import planted

SAID = [
    (PropertyFailure("limits", 2, FaultKind.EXCEEDED,
                     {"holder": "slot 1 has", "held": 4, "what": "checkpoints", "most": 3}, "checkpoints"),
     "checkpoints", "slot 1 has 4 checkpoints, limit 3"),
    (PropertyFailure("limits", 2, FaultKind.EXCEEDED, {"holder": "", "held": 4, "what": "rows decoded", "most": 3},
                     "rows decoded"),
     "rows decoded", "4 rows decoded, limit 3"),
    (PropertyFailure("seq-rm-atomic", 1, FaultKind.TORN,
                     {"seq": 0, "p0": 3, "p1": 9, "answer": "refused", "before": 9, "after": 3}),
     "seq_rm", "seq_rm(0, 3, 9) was refused: 9 rows before, 3 after"),
    (PropertyFailure("memory-sound", 1, FaultKind.GAP, {"seq": 2, "gap": 4}),
     "gap", "positions of sequence 2 have a gap of 4"),
    (PropertyFailure("memory-sound", 1, FaultKind.ERASED, {"slot": 0, "rows": 4}),
     "erase", "slot 0 was erased and has 4 rows"),
    (PropertyFailure("accounting", 1, FaultKind.MISCOUNTED, {"found": 3, "evaluated": 4, "prompt": 9}, "R"), "R",
     "3 reused and 4 evaluated of 9 tokens"),
    (PropertyFailure("no-lost-conversation", 1, FaultKind.CONSUMED, {"tokens": 9, "at": 0}, "R"), "R",
     "9 tokens were removed from the prompt cache on load, at request 0"),
    (PropertyFailure("monotone", 1, FaultKind.LESS,
                     {"some": 1, "option": "cache_ram", "before": 9, "plenty": 32, "after": 4}, "cache_ram"),
     "cache_ram", "1 cache_ram: 9 reused; 32: 4"),
    (PropertyFailure("answered", 1, "bad-batch", {"error": "Invalid input batch.", "status": 500}, "R"),
     "Invalid input batch. R", "Invalid input batch."),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "label", "text"), SAID, ids=[one.kind for one, _, _ in SAID])
def test_words_come_last(finding, label, text):
    assert (finding.label, finding.text) == (label, text)
    longer = {name: 77 if isinstance(value, int) else value for name, value in finding.numbers.items()}
    assert finding._replace(numbers=longer).group == finding.group
    assert finding._replace(numbers=longer).text != text or finding.name == "answered"


def test_no_sentence_is_a_kind_of_another_property():
    assert set(SENTENCES) == set(FaultKind) and len(set(SENTENCES.values())) == len(SENTENCES)


def deep(n):
    if not n:
        raise ValueError("x" * 1000)
    deep(n - 1)


def test_a_long_traceback_is_told_from_both_ends():
    with pytest.raises(ValueError) as error:
        deep(200)
    found = crashed(error.value)
    assert len(found.causes) == OUTER + 1 + INNER and max(map(len, found.causes)) <= WIDE
    assert found.causes[OUTER].startswith("... ") and found.causes[OUTER].endswith(" frames left out ...")
    assert 'raise ValueError("x" * 1000)' in found.causes[-1]
    assert len(found.text) == CAUSE


def test_a_crash_is_exit_70_and_its_file_says_where(capsys, tmp_path):
    """A crash is shrunk like any failure; the traceback is in its file and in JSON."""
    argv = ["fuzz", "-p", "llama_cpp@b10587", "--property", "survives", "--examples", "4", "--out", str(tmp_path)]
    with patch("cachesim.engines.llama_cpp.server.Server.submit", planted):
        code = main([*argv, "--json"])
    [one] = json.loads(capsys.readouterr().out)["failures"]
    assert (code, one["property"], one["kind"], one["requests"]) == (exits.CRASH, "simulator", "IndexError", 2)
    assert (one["numbers"], one["rule"]) == ({"error": "list index out of range"}, "IndexError in submit")
    [file] = tmp_path.glob("*.toml")
    assert [line[2:] for line in file.read_text().splitlines() if line.startswith("# ")] == one["causes"]
    assert load(file).id == file.stem


def test_a_campaign_of_an_older_form_or_of_other_code_is_refused_in_one_line(capsys, tmp_path):
    argv = ["fuzz", "-p", "ik_llama@1889-base", "--property", "warm-equals-cold", "--model", "GA", "--examples", "2",
            "--no-shrink", "--out", str(tmp_path), "--resume"]  # fmt: skip
    main(argv)
    [file] = tmp_path.glob("campaign-*.json")
    data = json.loads(file.read_text())
    assert data["failures"][0]["finding"]["kind"]
    older = {**data, "failures": [{**one, "finding": ["p", 0, "rule", "text", []]} for one in data["failures"]]}
    wrong = {**data, "failures": [{**one, "finding": {**one["finding"], "numbers": {}}} for one in data["failures"]]}
    other = {**data, "cachesim": data["cachesim"].partition("+")[0]}
    for broken in ({name: value for name, value in older.items() if name != "form"}, older, wrong, other):
        file.write_text(json.dumps(broken))
        capsys.readouterr()
        assert main(argv) == exits.BAD_INPUT
        assert f"{file}: not a campaign: " in (err := capsys.readouterr().err) and err.count("\n") == 1


@pytest.mark.parametrize(("finding", "label"), [
    (PropertyFailure(USERS_RULE, 0, "KeyError", {"error": "x"}, "MY-RULE"), "KeyError at MY-RULE"),
    (PropertyFailure(SIMULATOR, 0, "KeyError", {"error": "x"}, "submit"), "KeyError in submit"),
    (PropertyFailure(SIMULATOR, 0, "KeyError", {"error": "x"}), "KeyError"),
    (PropertyFailure(SIMULATOR, 0, FaultKind.DIED, {"first": 0, "last": 9, "seed": 1, "how": "x"}), "a process died"),
    (PropertyFailure("memory-sound", 0, FaultKind.INCONSISTENT, {"error": "x"}), "check"),
    (PropertyFailure("survives", 0, "k", {"error": "row 5 of 9: gone"}), "row n of n"),
    (PropertyFailure("monotone", 0, FaultKind.LESS, {}, "R"), "R"),
])  # fmt: skip
def test_a_group_has_its_label(finding, label):
    assert finding.label == label


@pytest.mark.parametrize(("name", "code"), [
    (SIMULATOR, exits.CRASH), (USERS_RULE, exits.BAD_INPUT), ("survives", exits.BROKEN)])
def test_a_finding_has_its_exit_code(name, code):
    assert exit_code(name) == code


DATA = {"name": "survives", "step": 1, "kind": "k", "numbers": {"error": "x"}, "deciding": "R", "stored": "",
        "causes": ["a", 5]}  # fmt: skip


def test_a_stored_finding_is_read():
    assert parse_finding(DATA) == PropertyFailure("survives", 1, "k", {"error": "x"}, "R", "", ("a", "5"))


@pytest.mark.parametrize(("change", "error"), [
    ({"numbers": [1]}, TypeError), ({"numbers": {}}, KeyError), ({"numbers": {"error": ""}}, ValueError),
    ({"numbers": {"error": ":x"}}, ValueError), ({"step": "x"}, ValueError), ({"causes": 5}, TypeError),
])  # fmt: skip
def test_a_broken_finding_is_refused(change, error):
    with pytest.raises(error):
        parse_finding({**DATA, **change})
