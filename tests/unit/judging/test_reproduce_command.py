"""Commands that run a scenario again, and flags in the spelling of the server."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.text import Text

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Flag
from cachesim.engines.rule_files import profile_of
from cachesim.judging.reproduce_command import (
    assumption,
    case_command,
    case_words,
    flag_text,
    flags_data,
    flags_line,
    line_arguments,
    line_command,
    line_words,
    set_words,
    settings,
)
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.scenarios.request_spec import make_steps
from tests.shared import forget_engines

B11549 = "llama_cpp@b11549"
SWITCH = Flag("kv_unified", False, spellings=("-kvu", "--kv-unified"), off=("-no-kvu", "--no-kv-unified"))
PARALLEL = Flag("parallel", -1, open=-1, spellings=("-np", "--parallel"))


@pytest.mark.parametrize(("flag", "value", "text"), [
    (PARALLEL, 2, "-np 2"), (PARALLEL, -1, "-np auto"), (PARALLEL._replace(name="other"), -1, "-np -1"),
    (PARALLEL._replace(open=None), -1, "-np -1"),
    (PARALLEL._replace(spellings=("-npar", "-long", "--parallel")), 2, "--parallel 2"),
    (PARALLEL._replace(spellings=("-npa", "--parallel")), 2, "-npa 2"),
    (PARALLEL._replace(spellings=()), 2, "parallel=2"),
    (PARALLEL._replace(spellings=("-parallel",)), 2, "parallel=2"),
    (SWITCH, True, "-kvu"), (SWITCH, False, "-no-kvu"), (SWITCH._replace(off=()), True, "-kvu"),
    (SWITCH._replace(off=()), False, "-kvu off"), (SWITCH._replace(spellings=()), True, "kv_unified=true"),
])  # fmt: skip
def test_a_flag_has_its_shortest_spelling_and_the_words_of_the_server(flag, value, text):
    assert flag_text(flag, value, {"parallel": "auto"}) == text


def test_headline_flags_are_named_until_they_are_set():
    data = flags_data("mlx_lm@0.32.2", {"prefill_step_size": 512, "thinking": True})
    assert data == {"default": ["--prompt-cache-size 10"], "set": ["--prefill-step-size 512", "thinking=true"],
                    "derived": [], "assumed": [], "assumed_cap": ""}  # fmt: skip
    with pytest.raises(BadInput, match="unknown"):
        flags_data("mlx_lm@0.0.1", {})


@pytest.mark.parametrize(("data", "lines"), [
    ({"default": ["-b 2", "-c 3"], "set": ["-np 2"], "derived": ["one", "two"], "assumed": [], "assumed_cap": ""},
     [Text("flags: -b 2 -c 3; set: -np 2", "dim"), Text("one"), Text("two")]),
    ({"default": ["-b 2"], "set": [], "derived": [], "assumed": [], "assumed_cap": ""}, [Text("flags: -b 2", "dim")]),
    ({"default": [], "set": ["-b 2"], "derived": [], "assumed": [], "assumed_cap": ""}, [Text("set: -b 2", "dim")]),
    ({"default": [], "set": [], "derived": ["one"], "assumed": ["-c 9"], "assumed_cap": ""},
     [Text(assumption(["-c 9"])), Text("one")]),
    ({"default": [], "set": [], "derived": [], "assumed": [], "assumed_cap": ""}, []),
])  # fmt: skip
def test_the_flags_line_leaves_out_empty_parts(data, lines):
    assert flags_line(data) == lines


def test_what_a_server_derives_from_its_flags_follows_them():
    *_, derived = flags_line(flags_data("vllm@0.32.0", {"speculative_method": "ngram", "num_speculative_tokens": 1}))
    assert derived.plain == "async_scheduling off: chosen at the start of vllm@0.32.0"


def test_options_are_written_as_a_scenario_has_them():
    given = {"kv_unified": True, "swa_full": False, "ctx_size": 64, "slot_prompt_similarity": 0.5, "spec_type": "none"}
    words = ["kv_unified=true", "swa_full=false", "ctx_size=64", "slot_prompt_similarity=0.5", "spec_type=none"]
    assert (settings(given), settings({}), set_words({})) == (words, [], [])
    assert set_words(given)[:4] == ["--set", "kv_unified=true", "--set", "swa_full=false"]
    assert line_arguments("A4/A", B11549, "GA", {"ctx_size": 64}) == [
        "A4/A", "-p", B11549, "--model", "GA", "--set", "ctx_size=64"]
    assert line_command("A4/A.B1", B11549, "W8 A", {}) == f"cachesim run A4/A.B1 -p {B11549} --model 'W8 A'"


def test_a_line_has_only_the_options_that_differ_from_the_defaults():
    scenario = from_line("A4>r2/B3.A[:2]", model="GA", server={"ctx_size": 512, "batch_size": 2048})
    words = ["A4>r2/B3.A[:2]", "-p", B11549, "--model", "GA", "--set", "ctx_size=512"]
    assert line_words(scenario, B11549) == case_words(scenario, B11549) == words
    assert case_command(scenario, B11549) == f"cachesim run 'A4>r2/B3.A[:2]' {' '.join(words[1:])}"


def test_a_line_is_read_for_the_engine_of_its_profile():
    scenario = from_line("A9/{restart block_size=8}/A", model="A", profiles=("vllm@0.33.0",))
    assert case_words(scenario, "vllm@0.32.0") == ["A9/{restart block_size=8}/A", "-p", "vllm@0.32.0", "--model", "A"]


def test_a_scenario_that_no_line_expresses_is_named_by_its_file_or_id():
    whole = load(corpus_files()["ik-2105-blank-skipped-in-comparison"])
    assert whole.words.spelled
    for file in ("a.toml", ""):
        scenario = replace(whole, file=file, id="my-id")
        assert case_words(scenario, "ik_llama@main") == [file or "my-id", "-p", "ik_llama@main"]
    empty = replace(from_line("A4", model="A"), steps=(), id="my-id")
    assert case_words(empty, B11549) == ["my-id", "-p", B11549]


def test_a_rule_set_of_a_file_is_named_by_the_file(tmp_path, monkeypatch):
    forget_engines(monkeypatch)
    file = tmp_path / "mine.py"
    file.write_text("from dataclasses import replace\nfrom cachesim.engines.llama_cpp.profiles import PROFILES\n"
                    f"MINE = replace(PROFILES['{B11549}'], name='llama_cpp@mine')\n")  # fmt: skip
    profile_of(str(file))
    assert line_words(from_line("A4", model="A"), "llama_cpp@mine") == ["A4", "-p", str(file), "--model", "A"]


def test_a_case_whose_option_has_the_tokens_of_a_word_in_no_request_is_named_by_its_file():
    scenario = from_line("A20.M3.B8>12{lora=0:1}/C5", model="A", profiles=(B11549,), server={"lora_scaled": "0@M"})
    rest = replace(scenario, steps=scenario.steps[1:], file="mine.toml")
    with pytest.raises(BadInput, match="an option has the tokens of M, and no request has this word"):
        line_words(rest, B11549)
    assert case_words(rest, B11549) == ["mine.toml", "-p", B11549]


def test_an_option_names_the_word_whose_tokens_it_has():
    """A line with its words in another order has other token numbers."""
    scenario = from_line("A20.M3.B8>12@0{lora=0:1}", model="A", profiles=(B11549,), server={"lora_scaled": "0@M"})
    assert scenario.server["lora_scaled"] == "0@1001000.1001001.1001002"
    assert "lora_scaled=0@M" in line_words(scenario, B11549)
    first, = scenario.line.steps
    turned = first._replace(prompt=(first.prompt[1], first.prompt[2], first.prompt[0]))
    again = replace(scenario, steps=make_steps([turned], scenario.words))
    line, *words = line_words(again, B11549)
    assert (line, words[-1]) == ("M3.B8.A20>12@0{lora=0:1}", "lora_scaled=0@M")
