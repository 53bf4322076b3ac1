"""Rows of a comparison with a real server: when both sides are the same, differ, or are undecided."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.server import BASE
from cachesim.tools.live.llama_server.verify import model_of
from cachesim.tools.live.llama_server.verify.model_of import (
    DISCONNECTED,
    ENDED_EARLY,
    NEVER_ANSWERED,
    RACED,
    SIZES,
    UNKNOWN,
    RealModelFacts,
    RequestResult,
    _gaps,
    _said,
    _same,
    _theirs,
    _unknown_end,
    base_flags,
    from_file,
    from_server,
    real_vocabulary,
    rows,
)
from cachesim.tools.live.player import Player
from cachesim.tools.live.token_map import TINY
from tests.live.fake import Fake

NOW = "llama_cpp@b11549"

RIGHT, WRONG, OPEN = (RequestResult(3, 2, 200, equal) for equal in (True, False, None))
NO_COLD = "unknown whether the answer equals a cold run's"


@pytest.mark.parametrize(("ours", "theirs", "race", "far", "found"), [
    (RIGHT, RIGHT, False, None, (True, "")), (WRONG, WRONG, False, None, (True, "")),
    (RIGHT, WRONG, False, None, (False, "")), (WRONG, RIGHT, False, None, (False, "")),
    (WRONG, RIGHT, False, 0.0, (False, "")), (RIGHT, WRONG, False, 0.5, (False, "")),
    (WRONG, RIGHT, False, 0.25,
     (None, "wrong here; the real answer differs from a cold run by 0.25, which counts as rounding")),
    (RIGHT, OPEN, False, None, (None, NO_COLD)), (OPEN, RIGHT, False, None, (None, NO_COLD)),
    (UNKNOWN, RIGHT, False, None, (None, "the simulator gave no answer")),
    (RIGHT, UNKNOWN, False, None, (None, "the client disconnected")),
    (RIGHT, RIGHT._replace(cache_n=4), False, None, (False, "")),
    (RIGHT, RIGHT._replace(prompt_n=1), False, None, (False, "")),
    (RIGHT, RIGHT._replace(status=500), False, None, (False, "")),
    (RIGHT, RIGHT._replace(cache_n=4), True, None, (None, RACED)), (RIGHT, RIGHT, True, None, (True, "")),
    (RIGHT, RIGHT._replace(cache_n=None), False, None, (True, "")),
    (RequestResult(0, 0, 400, None), RequestResult(None, None, 400, None), False, None, (True, "")),
    (RequestResult(0, 0, 400, True), RequestResult(None, None, 400, False), False, None, (True, "")),
])  # fmt: skip
def test_both_sides_agree_in_what_the_real_one_shows(ours, theirs, race, far, found):
    assert _same(ours, theirs, race, far) == found


@pytest.mark.parametrize(("raw", "step", "inexact", "found"), [
    ({"response": {"cache_n": 3, "prompt_n": 2}, "cold": {}}, {}, False, RIGHT),
    ({"response": {"cache_n": 3, "prompt_n": 2}, "cold": {}}, {}, True, WRONG),
    ({"response": {"cache_n": 3, "prompt_n": 2}}, {}, True, OPEN),
    ({"response": {"cache_n": 3, "prompt_n": 2}, "cold": {}}, {}, None, OPEN),
    ({"response": {"status": 400}}, {}, False, RequestResult(None, None, 400, None)),
    ({"response": {"cancelled": True, "tokens": []}}, {}, False, UNKNOWN), ({}, {}, False, UNKNOWN),
    ({}, {"died": True}, False, RequestResult(None, None, 0, False)),
    ({"response": {"cache_n": 3, "prompt_n": 2}}, {"died": True}, False, OPEN),
    ({}, {"stuck": True}, False, UNKNOWN._replace(status=NEVER_ANSWERED)), ({}, {"stuck": False}, False, UNKNOWN),
])  # fmt: skip
def test_the_outcome_on_the_real_side(raw, step, inexact, found):
    assert _theirs(SimpleNamespace(inexact=inexact), raw, step) == found


@pytest.mark.parametrize(("first", "sized", "text"), [
    ({"field": "cache_n", "recorded": 3, "ours": 4}, True, "cache_n: 3 there, 4 here"),
    ({"recorded": {"ev": "save", "n": 3, "m": 1}, "ours": {"ev": "save", "n": 4, "m": 1}}, True,
     "save: n 3 there, 4 here"),
    ({"recorded": {"ev": "save", "n": 3, "m": 1}, "ours": {"ev": "save", "n": 4}}, True,
     "save: n 3 there, 4 here, m 1 there, None here"),
    ({"recorded": {"ev": "save", SIZES[0]: 3}, "ours": {"ev": "save", SIZES[0]: 4}}, True,
     f"save: {SIZES[0]} 3 there, 4 here"),
    ({"recorded": {"ev": "save", SIZES[0]: 3}, "ours": {"ev": "save", SIZES[0]: 4}}, False, ""),
    ({"recorded": {"ev": "save", SIZES[0]: 3, "n": 1}, "ours": {"ev": "save", SIZES[0]: 4, "n": 2}}, False,
     f"save: {SIZES[0]} 3 there, 4 here, n 1 there, 2 here"),
    ({"event": 5, "recorded": {"ev": "save"}, "ours": {"ev": "load"}}, True, "decision 5: save there, load here"),
    ({"event": 5, "recorded": {"ev": "save"}, "ours": None}, True, "decision 5: save there, nothing here"),
])  # fmt: skip
def test_the_first_difference_in_words(first, sized, text):
    """Sizes count only if the states of the real model have those that the simulator counts."""
    assert _said(first, sized) == text


@pytest.mark.parametrize(("members", "first", "why"), [
    ([{"response": {"stop_type": "eos"}}], "", ENDED_EARLY), ([{"response": {"stop_type": "limit"}}], "", ""),
    ([{"request": {"cancel_after": 0}}], "decision 3: x", DISCONNECTED),
    ([{"request": {"cancel_after": 0}}], "n: 3", ""),
    ([{"request": {}}, {}], "decision 3: x", ""),
    ([{}, {"response": {"stop_type": "eos"}}], "decision 3", ENDED_EARLY),
    ([{"request": {"cancel_after": 3}}, {"request": {}}], "decision 3: x", DISCONNECTED),
    ([{}, {"request": None}, {"request": {"cancel_after": 3}}], "decision 3: x", DISCONNECTED),
])  # fmt: skip
def test_from_where_differences_say_nothing(members, first, why):
    assert _unknown_end(members, first) == why


def test_the_differences_of_all_completions_from_their_cold_runs():
    completions = [{"cold": {"max_dlogprob": 0.5}}, {}]
    assert [*_gaps({"cold": {"max_dlogprob": 1}, "response": {"completions": completions}})] == [1.0, 0.5]
    assert [*_gaps({})] == [*_gaps({"cold": None, "response": None})] == [*_gaps({"cold": {}})] == []


def recorded(line, model="A", change=None, head=None, **server):
    """Return the rows of a recording of a line, after a change of it. ``head``: changed fields of its header."""
    scenario = from_line(line, model=model, profiles=(NOW,), server={"parallel": 1, **server})
    player = Player(scenario)
    with Fake(NOW, model, player.write(scenario.server)) as fake:
        list(player.run(fake.play))
        data = json.loads(json.dumps(fake.trace()))
    if change is not None:
        change(data["steps"])
    return rows({**data, **(head or {})}, NOW, [step.text for step in scenario.steps], True)


def test_requests_have_their_numbers_and_words_also_when_they_are_sent_together():
    found = recorded("A9/B5/A.C2{together}/A@0", parallel=2)
    assert [(row.number, row.text) for row in found] == [(0, "A"), (1, "B"), (2, "A.C{together}"), (3, "A@0")]
    assert [(row.theirs.cache_n, row.theirs.prompt_n) for row in found] == [
        (row.ours.cache_n, row.ours.prompt_n) for row in found]  # fmt: skip


def with_cold(steps, gap=None):
    """Compare every answer with an equal one of a cold run."""
    for step in steps:
        step["cold"] = {"equal": True} if gap is None else {"equal": True, "max_dlogprob": gap}


def test_answers_that_both_sides_compared_are_the_same():
    found = recorded("A9/A.B5", change=lambda steps: with_cold(steps, 0.25))
    assert [(row.same, row.why, row.first, row.far) for row in found] == [(True, "", "", 0.25)] * 2


def test_another_count_of_the_real_server_is_the_first_difference():
    def change(steps):
        with_cold(steps)
        steps[1]["response"]["cache_n"] = 3

    found = recorded("A9/A.B5/A.B.C2", change=change)
    assert [(row.same, row.first) for row in found] == [
        (True, ""), (False, "cache_n: 3 there, 9 here"), (True, "")]  # fmt: skip
    assert (found[1].ours.cache_n, found[1].theirs.cache_n) == (9, 3)


@pytest.mark.parametrize(("head", "racy", "found"), [
    ({}, True, (False, "")), ({"log": False}, False, (False, "")), ({"log": False}, True, (None, RACED))])
def test_requests_at_once_without_a_log_leave_a_difference_open(head, racy, found):
    def change(steps):
        for step in steps:
            step.pop("events", None) if head else None
        steps[1] |= {"racy": racy}
        steps[1]["response"]["cache_n"] = 3

    assert [(row.same, row.why) for row in recorded("A9/A.B5", change=change, head=head)][1] == found


def test_the_largest_difference_of_several_completions_counts():
    def change(steps):
        with_cold(steps, 0.25)
        steps[0]["response"]["completions"] = [{"index": 1, "tokens": [], "cold": {"max_dlogprob": 0.5}}]

    assert [row.far for row in recorded("A9", change=change)] == [0.5]


@pytest.mark.parametrize(("status", "died", "shown", "looked"), [
    (200, False, 200, [4]), (200, True, 0, []), (400, False, 400, []), (500, True, 0, [])])
def test_the_simulated_outcome_is_that_of_the_slot_unless_the_server_ended(status, died, shown, looked):
    slots, judged = [], []
    run = model_of._Beside.__new__(model_of._Beside)
    run.sides, run._as_recorded = {}, lambda request, answer, equal: equal
    run.judge = SimpleNamespace(judge=lambda request, answer, slot: judged.append(slot) or RIGHT_ANSWER)
    server = SimpleNamespace(inspection=SimpleNamespace(live=lambda slot: slots.append(slot) or "slot"))
    request, answer = object(), SimpleNamespace(id_slot=4, status=status, died=died, cache_n=3, prompt_n=2)
    run._look(server, request, answer)
    assert run.sides == {id(request): RequestResult(3, 2, shown, True)} and slots == looked
    assert judged == (["slot"] if looked else [None])


RIGHT_ANSWER = SimpleNamespace(equal_cold=True)


def test_after_an_early_end_of_an_answer_differences_are_undecided_until_a_restart():
    def change(steps):
        with_cold(step for step in steps if step["op"] == "completion")
        steps[0]["response"]["stop_type"] = "eos"
        for step in steps:
            if step["op"] == "completion":
                step["response"]["cache_n"] = 3

    found = recorded("A9/A.B5/{restart}/A", change=change)
    assert [(row.same, row.why, row.first) for row in found] == [
        (None, ENDED_EARLY, ""), (None, ENDED_EARLY, ""), (False, "", "cache_n: 3 there, 0 here")]  # fmt: skip


def test_layers_are_those_of_the_name_of_a_tiny_model_or_of_the_user():
    assert from_file(Path("tiny-GGGA.gguf")) == RealModelFacts("GGGA", TINY, True)
    assert from_file(Path("tiny-GGGA.gguf"), "A") == RealModelFacts("A", TINY, True)
    assert from_file(Path("tiny-deepseek4.gguf")).layers == "deepseek4"
    assert [model_of._ours(name) for name in ("tiny-W8A.gguf", "W8A.gguf", "tiny-nothing.gguf", "deepseek4.gguf")] == [
        "W8A", "", "", ""]  # fmt: skip


@pytest.mark.parametrize(("keys", "layers", "found"), [
    ({"general.architecture": "llama"}, "", "A"), ({"general.architecture": "llama"}, "GA", "GA"),
    ({"general.architecture": "gemma3", "gemma3.attention.sliding_window": 512}, "", "W512 A"),
    ({"general.architecture": "other"}, "W8 A", "W8 A"), ({"general.architecture": "gemma3"}, "", "W0 A"),
])  # fmt: skip
def test_layers_of_another_model_follow_from_its_architecture(monkeypatch, keys, layers, found):
    monkeypatch.setattr(model_of, "read_gguf", lambda file, names: {**keys, model_of.TOKENS: ["x"] * 4000})
    assert from_file(Path("deepseek4.gguf"), layers) == RealModelFacts(found, real_vocabulary(4000), False)


@pytest.mark.parametrize("tokens", [None, [], "x", 3])
def test_a_file_without_a_list_of_tokens_has_a_large_vocabulary(monkeypatch, tokens):
    keys = {"general.architecture": "llama", model_of.TOKENS: tokens}
    monkeypatch.setattr(model_of, "read_gguf", lambda file, names: keys)
    assert from_file(Path("x.gguf")).vocabulary == real_vocabulary(model_of.MOST)


@pytest.mark.parametrize(("keys", "arch"), [({"general.architecture": "other"}, "other"), ({}, "")])
def test_an_unknown_architecture_needs_layers(monkeypatch, keys, arch):
    monkeypatch.setattr(model_of, "read_gguf", lambda file, names: keys)
    with pytest.raises(BadInput, match=f"unknown layers of architecture '{arch}'") as bad:
        from_file(Path("tiny-nothing.gguf"))
    assert (bad.value.file, bad.value.hint) == ("tiny-nothing.gguf", "name them with --layers, such as 'W1024 A' or GA")


def test_the_newest_architectures_are_read_from_the_file(monkeypatch):
    newest = next(iter(model_of.NEWEST))
    monkeypatch.setattr(model_of, "read_gguf", lambda file, names: {"general.architecture": newest})
    monkeypatch.setattr(model_of, "layers_in", lambda file: f"layers of {file}")
    monkeypatch.setattr(model_of, "short_notation", lambda layers: f"short {layers}")
    assert from_file(Path("x.gguf")).layers == "short layers of x.gguf"
    assert from_file(Path("x.gguf"), "A").layers == "A"


@pytest.mark.parametrize(("size", "first", "last"), [
    (20, 5, 17), (4000, 1000, 3499), (8000, 1000, 6999), (100_000, 1000, 20_999)])  # fmt: skip
def test_words_have_tokens_from_the_middle_of_a_vocabulary(size, first, last):
    found = real_vocabulary(size)
    assert (found.plain[0], found.plain[-1], len(found.plain)) == (first, last, last - first + 1)
    assert found[1:] == ((), (), {})


def test_a_server_names_its_file_or_the_user_the_layers(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(model_of, "from_file", lambda file, layers: asked.append((file.name, layers)))
    (tmp_path / "own.gguf").write_text("")
    (tmp_path / "own.bin").write_text("")
    from_server({"model_path": str(tmp_path / "own.gguf")}, {}, "A")
    from_server({"model_path": "/far/tiny-GA.gguf"}, {})
    assert asked == [("own.gguf", "A"), ("tiny-GA.gguf", "")]
    for props in ({"model_path": str(tmp_path / "own.bin")}, {"model_path": "/far/own.gguf"}, {"model_path": None}, {}):
        with pytest.raises(BadInput, match="the server does not report the layers of its model") as bad:
            from_server(props, {})
        assert bad.value.hint == "name them: --layers 'W1024 A'"
    most = real_vocabulary(model_of.MOST)
    for models in ({}, {"data": []}, {"data": [{}]}, {"data": [{"meta": None}]}, {"data": [{"meta": {}}]}):
        assert from_server({}, models, "GA") == RealModelFacts("GA", most, False)
    models = {"data": [{"meta": {"n_vocab": 4000}}, {"meta": {"n_vocab": 9}}]}
    assert from_server({}, models, "GA").vocabulary == real_vocabulary(4000)


def test_only_minimax_needs_flash_attention():
    assert base_flags("A") == BASE
    changed = [(at, word) for at, word in enumerate(base_flags("minimax-m3")) if word != BASE[at]]
    assert changed == [(BASE.index("-fa") + 1, "on")]


def test_files_of_a_comparison_lie_in_a_folder_that_is_named_after_the_program(monkeypatch):
    folders = []

    class Noted(model_of._Beside):
        def __init__(self, trace, mode, folder, sized):
            folders.append(folder)
            super().__init__(trace, mode, folder, sized)

    monkeypatch.setattr(model_of, "_Beside", Noted)
    recorded("A9/A.B5")
    assert [folder.name.startswith("cachesim-") for folder in folders] == [True] and not folders[0].exists()
