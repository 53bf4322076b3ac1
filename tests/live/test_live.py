"""Tests of the campaign against the simulator, without a server: it finds differences, and reports no false
differences."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import is_item
from cachesim.engines.registry import profiles
from tests.live import adapter_worlds, image_worlds
from tests.live.beside import Beside, Difference
from tests.live.fake import Fake
from tests.live.named import NAMED, name_of
from tests.live.play import Table
from tests.live.state import State
from tests.live.worlds import option_set
from tests.shared import alike

pytestmark = pytest.mark.long
CLASSES = Path(__file__).parent / "classes"
PROFILE, ADAPTED = "llama_cpp@b10587", "llama_cpp@b11549"
"""Rule sets that act as the real server; the second knows adapters."""


def table(folder, **planted):
    rules = replace(profiles()[PROFILE], **planted)
    return Table(lambda flags, model: Fake(PROFILE, model, flags, rules), PROFILE, folder, shrink_seconds=20)


def alone(number):
    """An option set whose conversations do not depend on timing."""

    class Quiet:
        def __init__(self):
            self.drawn = option_set(0, number)
            self.number, self.seed = number, 0
            self.model, self.server = self.drawn.model, self.drawn.server

        def case(self, conversation):
            case = self.drawn.case(conversation)
            return replace(case, asked=alike(case.asked, together=False, after=0, cancel_after=None, n_cmpl=1))

    return Quiet()


@pytest.mark.parametrize("number", range(12))
def test_the_same_rules_on_both_sides_differ_in_nothing(number, tmp_path):
    tally = table(tmp_path).play(alone(number), 0, 4)
    assert tally.differences == []
    assert tally.done == 4
    assert tally.verdicts == tally.steps


class Alone:
    """An option set of a kit whose conversations do not depend on timing."""

    def __init__(self, number, worlds=adapter_worlds):
        self.drawn = worlds.option_set(0, number)
        self.number, self.seed, self.model, self.server = number, 0, self.drawn.model, self.drawn.server

    def case(self, conversation):
        case = self.drawn.case(conversation)
        return replace(case, asked=alike(case.asked, together=False, after=0, cancel_after=None, n_cmpl=1))


def adapters_table(folder, **planted):
    rules = profiles()[ADAPTED].changed({"adapters": replace(profiles()[ADAPTED].adapters, **planted)})
    return Table(lambda flags, model: Fake(ADAPTED, model, flags, rules), ADAPTED, folder, shrink_seconds=20)


@pytest.mark.parametrize("number", range(6))
def test_the_same_rules_with_adapters_differ_in_nothing(number, tmp_path):
    tally = adapters_table(tmp_path).play(Alone(number), 0, 4)
    assert tally.differences == [] and tally.done == 4


def test_a_planted_fault_of_adapters_is_found(tmp_path):
    planted = profiles()["llama_cpp@b11549-repaired"].adapters.clear
    tallies = [adapters_table(tmp_path, clear=planted).play(Alone(number), 0, 4) for number in (1, 2)]
    assert any(one["group"].startswith("event: ") for tally in tallies for one in tally.differences)


def images_table(folder, **planted):
    rules = profiles()[ADAPTED].changed({"media": replace(profiles()[ADAPTED].media, **planted)})

    def start(flags, model):
        kind = image_worlds.projector_of(model, "")
        return Fake(ADAPTED, model, [word.replace("-qwen2vl.", f"-{kind}.") for word in flags], rules)

    return Table(start, ADAPTED, folder, shrink_seconds=20, name="images-")


@pytest.mark.parametrize("number", range(6))
def test_the_same_rules_with_images_differ_in_nothing(number, tmp_path):
    tally = images_table(tmp_path).play(Alone(number, image_worlds), 0, 6)
    assert tally.differences == [] and tally.done == 6


def test_a_planted_fault_of_images_is_found(tmp_path):
    planted = profiles()["llama_cpp@b11549-proposed"].media.ckpt
    tallies = [images_table(tmp_path, ckpt=planted).play(Alone(number, image_worlds), 0, 3) for number in range(2)]
    found = [one for tally in tallies for one in tally.differences]
    assert found and all(one["file"].startswith("images-") for one in found)


def test_drawn_images_are_repeatable_and_sent():
    drawn = [image_worlds.option_set(3, number) for number in range(40)]
    assert drawn == [image_worlds.option_set(3, number) for number in range(40)]
    assert {one.server["mmproj"] for one in drawn} == {"causal", "gemma3"}
    assert {image_worlds.projector_of(one.model, one.server["mmproj"]) for one in drawn} == set(image_worlds.SIZES)
    prompts = [step.request.prompt for one in drawn for n in range(3) for step in one.case(n).scenario(ADAPTED).steps]
    images = [any(map(is_item, prompt)) for prompt in prompts]
    assert sum(images) > len(images) / 3
    assert not any(min(prompt) < 0 for prompt, image in zip(prompts, images, strict=True) if image)


def test_drawn_adapters_are_repeatable_and_invoked():
    drawn = [adapter_worlds.option_set(3, number) for number in range(40)]
    assert drawn == [adapter_worlds.option_set(3, number) for number in range(40)]
    assert {"@" in one.server["lora_scaled"] for one in drawn} == {True, False}
    one = next(one for one in drawn if one.server["lora_scaled"] == "0@101.102.103")
    prompts = [step.request.prompt for n in range(20) for step in one.case(n).scenario(ADAPTED).steps]
    assert any(prompt[i : i + 3] == (101, 102, 103) for prompt in prompts for i in range(len(prompt)))


def test_a_planted_fault_is_found_and_made_smaller(tmp_path):
    planted = profiles()["llama_cpp@b9518"].ckpt_break
    assert planted is not profiles()[PROFILE].ckpt_break
    tallies = [table(tmp_path, ckpt_break=planted).play(alone(number), 0, 12) for number in range(1, 4)]
    found = [one for tally in tallies for one in tally.differences]
    assert found
    assert all(one["alone"] or "why" not in one for one in found)
    files = [tmp_path / one["file"] for one in found]
    assert min(len(json.loads(file.read_text("utf-8"))["steps"]) for file in files) <= 4
    assert all(file.with_suffix(".toml").exists() for file in files)


def test_what_was_played_is_not_played_again(tmp_path):
    state, options = State(tmp_path / "state.jsonl"), alone(3)
    state.add(table(tmp_path).play(options, 0, 2))
    state.add(table(tmp_path).play(options, 2, 1))
    state.add(table(tmp_path).play(options, 2, 1))
    again = State(tmp_path / "state.jsonl")
    assert again.done(3) == 3
    assert again.done(4) == 0
    assert again.sums()[0]["conversations"] == 3


def test_what_differs_without_a_name_is_played_again(tmp_path):
    state = State(tmp_path / "state.jsonl")
    tally = table(tmp_path).play(alone(3), 0, 2)
    tally.differences.append({"conversation": 1, "group": "g", "what": [], "name": "", "file": "f"})
    state.add(tally)
    assert state.sums()[2] == {"g": ["f"]}
    assert State(tmp_path / "state.jsonl").done(3) == 0


def test_a_stop_keeps_what_was_played(tmp_path):
    asked = iter((False, False, True))
    tally = table(tmp_path).play(alone(5), 0, 50, lambda: next(asked))
    assert tally.done == 2


def test_a_server_is_restarted_where_its_memory_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(Beside, "left", True)
    assert table(tmp_path).play(alone(3), 0, 3).starts == 4


def test_a_conversation_that_cannot_be_played_counts_and_does_not_end_the_rest(tmp_path, monkeypatch):
    plays = iter((False, True, False))

    def play(self, step, known=Fake.play):
        if step.get("op") == "completion" and next(plays, False):
            raise BadInput("no answer")
        return known(self, step)

    monkeypatch.setattr(Fake, "play", play)
    tally = table(tmp_path).play(alone(5), 0, 3)
    assert [one["group"] for one in tally.differences] == ["stumbled: BadInput"]
    assert tally.done == 3
    assert tally.starts == 2


def test_options_with_which_no_server_starts_are_refused(tmp_path):
    def start(flags, model):
        raise BadInput("the server ended when it started")

    tally = Table(start, PROFILE, tmp_path).play(alone(5), 0, 3)
    assert (tally.refused, tally.conversations, tally.done) == (3, 0, 3)
    assert "when it started" in tally.why


def test_a_server_that_does_not_start_again_ends_the_option_set(tmp_path, monkeypatch):
    def reset(self, known=Fake.reset):
        if self.resets >= 0:
            raise BadInput("the server ended when it started")
        known(self)

    def play(self, step):
        raise BadInput("no answer")

    monkeypatch.setattr(Fake, "reset", reset)
    monkeypatch.setattr(Fake, "play", play)
    tally = table(tmp_path).play(alone(5), 0, 3)
    assert [one["group"] for one in tally.differences] == ["stumbled: BadInput"] * 2


def test_at_most_five_classes_have_names():
    assert len(NAMED) <= 5


def verdict(recorded, ours, *apart, equal=True):
    """Return a difference of verdicts, and a recording whose answers have these distances from a cold run."""
    steps = [{"cold": {"equal": equal, "max_dlogprob": value}} for value in apart]
    step = {"i": 3, **steps[0]} if len(steps) == 1 else {"i": 3, "steps": steps}
    return Difference(3, "verdict", recorded, ours), {"steps": [step]}


SMALL, BEYOND, OTHERWISE = (True, 3e-4, False), (True, 0.014, True), (False, 0.014, True)
"""Repetitions under other tokens: simulator wrong, real answer right within rounding; both wrong; only the real
wrong."""


def test_an_answer_that_repetitions_show_to_be_wrong():
    case = verdict("equal", "broken", 1.4e-4)
    assert name_of(*case, [SMALL, BEYOND]) == "shown under other tokens"
    assert name_of(*verdict("equal", "broken", 0.0, 0.0), [SMALL, BEYOND]) == "shown under other tokens"
    assert name_of(*case, [SMALL, OTHERWISE]) == "not shown"               # of a repetition that ours calls right
    assert name_of(*verdict("differs", "holds", 1.4e-4), [BEYOND]) == ""
    assert name_of(Difference(3, "cache_n", 1, 2), case[1], [BEYOND]) == ""


def test_an_answer_that_no_repetition_shows_to_be_wrong():
    assert name_of(*verdict("equal", "broken", 1.4e-4), [SMALL]) == "not shown"
    assert name_of(*verdict("differs", "holds", 1.4e-4), [(False, 0.0, False)]) == "not shown"
    assert name_of(*verdict("equal", "broken", 1.4e-4)) == ""              # not repeated
    assert name_of(*verdict("equal", "broken", 0.0), [(True, 0.0, False)]) == ""        # to the last bit: ours is wrong
    assert name_of(*verdict("differs", "holds", 1.4e-4), [OTHERWISE]) == ""             # ours misses a real fault
    assert name_of(*verdict("differs", "holds", 0.2), [(False, 0.0, False)]) == ""      # more than any rounding
    assert name_of(*verdict("differs", "holds", 1.4e-4, equal=False), [(False, 0.0, False)]) == ""
    assert name_of(Difference(3, "cache_n", 1, 2), verdict("equal", "broken", 1e-4)[1], [SMALL]) == ""


FLASH = ["-fa", "on"]


def rounding_case(apart=0.06, equal=True, **header):
    """A step of MiniMax M3 that read all rows, with its difference."""
    difference, recording = verdict("differs", "holds", apart, equal=equal)
    return difference, {"base_flags": FLASH, "server": {"n_slots": 2, "kv_unified": True}, **recording, **header}


def test_an_answer_that_flash_attention_rounds():
    plain = {"restored": [None], "apart": [1.2e-6]}
    named = "rounded by flash attention"
    assert name_of(*rounding_case(), (), plain) == named
    assert name_of(*rounding_case()) == ""                                                   # not repeated
    assert name_of(*rounding_case(), (), {**plain, "apart": [1e-4]}) == ""                   # wrong without it, too
    assert name_of(*rounding_case(), (), {**plain, "apart": []}) == ""
    assert name_of(*rounding_case(), (), {**plain, "restored": [15]}) == ""                  # another cache
    assert name_of(*rounding_case(equal=False), (), plain) == ""                             # another token
    assert name_of(*rounding_case(base_flags=["-fa", "off"]), (), plain) == ""
    assert name_of(*rounding_case(server={"n_slots": 2, "kv_unified": False}), (), plain) == ""   # chooses blocks
    assert name_of(rounding_case()[0]._replace(recorded="equal", ours="broken"), rounding_case()[1], (), plain) == ""


def test_a_log_that_is_cut_off():
    recording = {"steps": [{"i": 3, "died": {"fatal": ["a.cpp:7: GGML_ASSERT(buffer) failed"]}}]}
    missing = Difference(3, "event", None, {"ev": "release"}, False, "GGML_ASSERT(buffer) failed in a shift")
    assert name_of(missing, recording) == "log cut off"
    assert name_of(missing, {"steps": [{"i": 3, "died": {"fatal": []}}]}) == "log cut off"     # an exception
    assert name_of(missing._replace(ended="Chunk not found"), recording) == ""                 # of another cause
    assert name_of(missing._replace(ended=""), recording) == ""            # ours goes on
    quoted = {"steps": [{"i": 3, "died": {"fatal": ['a.cpp:7: GGML_ASSERT(ok && "large enough") failed']}}]}
    assert name_of(missing._replace(ended="GGML_ASSERT(large enough) failed"), quoted) == "log cut off"
    assert name_of(missing._replace(ended="GGML_ASSERT(ok) failed"), quoted) == ""
    linked = {"steps": [{"i": 3, "died": {"fatal": ["a.cpp:7: pos_min == -1: https://github.com/x"]}}]}
    assert name_of(missing._replace(ended="pos_min == -1 (slot 0, n_past 1)"), linked) == "log cut off"
    assert name_of(missing._replace(recorded={"ev": "batch"}), recording) == ""
    assert name_of(missing, {"steps": [{"i": 3}]}) == ""                   # the real server goes on


@pytest.mark.parametrize("file", sorted(CLASSES.glob("*.toml")), ids=lambda file: file.stem)
def test_the_smallest_conversation_of_a_class(file):
    recording = json.loads(file.with_suffix(".json").read_text("utf-8"))
    runs, plain = (file.with_suffix(f".{what}.json") for what in ("runs", "plain"))
    beside = Beside()
    try:
        difference = beside.hear(recording)
        found = name_of(difference, recording, json.loads(runs.read_text("utf-8")) if runs.exists() else (),
                        json.loads(plain.read_text("utf-8")) if plain.exists() else None)
        assert found == file.stem.replace("_", " ")
        assert len(recording["steps"]) <= 5
    finally:
        beside.close()


def test_every_class_that_was_met_has_its_smallest_conversation():
    assert {file.stem.replace("_", " ") for file in CLASSES.glob("*.toml")} == set(NAMED) - {"not shown"}


def test_differences_of_one_kind_are_one_group():
    one = Difference(3, "event", {"ev": "batch", "p0": 1}, {"ev": "release"})
    other = Difference(8, "event", {"ev": "batch", "p0": 7}, {"ev": "release"})
    assert one.group == other.group == "event: batch / release"
    assert Difference(1, "cache_n", 3, 4).group != one.group
    assert json.dumps(list(one))


def stuck():
    """A recording in which a longer conversation is loaded over a prompt in progress (D2), and all requests stay
    unanswered."""
    flags = ["-c", "512", "-b", "32", "-ub", "32", "-np", "2", "-sps", "0.1"]
    long, brief, other = (list(range(first, first + n)) for first, n in ((10, 90), (120, 30), (200, 60)))
    with Fake(PROFILE, "A", flags) as fake:
        def ask(prompt, **more):
            return {"op": "completion", "request": {"prompt": prompt, "n_predict": 1, "id_slot": 0}, **more}

        for step in (ask(long), ask(brief), {"op": "parallel", "steps": [ask(other), ask([*long, 9], after=1)]}):
            fake.play(step)
        return json.loads(json.dumps(fake.trace()))


def test_a_server_that_gets_stuck_agrees_if_ours_does():
    recording = stuck()
    assert recording["steps"][2]["stuck"] and "response" not in recording["steps"][2]["steps"][0]
    for says, what in ((True, None), (False, "stuck")):
        recording["steps"][2]["stuck"] = says
        beside = Beside()
        try:
            assert getattr(beside.hear(recording), "what", None) == what
        finally:
            beside.close()


def test_every_program_of_the_live_tests_can_be_imported():
    for file in sorted(Path(__file__).parent.glob("[!_]*.py")):
        importlib.import_module(f"tests.live.{file.stem}")
