"""Model of an exported program: words, requests and actions of a scenario, its flags and its expected results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load_text
from cachesim.tools.live.llama_server.export.script import (
    AMPLIFIED,
    ROUNDING,
    ExpectedOutcome,
    ScriptAction,
    ScriptRequest,
    WordSlice,
    make_script,
    name_of,
)
from cachesim.tools.live.llama_server.server import BASE
from cachesim.tools.live.player import BEHIND
from cachesim.tools.live.token_map import TINY

PROFILE = "llama_cpp@b11549"
FLAG = ENGINES["llama_cpp"].manual.flag


def made(line, model="A", **server):
    return make_script(from_line(line, model=model, server=server), PROFILE)


def test_a_request_has_its_words_in_slices_and_its_own_fields():
    script = made("S9>r3/S.r[1:].|U4>1@0{n_keep=2}")
    first, second = (group[0] for group in script.groups)
    assert first == ScriptRequest(0, (WordSlice("S", 0, 9, True),), {"n_predict": 3}, ((WordSlice("r", 0, 3, True),),))
    assert second.prompt == (WordSlice("S", 0, 9, True), WordSlice("r", 1, 3, False), WordSlice("U", 0, 4, True))
    assert second.fields.keys() == {"n_predict", "id_slot", "n_keep", "message_delimiters"}
    assert (second.fields["n_predict"], second.fields["id_slot"], second.fields["n_keep"]) == (1, 0, 2)
    assert second.answers == ((),) and script.notes == ("user messages are marked by message_delimiters",)
    assert list(script.asks) == [first, second] and not script.racy and not script.drafts


def test_generated_tokens_replace_the_words_of_each_completion():
    (group,) = made("S2>r3/S.A2>a1[:1].r{n_cmpl=2 answers=t4}").groups[1:]
    heard = [(completion, at, part.word) for completion, at, part in group[0].heard]
    assert heard == [(0, 0, "a"), (0, 1, "r"), (1, 0, "t")]


def test_a_slice_of_a_word_replaces_as_many_tokens_as_it_has():
    (ask,) = made("S2.a4/S.B2>a[1:3].r2/S", "A").groups[1]
    assert [*ask.heard] == [(0, 0, WordSlice("a", 1, 3, False)), (0, 2, WordSlice("r", 0, 2, True))]


def test_requests_at_once_are_a_group_with_their_delays():
    script = made("A9/B3{together}/C4{together+2}/D5", parallel=4)
    numbers = [[(one.number, one.after) for one in group] for group in script.groups]
    assert numbers == [[(0, 0), (1, 0), (2, 2)], [(3, 0)]]
    assert script.racy and script.notes == ("requests that arrive during another request are sent after a delay",)
    assert not made("A9/B3").racy


def test_a_client_that_hangs_up_asks_for_more_tokens_than_it_takes():
    script = made("A9>4{cancel_after=2}")
    (ask,) = script.asks
    assert (ask.hang_up, ask.fields["n_predict"]) == (2, 2 + BEHIND) and script.racy
    assert script.notes == ("the time at which the server notices a disconnect is not controlled",)
    assert made("A9>4{cancel_after=2}/B5").racy


def test_drafts_and_adapters_are_those_of_the_server():
    script = made("A9>2{drafts=1:1}/B5{lora=0:0.5}", lora_scaled="1,0", spec_type="ngram-simple")
    assert script.drafts and script.notes == ("drafts come from the server's own drafter",)
    assert [ask.fields.get("lora") for ask in script.asks] == [None, [{"id": 0, "scale": 0.5}]]
    assert list(script.adapters) and script.adapter_note[0].startswith(f"{', '.join(script.adapters)}: adapters")
    assert not made("A9").adapters and made("A9").adapter_note == () and not made("A9").drafts


def test_actions_have_their_slot_file_or_flags():
    script = made("A9/{save@1 f}/{restart}/{restart ctx_size=128}/{lora 0:0.5}/{erase@0}", parallel=2, lora_scaled="1")
    restart = script.groups[3]
    assert script.groups[1:3] == (ScriptAction(1, "save", 1, "f", scales=[]), ScriptAction(2, "restart"))
    assert (restart.do, restart.flags is not None, "128" in restart.flags) == ("restart", True, True)
    lora = ScriptAction(4, "lora", scales=[{"id": 0, "scale": 0.5}])
    assert script.groups[4:] == (lora, ScriptAction(5, "erase", 0, scales=[]))
    assert script.changes_server == "restarts the server"
    assert made("A9/{lora 0:0.5}", lora_scaled="1").changes_server == "sets the server's adapters"
    assert made("A9/{save@0 f}").changes_server == ""


def test_a_restart_keeps_the_options_before_it():
    script = made("A9/{restart ctx_size=128}/{restart parallel=2}", batch_size=64)
    flags = [" ".join(group.flags) for group in script.groups[1:]]
    assert all("-b 64" in one and "-c 128" in one for one in flags)
    assert ["-np 2" in one for one in flags] == [False, True]


@pytest.mark.parametrize(("line", "said"), [
    ("A9/{save@0 f}/{restore@0 f percent=50}", "step 2: slot files of a real server are not truncated"),
    ("A9/B5{task=embedding}", "request 1: only completions can be run on a real server, found embedding"),
])  # fmt: skip
def test_what_a_real_server_does_not_do_is_refused(line, said):
    with pytest.raises(BadInput, match=said):
        made(line)


def test_a_scenario_of_another_engine_is_refused():
    other = from_line("A5", model="A", profiles=("vllm@0.33.0",))
    with pytest.raises(BadInput, match="scenarios of vllm cannot be run on a llama-server"):
        make_script(other, "vllm@0.33.0")


@pytest.mark.parametrize(("server", "flags"), [
    ({}, ""), ({"ctx_size": 512}, "-c 512"), ({"parallel": -1}, ""), ({"kv_unified": True}, ""),
    ({"parallel": 2, "kv_unified": True}, "-np 2 -kvu"), ({"parallel": 2, "kv_unified": False}, "-np 2"),
    ({"batch_size": 2048}, ""), ({"batch_size": 64}, "-b 64"), ({"ctx_size": FLAG("ctx_size").default}, "-c 0"),
])  # fmt: skip
def test_the_command_line_has_the_options_that_differ_from_the_defaults(server, flags):
    assert " ".join(made("A5", **server).flags) == flags


def test_files_stand_in_the_current_folder():
    script = made("A5", lora_scaled="1,0")
    assert any("MODELS/" in word for word in script.flags)
    assert script.placed_flags == tuple(word.replace("MODELS/", "") for word in script.flags)


def test_a_cold_server_has_no_cache_and_every_start_the_same_arithmetic():
    script = made("A5")
    assert script.constant == BASE and script.cold_flags[: len(script.flags)] == script.flags != script.cold_flags


def test_words_part_where_their_texts_part():
    script = made("A5>a3/A.B5/C5")
    assert {word: len(tokens) for word, tokens in script.words.items()} == {"A": 5, "a": 3, "B": 5, "C": 5}
    assert len({tokens[0] for tokens in script.words.values()}) == 4 and script.spelled == frozenset()


BRANCHES = "abcdefghijklmnopqrtuvwxyz"


@pytest.mark.parametrize("line", [
    "S5>a1" + "".join(f"/S>{word}1" for word in BRANCHES[1:]),
    "S5" + "".join(f"/S.{word}1" for word in BRANCHES.upper()),
])  # fmt: skip
def test_prompts_and_answers_that_follow_an_equal_prefix_differ(line):
    """25 of so few tokens would hardly be different by themselves."""
    words = made(line).words
    assert len({tokens for word, tokens in words.items() if word != "S"}) == len(BRANCHES) == len(words) - 1


def test_the_tokens_of_a_request_do_not_depend_on_later_requests():
    """Also if a file defines the words of these first."""
    first, later = ([f"{letter}{word}" for word in BRANCHES[:4]] for letter in "ab")
    table = "\n".join(("S = 5", *(f"{word} = 1" for word in (*later, *first))))
    found = []
    for words in (first, first + later):
        requests = "\n".join(f'[[request]]\nprompt = "S.{word}"' for word in words)
        texts = 'id = "x"\ntitle = "x"\nsource = ["x"]\nwhy = "x"\nengine = "llama_cpp"\nmodel = "A"'
        scenario = load_text(f'{texts}\nprofiles = ["{PROFILE}"]\n[words]\n{table}\n{requests}\n')
        found.append([make_script(scenario, PROFILE).words[word] for word in first])
    assert found[0] == found[1]


def test_user_messages_begin_with_tokens_that_mark_them():
    words = made("S5.|A3/S.B3").words
    assert [tokens[0] in TINY.marked for tokens in words.values()] == [False, True, False]


def test_a_restart_may_need_the_first_adapters():
    assert made("A9/{restart lora_scaled=1}").adapters.keys() == made("A9", lora_scaled="1").adapters.keys() != set()
    assert made("A9/{restart}", lora_scaled="1").adapters.keys() == made("A9", lora_scaled="1").adapters.keys()
    assert len(made("A9/{restart lora_scaled=1,0}", lora_scaled="1").adapters) == 2


def test_the_expected_results_are_those_of_the_simulator():
    script = made("A20/A.B5/A", parallel=1)
    counts = (0, 20), (20, 5), (19, 1)
    assert script.expected == tuple(ExpectedOutcome(*one, 200, True, False, "") for one in counts)
    assert script.broken == [] and (script.profile, script.scenario.words) == (PROFILE, {"A": 20, "B": 5})
    wrong = replace(script, expected=tuple(one._replace(equal=equal) for one, equal in zip(
        script.expected, (None, False, True), strict=True)))  # fmt: skip
    assert wrong.broken == [1]


@pytest.mark.parametrize(("model", "tolerance"), [("A", ROUNDING), ("W8 A", AMPLIFIED)])
def test_windows_amplify_rounding(model, tolerance):
    assert made("A5", model=model).tolerance == tolerance


def test_a_scenario_is_named_by_its_id_or_its_line():
    line = from_line("A5/A")
    assert (name_of(line), name_of(replace(line, file="x.toml", id="case"))) == ("'A5/A'", "the scenario case")


def test_a_projector_without_positions_is_refused_before_the_requests_are_written():
    with pytest.raises(BadInput):
        make_script(from_line("S9/S.I4x2.A3", server={"mmproj": "causal"}), PROFILE)
