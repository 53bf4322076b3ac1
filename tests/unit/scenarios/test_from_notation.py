"""Tests of scenarios from lines in notation and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.tools.search.drawn_conversation import draw_conversation

WORDS = {"S": 40, "A": 60, "long_name": 7, "x": 1}


@st.composite
def piece(draw, user=True):
    word = draw(st.sampled_from(sorted(WORDS)))
    length = WORDS[word]
    start = draw(st.integers(0, length - 1))
    stop = draw(st.integers(start + 1, length))
    whole = (start, stop) == (0, length) or draw(st.booleans())
    cut = "" if whole else f"[{start or ''}:{stop if stop < length else ''}]"
    return ("|" if user and draw(st.booleans()) else "", word, cut)


@st.composite
def lines(draw):
    """A canonical line: words get their length at first use."""
    seen = set()

    def spell(pieces):
        parts = []
        for bar, word, cut in pieces:
            size = "" if word in seen else WORDS[word]
            seen.add(word)
            parts.append(f"{bar}{word}{size}{cut}")
        return ".".join(parts)

    out = []
    for _ in range(draw(st.integers(1, 4))):
        text = spell(draw(st.lists(piece(), min_size=1, max_size=4)))
        kind = draw(st.sampled_from(["", "count", "answer"]))
        if kind == "count":
            text += f">{draw(st.integers(2, 9))}"
        if kind == "answer":
            text += f">{spell(draw(st.lists(piece(user=False), min_size=1, max_size=3)))}"
        out.append(text + draw(st.sampled_from(["", "!", "@0", "!@3"])))
    return "/".join(out)


@settings(max_examples=40)
@given(lines())
def test_round_trip(line):
    scenario = from_line(line)
    assert repr(scenario) == line
    assert from_line(repr(scenario)) == scenario


@settings(max_examples=40)
@given(lines())
def test_a_file_says_the_same_as_its_line(tmp_path_factory, line):
    """The line's scenario written as a file, with words in the order of first use, has the same steps."""
    scenario = from_line(line)
    text = [
        'id = "f"', 'title = "t"', 'source = ["x"]', 'why = "w"', 'engine = "llama_cpp"', 'model = "GGGA"',
        'profiles = ["llama_cpp@b10587"]', "[words]", *(f"{word} = {n}" for word, n in scenario.words.items()),
    ]  # fmt: skip
    for step in scenario.steps:
        _, tail = step.text[: len(step.prompt)], step.text[len(step.prompt) :]
        answer = tail.partition(">")[2].partition("!")[0].partition("@")[0]
        text += ["[[request]]", f'prompt = "{step.prompt}"', f"cache_prompt = {'false' if '!' in tail else 'true'}"]
        text += [f"id_slot = {step.request.id_slot}"]
        if answer:
            text += [f"n_predict = {answer}" if answer.isdigit() else f'answer = "{answer}"']
    file = tmp_path_factory.mktemp("line") / "f.toml"
    file.write_text("\n".join(text))
    assert load(file).steps == scenario.steps
    assert repr(load(file)) == line


def test_a_line_in_full():
    scenario = from_line("S40.A60>r4.q2/B80/S.C50[:9]@1/S40.|A.x5>3!")
    first, second, third, fourth = (step.request for step in scenario.steps)
    assert first.prompt == (*range(1000, 1040), *range(1_001_000, 1_001_060))
    assert first.forced == (*range(2_001_000, 2_001_004), 3_001_000, 3_001_001)
    assert (first.n_predict, first.id_slot, first.cache_prompt) == (6, -1, True)
    assert (second.forced, second.n_predict) == (None, 1)
    assert (third.id_slot, len(third.prompt)) == (1, 49)
    assert (fourth.user_starts, fourth.n_predict, fourth.cache_prompt) == ((40,), 3, False)


def test_tokens_do_not_depend_on_lengths():
    short, long = from_line("S40.A6"), from_line("S4000.A6")
    assert short.steps[0].request.prompt[40:] == long.steps[0].request.prompt[4000:]
    assert short.steps[0].request.prompt[:40] == long.steps[0].request.prompt[:40]


@pytest.mark.parametrize("written", ["S40[0:40]", "S40[:40]", "S40[0:]", " S40 "])
def test_other_spellings_become_canonical(written):
    assert repr(from_line(written)) == "S40"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "request 0: no words"),
        ("S40//B20", "request 1: no words"),
        ("S40/A", "request 1: word 'A' has no length"),
        ("S40.S41", "word 'S' has two lengths, 40 and 41"),
        ("S0", "at least 1"),
        ("S40.", "'' is not a word"),
        ("S-4", "is not a word"),
        ("S40[3]", "is not a word"),
        ("S40[:]", "an empty slice"),
        ("S40[:41]", "out of range"),
        ("S40[9:3]", "out of range"),
        ("||S40", "is not a word"),
        ("S40@x", "cannot be read"),
        ("S40@1>r4", "cannot be read"),
        ("S40>", "no words"),
        ("S40>|r4", "cannot start in an answer"),
        ("S40>9999999", "at most 1,000,000"),
        ("S9999999", "at most 1,000,000"),
        ("S9999999999999", "is not a word"),
        ("S1000000" + "/S" * 32, "all prompts together: 33,000,000 tokens, at most 32,000,000"),
        ("S4{n_cmpl=2", "cannot be read"),
        ("S4{n_cmpl}", "'n_cmpl' in braces cannot be read"),
        ("S4{n_cmpl=2 n_cmpl=2}", "'n_cmpl=2' in braces cannot be read"),
        ("S4{n_cmpl=x}", "n_cmpl must be an integer"),
        ("S4{n_cmpl=-1}", "it must be at least 0"),
        ("S4{n_compl=2}", "unknown key 'n_compl' (did you mean 'n_cmpl'?)"),
        ("S4{drafts=1:2}", "with accepted <= drafted"),
        ("S4{together=1}", "cannot be read"),
        ("S4/S{together+x}", "after must be an integer"),
        ("S4{together}", "request 0: together needs a request before it"),
        ("S4/{restart}/S{together}", "request 2: together needs a request before it"),
        ("S4{cancel_after=1}", "the answer ends after 1"),
        ("S4>2{n_cmpl=2 answers=a3}", "every completion has 2 tokens"),
        ("S4/{sav@0 f}", "request 1: unknown server action 'sav' (did you mean 'save'?)"),
        ("S4/{restore@0 f}", "file 'f' was not saved before"),
        ("S4/{save@0 f g}", "expected 1 to 64 letters"),
        ("S4/{save@0 f percent=5}", "save takes no option"),
        ("S4/{save@0 f}/{restore@0 f percent=101}", "percent is 101, it must be at most 100"),
        ("S4/{save@0 f}/{restore@0 f percent=x}", "percent must be an integer"),
        ("S4/{save f}", "id_slot is missing"),
        ("S4/{restart paralel=2}", "did you mean 'parallel'?"),
    ],
)
def test_bad_lines(line, told):
    with pytest.raises(BadInput) as caught:
        from_line(line)
    assert told in str(caught.value)


@given(st.text(alphabet="SAr40.|/[]:>!@ 1-", max_size=24) | st.text(alphabet="S4/{}=+ n1@sae", max_size=24))
def test_any_text_is_read_or_refused(line):
    try:
        scenario = from_line(line)
    except BadInput as bad:
        assert "\n" not in str(bad)
    else:
        assert from_line(repr(scenario)) == scenario


def test_a_chat_is_read_back_and_goes_through_the_template():
    line = "s:S2+u:a3>r2/s:S+u:a+a:r+u:b1/u:"
    scenario = from_line(line, model="A", profiles=("mlx_lm@d78bf58e",), server={"thinking": True})
    assert repr(scenario) == line
    assert [len(step.request.prompt) for step in scenario.steps] == [20, 33, 10]
    assert [role for role, _ in scenario.steps[1].request.messages] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("engine", ["llama_cpp@b10587", "ik_llama@main", "mlx_lm@0.32.2"])
def test_whatever_the_fuzzer_draws_is_read_back(engine):
    for seed in range(25):
        case = draw_conversation(seed, engine.partition("@")[0])
        line = normal(case.line)
        case = replace(case, words=line.words, asked=line.steps)
        scenario = case.scenario(engine)
        again = from_line(repr(scenario), model=case.model, profiles=(engine,), server=case.server)
        assert repr(again) == repr(scenario)
        assert again.steps == scenario.steps


def test_an_unknown_role_is_named():
    with pytest.raises(BadInput, match="unknown role 'x'"):
        from_line("x:S2", model="A", profiles=("mlx_lm@d78bf58e",))


def test_a_word_of_the_line_invokes_an_adapter():
    scenario = from_line("A20.M3.B4{lora=0:1}", model="A", server={"lora_scaled": "0@M, 1"})
    assert scenario.server["lora_scaled"] == "0@1001000.1001001.1001002, 1"
    assert scenario.steps[0].request.prompt[20:23] == (1001000, 1001001, 1001002)


def test_rule_sets_of_a_line_belong_to_one_engine():
    with pytest.raises(BadInput, match="'ik_llama@main' is not a profile of the engine 'llama_cpp'"):
        from_line("A1", profiles=("llama_cpp@b11549", "ik_llama@main"))
    with pytest.raises(BadInput, match="is not a profile of the engine 'llama_cpp'"):
        from_line("A1", profiles=("llama_cpp",))


def test_a_line_is_named_by_itself_and_a_file_by_its_id():
    line = from_line("A9/A.B2", model="GA")
    assert (line.name, line.id) == ("A9/A.B2", "try")
    assert replace(line, file="a.toml").name == "try"


@pytest.mark.parametrize("text", [
    "nothere.log", "server.log.1", "A40.json", "my log.txt", "./x/y", "/var/log/A40", "logs/server", "C:\\logs\\a.log",
])  # fmt: skip
def test_a_path_that_does_not_exist_is_a_missing_file(text):
    with pytest.raises(BadInput) as refused:
        from_line(text)
    assert (refused.value.cause, refused.value.file) == ("no such file or directory", text)


@pytest.mark.parametrize("line", ["A40/A.b", "A/A.B", "S4.A/", "A40 / A.C", "nothere"])
def test_a_line_with_an_error_is_not_a_missing_file(line):
    with pytest.raises(BadInput) as refused:
        from_line(line)
    assert "no such file" not in refused.value.cause
