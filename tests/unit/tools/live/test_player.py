"""Tests of the requests that a scenario sends to a real server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.tree import Action
from cachesim.tools.live.player import Player, check_images, scales_body


def played(line, replies=(), **more):
    """Return the steps of a line; every answer is n_predict times the token 7 unless ``replies`` has an entry."""
    sent, given = [], iter(replies)

    def play(step):
        sent.append(step)
        for member in step.get("steps", [step]):
            if member["op"] == "completion":
                member["response"] = next(given, {"tokens": [7] * member["request"]["n_predict"]})
        return step

    player = Player(from_line(line, server=more or None))
    list(player.run(play))
    return sent, player


def test_an_answer_is_the_models_own():
    sent, player = played("S3>r2/S.r.B2>1", [{"tokens": [11, 12]}])
    first, second = (step["request"]["prompt"] for step in sent)
    assert second[:3] == first
    assert second[3:5] == [11, 12]
    assert len(second) == 7
    assert player.notes == []


def test_what_is_sent_unless_it_is_the_default():
    sent, _ = played("S3>4!@0{n_keep=2}/S>1")
    assert {key: value for key, value in sent[0]["request"].items() if key != "prompt"} == {
        "n_predict": 4, "cache_prompt": False, "id_slot": 0, "n_keep": 2}  # fmt: skip
    assert sent[1]["request"].keys() == {"n_predict", "prompt"}


def test_marks():
    sent, _ = played("S3.|U4>1")
    marks = sent[0]["request"]["message_delimiters"]
    assert marks == [{"role": "user", "delimiter": chr(32 + sent[0]["request"]["prompt"][3])}]


@pytest.mark.parametrize(("line", "after"), [("S3>r4{cancel_after=2}", 2), ("S3>r4{cancel_after=0}", 0)])
def test_hang_ups(line, after):
    sent, player = played(line, [{"tokens": [1, 2], "tokens_in_slot": [1, 2, 3]}])
    assert sent[0]["request"]["cancel_after"] == after
    assert sent[0]["request"]["n_predict"] > after + 50
    assert "3 of 4 tokens of an answer were generated" in player.notes
    assert any("disconnect" in note for note in player.notes)


def test_groups():
    sent, player = played("S3>1/A3>1{together}/B3>1{together+2}/C3>1", parallel=2)
    assert [step["op"] for step in sent] == ["parallel", "completion"]
    assert [member.get("after", 0) for member in sent[0]["steps"]] == [0, 0, 2]
    assert any("iterations" in note for note in player.notes)


def test_slots_and_restarts():
    sent, _ = played("S3>1/{save@0 fa}/{restart}/{restore@0 fa}/{erase@0}")
    assert [step["op"] for step in sent] == ["completion", "slot", "restart", "slot", "slot"]
    assert sent[1]["request"] == {"action": "save", "id_slot": 0, "filename": "fa.bin"}
    assert sent[2] == {"op": "restart"}


def test_a_restart_with_other_options():
    sent, _ = played("S3>1/{restart ctx_size=512}/S>1")
    flags = sent[1]["flags"]
    assert flags[flags.index("-c") + 1] == "512"


def test_adapters():
    sent, player = played("S3>1{lora=0:1,1:0.5}/{lora 1:1}/S>1", lora_scaled="0,0")
    assert sent[0]["request"]["lora"] == [{"id": 0, "scale": 1.0}, {"id": 1, "scale": 0.5}]
    assert sent[1] == {"op": "lora", "request": {"set": [{"id": 1, "scale": 1.0}]}}
    assert "lora" not in sent[2]["request"]
    assert player.write({"lora_scaled": "0,1"}) == ["--lora-scaled", "MODELS/lora0.gguf:0,MODELS/lora1.gguf:1"]


def test_the_invocation_tokens_of_the_command_line_are_those_of_the_prompts():
    sent, player = played("S3.M2>1{lora=0:1}", lora_scaled="0@M")
    tokens = ".".join(map(str, sent[0]["request"]["prompt"][3:]))
    assert player.write(player.scenario.server)[-1] == f"MODELS/alora0-{tokens}.gguf:0"


def test_children():
    sent, _ = played("S3>r2{n_cmpl=2 answers=q2}/S.q.B1>1", [{"tokens": [1, 2], "completions": [{"tokens": [3, 4]}]}],
                     parallel=2)  # fmt: skip
    assert sent[0]["request"]["n_cmpl"] == 2
    assert sent[1]["request"]["prompt"][3:5] == [3, 4]


@pytest.mark.parametrize("what, note", [({"died": {"fatal": "x"}}, "ended"), ({"stuck": True}, "got stuck")])
def test_a_server_that_answers_no_more_ends_it(what, note):
    player = Player(from_line("S3>1/S>1"))
    assert len(list(player.run(lambda step: {**step, **what}))) == 1
    assert player.notes == [f"the server {note} at step 0"]


def test_a_dead_server_is_started_again_where_the_scenario_says_so():
    player = Player(from_line("S3>1/{restart}/S>1"))
    ops = [done["op"] for _, done in player.run(lambda step: step | ({"died": {}} if "request" in step else {}))]
    assert ops == ["completion", "restart", "completion"]


def test_a_restart_later_on_does_not_start_a_dead_server():
    player = Player(from_line("S3>1/S>1/{restart}/S>1"))
    assert [done["op"] for _, done in player.run(lambda step: {**step, "died": {}})] == ["completion"]
    assert player.notes == ["the server ended at step 0"]
    player = Player(from_line("S3>1/A3>1{together}/{restart}/S>1", server={"parallel": 2}))
    ops = [done["op"] for _, done in player.run(lambda step: step | ({"died": {}} if "steps" in step else {}))]
    assert ops == ["parallel", "restart", "completion"] and player.notes == []


def test_what_cannot_be_expressed_is_said():
    assert played("S3>r4{drafts=2:1}")[1].notes == ["drafts come from the server's own drafter"]
    with pytest.raises(BadInput, match="request 0: only completions"):
        Player(from_line("S3{task=embedding}"))
    with pytest.raises(BadInput, match="mlx_lm"):
        Player(from_line("S3", profiles=("mlx_lm@0.32.2",)))


def test_a_text_with_an_image_cannot_have_the_token_of_no_model():
    with pytest.raises(BadInput, match="request 0: with an image a prompt is sent as text"):
        played("S3.I4x2.NULL1>1", mmproj="causal")


@pytest.mark.parametrize(("text", "scales"), [
    ("0:1,2:0.5", [(0, 1.0), (2, 0.5)]), (" 1:-2 , ", [(1, -2.0)]), ("", []),
])  # fmt: skip
def test_scales_as_a_server_reads_them(text, scales):
    assert scales_body(text) == [{"id": number, "scale": scale} for number, scale in scales]


@pytest.mark.parametrize(("line", "notes"), [
    ("A3/B3", []), ("A3.|B2", ["user messages are marked by message_delimiters, which b11549 reads in chats only"]),
    ("A3>4{cancel_after=1}", ["the time at which the server notices a disconnect is not controlled"]),
    ("A3/B3{together+2}",
     ["iterations before an arrival are not counted: requests are sent at once or after a delay"]),
    ("A3>4{drafts=2:1}/A>4{drafts=2:1}", ["drafts come from the server's own drafter"]),
])  # fmt: skip
def test_each_note_is_told_once(line, notes):
    assert Player(from_line(line)).notes == notes


def test_tokens_are_those_of_the_seed_0_by_default():
    scenario = from_line("S9/A5")
    first, same, other = (list(Player(scenario, *seed).run(lambda step: step)) for seed in ((), (0,), (1,)))
    assert first == same != other


def test_files_of_slots_have_a_prefix_that_distinguishes_the_scenario():
    sent = []
    player = Player(from_line("S9/{save@0 f}/{restore@0 f}/{erase@0}"), prefix="x-")
    list(player.run(lambda step: sent.append(step) or step))
    assert [step["request"].get("filename") for step in sent[1:]] == ["x-f.bin", "x-f.bin", None]


def test_scenarios_with_images_or_truncated_files_are_refused():
    with pytest.raises(BadInput, match="request 1: an image of a scenario is a size without pixels") as bad:
        check_images(from_line("S9/S.I4x2.A3", server={"mmproj": "causal"}))
    assert bad.value.hint == "cachesim record --server draws images"
    check_images(from_line("S9/S"))
    found = from_line("S9/{save@0 f}/{restore@0 f}")
    steps = list(found.steps)
    for percent in (100, 99):
        steps[2] = replace(steps[2], asked=Action("restore", 0, "f", percent=percent))
        if percent == 100:
            Player(replace(found, steps=tuple(steps)))
    with pytest.raises(BadInput, match="step 2: slot files of a real server are not truncated"):
        Player(replace(found, steps=tuple(steps)))
