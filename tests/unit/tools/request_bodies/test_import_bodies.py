"""Output, scenario file and simulation of an import; a change planted anywhere is found at its byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base import limits
from cachesim.base.tokens import common_prefix
from cachesim.cli.main import main
from cachesim.scenarios.load import load
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body import common_bytes, encoded
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies
from cachesim.tools.request_bodies.import_scenario import ScenarioWords
from cachesim.tools.request_bodies.import_scenario import TokenRequest as Asked
from cachesim.tools.request_bodies.plain_render import render_plain
from cachesim.tools.request_bodies.prompt_causes import CAUSES
from cachesim.tools.request_bodies.request_diff import link_requests
from cachesim.tools.request_bodies.tokenizer import EstimatingTokenizer
from tests.unit.tools.request_bodies.made import LONG, TOOLS, chat, found

AGENT = Path(__file__).with_name("agent.jsonl")


@pytest.fixture(autouse=True)
def limits_of_the_table():
    yield
    limits.lift({})


def test_the_report_starts_with_the_result_then_cause_evidence_and_advice(capsys):
    assert main(["import", str(AGENT)]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 80 or "cachesim" in line for line in out.splitlines()) and out.isascii()
    text = " ".join(out.split())
    parts = "requests 1, 3: messages[0].content at character 54", "~719 of ~1,177", "~689 of ~1,177"
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert text.startswith("The date or time in the system prompt") and "026-11-21 10:00." in text


def test_a_request_to_another_model_than_the_one_before_is_marked(tmp_path):
    file = tmp_path / "chat.jsonl"
    models = ["m", "n", "n", "m"]
    messages = [{"role": "user", "content": "a question"}]
    file.write_text("".join(json.dumps({"model": model, "messages": messages}) + "\n" for model in models))
    data, _ = import_bodies([file], ImportOptions())
    assert [row["model_changed"] for row in data["requests"]] == [False, True, False, True]
    assert [row["previous"] for row in data["requests"]] == [-1, 0, 1, 2]


def test_the_file_runs_and_reuses_the_reported_tokens(tmp_path, capsys):
    out = tmp_path / "case.toml"
    assert main(["import", str(AGENT), "-o", str(out), "--json", "-q", "--model", "A"]) == 0
    data = json.loads(capsys.readouterr().out)["bodies"]
    assert main(["run", str(out), "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)["runs"]
    assert [one["cache_n"] for one in run["requests"]] == [one["simulated"] for one in data["requests"]]
    assert [one["prompt_n"] + one["cache_n"] for one in run["requests"]] == [one["tokens"] for one in data["requests"]]
    total = data["simulation"]
    assert total["tokens"] == total["reused"] + total["new_tokens"] + total["again"] + total["not_kept"]
    assert load(out).words == load(out).words and data["toml"] == out.read_text()


def test_the_scenario_contains_text_only_on_request(tmp_path):
    secret = "Xylophone-secret"
    bodies = [chat("hello", system=f"{LONG}{secret} 10:0{minute} {LONG}") for minute in (0, 1)]
    file = tmp_path / "secret-name.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in bodies))
    for with_text in (False, True):
        _, text = import_bodies([file], ImportOptions(with_text=with_text))
        assert (LONG[:20] in text) == with_text
        assert secret not in text


def test_an_existing_file_is_kept(tmp_path, capsys):
    out = tmp_path / "case.toml"
    out.write_text("mine")
    assert main(["import", str(AGENT), "-o", str(out)]) == 2
    assert "--force overwrites it" in capsys.readouterr().err and out.read_text() == "mine"


def test_wrong_options_give_a_one_line_error(capsys):
    for argv, what in (
        (["--template", "nowhere.jinja"], "no such file"), (["--tokenizer", "nowhere.json"], "no such file"),
        (["-p", "llama_cpp@none"], "unknown"), (["--model", "Q9"], "Q9"), (["--limit=bodies=2"], "at most 2 requests"),
    ):  # fmt: skip
        assert main(["import", str(AGENT), *argv]) == 2
        err = capsys.readouterr().err
        assert what in err and err.count("\n") == 1


def test_the_token_limit_of_a_run_ends_the_simulation_not_the_import(tmp_path, capsys):
    assert main(["import", str(AGENT), "--limit", "tokens=900", "--json", "-q"]) == 0
    data = json.loads(capsys.readouterr().out)["bodies"]
    assert (data["simulation"]["played"], data["simulation"]["not_played"]) == (3, 1)
    assert data["requests"][3]["simulated"] is None
    out = tmp_path / "x.toml"
    out.write_text(data["toml"].replace('id = "import-agent"', 'id = "x"'))
    assert len(load(out).steps) == 3


def test_sub_agents_are_separate_conversations(tmp_path):
    def turns(task, n):
        return [text for i in range(n) for text in (f"{task} step {i} of the plan", f"{task} step {i} is done")]

    bodies = []
    for n in range(1, 5):
        bodies.append(chat(*turns("main", n)[:-1], system=f"Main. 10:0{n} {LONG}"))
        bodies.append(chat(*turns("search", n)[:-1], system=f"Sub. {LONG}"))
    data = found(tmp_path, *bodies)
    assert [one["conversation"] for one in data["requests"]] == [0, 1] * 4
    assert [one["cause"] for one in data["requests"]] == ["new", "new"] + ["date", "extends"] * 3


def test_a_long_prompt_has_a_context_that_holds_it(tmp_path):
    data = found(tmp_path, chat("x" * 600_000), chat("x" * 600_000, "a", "b"))
    assert data["simulation"]["played"] == 2 and data["requests"][0]["tokens"] > 150_000


def test_every_cause_has_words():
    assert all(one.says and "." not in one.says[-1] for one in CAUSES.values())


# --- a change planted anywhere --------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
ROLES = ("user", "assistant")


@st.composite
def planted(draw):
    """A conversation, and a copy with a changed character in a message: bodies, message and character."""
    texts = draw(st.lists(TEXTS, min_size=1, max_size=6))
    number = draw(st.integers(0, len(texts) - 1))
    character = draw(st.integers(0, len(texts[number]) - 1))
    old = texts[number]
    sign = draw(st.characters(codec="utf-8").filter(lambda one: one != old[character]))
    other = [*texts]
    other[number] = old[:character] + sign + old[character + 1 :]
    tools = draw(st.sampled_from(([], TOOLS)))
    return [chat(*some, system=LONG, tools=tools) for some in (texts, other)], number, character


@pytest.mark.long
@given(planted())
def test_a_planted_change_is_found_at_its_byte(case):
    (a, b), number, character = case
    one, other = bodies_of([FoundBody("a", a), FoundBody("b", b)])
    mine, theirs = render_plain(one), render_plain(other)
    at = common_prefix(mine.text, theirs.text)
    x, y = encoded(mine.text), encoded(theirs.text)
    assert common_bytes(mine.text, theirs.text, at) == next(i for i in range(len(x)) if x[i] != y[i])
    texts = a["messages"][number + 1]["content"]
    if not texts.lstrip().startswith("<think>"):
        place = mine.place(at)
        assert (place.path, place.character) == (f"messages[{number + 1}].content", character)


@given(st.data())
def test_words_share_exactly_the_requested_tokens(data):
    words, texts = ScenarioWords(), []
    for number in range(data.draw(st.integers(1, 6))):
        base = data.draw(st.integers(-1, number - 1))
        most = len(texts[base]) if base >= 0 else 0
        prompt = data.draw(st.integers(1, 40))
        common = data.draw(st.integers(0, min(most, prompt)))
        answer = data.draw(st.integers(1, 9))
        asked = words.add(Asked(prompt, base, common, answer, data.draw(st.integers(-1, prompt))))
        tokens = [(piece.word, i) for piece in asked.prompt
                  for i in range(words.words[piece.word] if piece.stop is None else piece.stop)]  # fmt: skip
        assert len(tokens) == prompt
        if base >= 0:
            assert common_prefix(tokens, texts[base]) == common
        texts.append([*tokens, *((asked.answer[0].word, i) for i in range(answer))])


def test_the_token_categories_of_every_prompt_add_up():
    bodies = bodies_of([FoundBody("a", chat("one")), FoundBody("b", chat("two two two", system=f"x{LONG}"))])
    for one in link_requests(bodies, [None, None], EstimatingTokenizer()):
        assert one.tokens == -(-len(encoded(one.text)) // 4) and one.best <= one.tokens
