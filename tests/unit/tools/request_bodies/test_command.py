"""Conversations of request bodies for `advise`: which repairs are excluded."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.request_bodies.changed_messages import EDITED, OTHER_PLACE
from cachesim.tools.request_bodies.changed_text import BILLING, DATE
from cachesim.tools.request_bodies.changed_tools import KEYS, ORDER
from cachesim.tools.request_bodies.command import bodies_case, repair_case
from cachesim.tools.request_bodies.import_scenario import ScenarioWords, TokenRequest
from cachesim.tools.request_bodies.prompt_causes import CHANGED, NEW
from cachesim.tools.run.arguments import CaseOptions
from tests.unit.tools.request_bodies.made import LONG, chat

UNCHANGED, LAST, ORDERED = "unchanged history", "changing part last", "constant order"


def scenario_text():
    words = ScenarioWords()
    steps = [words.add(TokenRequest(9, -1, 0, 1))]
    head = {"id": "x", "title": "t", "why": "w", "source": ["cachesim"], "engine": "llama_cpp", "model": "A",
            "profiles": ["llama_cpp@b11549"]}  # fmt: skip
    return to_toml(head, {}, words.words, steps)


@pytest.mark.parametrize(("causes", "excluded"), [
    ([], {UNCHANGED, ORDERED}), ([DATE], {UNCHANGED, ORDERED}), ([DATE, BILLING, CHANGED], {UNCHANGED, ORDERED}),
    ([EDITED], {LAST, ORDERED}), ([DATE, EDITED], {ORDERED}), ([ORDER], {LAST}), ([KEYS, DATE], set()),
    ([OTHER_PLACE], {LAST}),
])  # fmt: skip
def test_a_repair_that_cannot_help_is_excluded(causes, excluded):
    every = [{"cause": cause, "harmless": False} for cause in causes] + [{"cause": NEW, "harmless": True}]
    case = repair_case({"causes": every}, scenario_text())
    assert (case.excluded, len(case.scenario.steps)) == (excluded, 1)


def test_bodies_are_simulated_under_the_first_rule_set_with_its_options(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_text("".join(f"{json.dumps(chat('hello'))}\n" for _ in range(2)))
    case = bodies_case(file, CaseOptions("GA", ["mlx_lm@0.32.2", "llama_cpp@b11549"], ["parallel=3"]))
    assert (case.scenario.profiles, case.scenario.model, case.scenario.server) == (("mlx_lm@0.32.2",), "GA", {})
    case = bodies_case(file, CaseOptions(settings=["parallel=3"]))
    assert (case.scenario.engine, case.scenario.server) == ("llama_cpp", {"parallel": 3})


def test_advise_says_what_import_says_that_a_cure_saves(tmp_path, capsys):
    file = tmp_path / "x.jsonl"
    said = "hello", "and then", "go on", "it ends", "why?"
    dated = [chat(*said[: 2 * n + 1], system=f"It is 10:0{n}. {LONG}") for n in range(3)]
    file.write_text("".join(f"{json.dumps(one)}\n" for one in dated))
    assert main(["import", str(file), "--json", "--model", "A"]) == 0
    cure = json.loads(capsys.readouterr().out)["bodies"]["cure"]
    main(["advise", str(file), "-p", "llama_cpp@b11549", "--json", "--model", "A"])
    [advised] = json.loads(capsys.readouterr().out)["advise"]
    [proposed] = advised["proposed"]
    assert (proposed["cause"], proposed["outcome"], proposed["saved"]) == ("date", "saves", cure["saved"])
    assert cure["saved"] > 0 and advised["base"]["evaluated"] == cure["evaluated"]


def test_bodies_without_a_request_to_simulate_are_refused(tmp_path, lift):
    lift(WORD_LENGTH=1000)
    file = tmp_path / "x.jsonl"
    file.write_text(f"{json.dumps(chat('a b c d ' * 600))}\n")
    with pytest.raises(BadInput, match=r"x.jsonl: no request can be simulated: .*request 0: 1,3\d\d tokens"):
        bodies_case(file, CaseOptions())


@pytest.mark.parametrize("with_text", [False, True])
def test_a_scenario_is_written_that_quotes_texts_only_if_asked(tmp_path, capsys, with_text):
    file, out = tmp_path / "x.jsonl", tmp_path / "case.toml"
    file.write_text("".join(f"{json.dumps(chat('hello', system=f'Today is 2026-11-2{n}.'))}\n" for n in (1, 2)))
    assert main(["import", str(file), "-o", str(out), *["--with-text"] * with_text]) == 0
    text = out.read_text("utf-8")
    assert 'id = "case"' in text and ("Before: " in text) is with_text
