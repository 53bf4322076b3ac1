"""Sentences about flags that change answers with the newest memories, in the advice for a case."""

import json

import pytest

from cachesim.cli.main import main

NOTES = {
    "deepseek32 --cache-reuse 16": "index keys of moved tokens are spoilt", "deepseek32": "",
    "minimax-m3": "all rows are read instead of the chosen blocks", "minimax-m3 -np 1": "",
    "deepseek4 -np 2 -kvu": "gives each of 2 slots the whole context", "A --cache-reuse 16": "",
    "AA@3000/0/84 -ctk q8_0 --cache-reuse 16": "moving quantized rows of 84 numbers ends the process",
}  # fmt: skip


@pytest.mark.parametrize(("words", "told"), NOTES.items())
def test_flags_behind_known_faults_are_noted(capsys, words, told):
    model, *flags = words.split()
    assert main(["advise", "A4/A", "--model", model, *flags, "--json"]) in (0, 1)
    [found] = json.loads(capsys.readouterr().out)["advise"]
    assert (told in " ".join(found["notes"])) and bool(found["notes"]) is bool(told)
    main(["advise", "A4/A", "--model", model, *flags])
    assert ("note: " in capsys.readouterr().out) is bool(told)
