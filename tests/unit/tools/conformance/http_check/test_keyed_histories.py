"""Tests of the check on servers with adapters and images: mix-ups are found, correct servers raise no alarm."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.corpus import line_history
from cachesim.tools.conformance.http_check.adapters import adapter_bursts, adapter_lines
from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.images import ROOM, image_bursts
from cachesim.tools.conformance.http_check.keyed_histories import ServerStages, _telling, _wrong, keyed_histories
from cachesim.tools.conformance.http_check.replies import ScoredAnswer
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply
from tests.unit.tools.conformance.http_check.in_process import MODELS, NATIVE, PROPS, InProcess, Toy, stage_of
from tests.unit.tools.conformance.http_check.keyed_stand_in import KeyedServer
from tests.unit.tools.conformance.http_check.stand_in import Simulated
from tests.unit.tools.conformance.http_check.test_confirming_search import ALONE, Played

ISOLATION = CheckOptions(("isolation",), examples=1, tolerance=0.005, near=(8,))
LISTED = [{"id": 0, "path": "a", "scale": 0.0}, {"id": 1, "path": "b", "scale": 0.0}]


def checked(complete, pages, wanted=ISOLATION, most=3_000):
    http = InProcess(complete, pages, most)
    return check(http, identify_server(http), wanted), http


def simulated(profile, model="A", listed=LISTED, **flags):
    scales = ",".join(f"{one['scale']:g}" for one in listed)
    server = Simulated(profile, model, lora_scaled=scales, **flags)
    return checked(server.complete, {**NATIVE, "/lora-adapters": listed})


def served(server, wanted=ISOLATION):
    return checked(server.complete, {"/v1/models": server.get("/v1/models")[1]}, wanted)


def states(found):
    return {one.name: one.state for one in found.report.results}


def line(found, name):
    return found.report[name].finding.line


@pytest.mark.long
def test_a_llama_server_mixes_adapters_in_its_prompt_cache_and_without_a_list():
    found, _ = simulated("llama_cpp@b11549")
    assert states(found)["adapter"] == states(found)["base"] == "failed"
    assert line(found, "base") == "Wash5/A2{lora=0:1}/A"
    assert line(found, "adapter").count("lora=") >= 2 and found.server.adapters
    assert any(" on A: LC-" in match.sentence for match in found.rules["base"])


@pytest.mark.long
def test_without_a_prompt_cache_only_requests_without_a_list_are_wrong():
    found, _ = simulated("llama_cpp@b11549", cache_ram=0)
    assert (states(found)["adapter"], states(found)["base"]) == ("ok", "failed")


@pytest.mark.part(3)
@pytest.mark.parametrize("profile", ["llama_cpp@b11549-lora-tried", "llama_cpp@b11549-repaired"])
@pytest.mark.parametrize("listed", [LISTED, LISTED[:1], [{"id": 0, "scale": 1.0}]])
def test_a_repaired_llama_server_raises_no_alarm(profile, listed):
    found, http = simulated(profile, listed=listed)
    assert {states(found)[name] for name in ("adapter", "base", "new")} == {"ok"} and not found.report.failing
    assert {"lora": [{"id": 0, "scale": listed[0]["scale"]}]} in [
        {"lora": body["lora"][:1]} for _, body in http.asked if len(body["prompt"]) == 5 and "lora" in body
    ]


@pytest.mark.part(3)
@pytest.mark.parametrize("mixes, failed", [("", set()), ("adapters", {"adapter", "base"})])
def test_models_with_a_parent_are_asked_as_adapters(mixes, failed):
    found, http = served(KeyedServer(mixes))
    assert {name for name, state in states(found).items() if state == "failed"} == failed
    assert {body.get("model") for _, body in http.asked} >= {"one", "two"} and "image" not in states(found)


@pytest.mark.part(3)
@pytest.mark.parametrize("mixes, state", [("", "ok"), ("images", "failed")])
def test_two_images_of_one_size_are_asked_for_at_the_same_place(mixes, state):
    found, _ = served(KeyedServer(mixes, chat=True, base=9))
    assert (states(found)["image"], states(found)["adapter"], found.image_tokens) == (state, "ok", 5)
    assert state == "ok" or line(found, "image").count("x1") == 2
    assert found.report["image"].reused or state == "failed"


def test_what_would_not_show_is_undecided():
    found, _ = served(KeyedServer(weak=True, chat=True))
    assert all(states(found)[name] == "undecided" for name in ("adapter", "base", "image"))
    assert all("a wrong one would not show" in found.report[name].why for name in ("adapter", "image"))
    found, http = simulated("llama_cpp@b11549", listed=[{"id": 0, "scale": 0, "alora_invocation_tokens": [7]}])
    assert states(found)["adapter"] == "undecided" and "aLoRA" in found.report["adapter"].why
    assert not any(one["scale"] for _, body in http.asked for one in body.get("lora", ()))


def test_a_server_that_says_that_it_takes_images_and_refuses_them_is_undecided():
    server = Simulated("llama_cpp@b11549-repaired", "A")

    def complete(body):
        return (400, {"error": "no template"}) if "messages" in body else server.complete(body)

    found, _ = checked(complete, {**NATIVE, "/props": {**PROPS, "modalities": {"vision": True}}})
    assert states(found)["image"] == "undecided" and "images cannot be sent" in found.report["image"].why


def test_other_servers_are_judged_as_before():
    found, http = checked(Simulated("llama_cpp@b11549-repaired", "A").complete, NATIVE)
    assert not {"adapter", "base", "image"} & {*states(found)} and not any("messages" in body for _, body in http.asked)
    found, _ = served(KeyedServer(chat=True, blind=True))
    assert "image" not in states(found)


def test_a_finding_is_run_again_from_its_line():
    wanted = CheckOptions(("isolation",), ("Wash5/A9{lora=0:1}/A.B1",), examples=1, tolerance=0.005, near=(8,))
    found, _ = served(KeyedServer("adapters"), wanted)
    assert states(found)["base"] == "failed"
    for text, what in (("A1{lora=2:1}", "lists 2 adapters"), ("I4x1.A1", "takes no images")):
        with pytest.raises(BadInput, match=what):
            served(KeyedServer(), CheckOptions(("same",), (text,), examples=1, tolerance=0.005))


def test_the_noise_of_images_is_measured_until_one_gets_no_answer():
    stages = ServerStages(stage_of(Toy()))
    assert stages.measure_images(100) == 0.0 and stages.why == ""

    def fail(history):
        raise BadInput("no reply")

    stages.images, stages.image_tokens = SimpleNamespace(play=fail, http=stages.text.http), 4
    assert stages.measure_images(5) == 0.0 and stages.images is not None          # no prompt is so short
    assert stages.measure_images(100) == 0.0 and stages.images is None
    assert stages.why == "images cannot be sent: no reply"


def test_a_history_with_images_needs_a_server_that_takes_them():
    stages = ServerStages(stage_of(Toy()))
    with pytest.raises(BadInput, match="the server takes no images"):
        stages.play(parse_history("A4.I4x1.B2"))
    stages.why = "images cannot be sent: they are large"
    with pytest.raises(BadInput, match="images cannot be sent: they are large"):
        stages.play(parse_history("A4.I4x1.B2"))
    assert stages.play_undrafted(parse_history("A4.I4x1.B2")).gap == "chats"
    assert [stages.play_undrafted(parse_history("A4/A.B2")).gap, len(stages.play(parse_history("A4/A.B2")).warm)] == [
        "", 2]  # fmt: skip


def test_a_prompt_that_ends_with_an_image_is_not_sent():
    wanted = CheckOptions(("isolation",), ("A9.I5x1/B3", "A2.I5x1.B3"), examples=1, tolerance=0.005, near=(8,))
    found, http = served(KeyedServer(chat=True), wanted)
    contents = [body["messages"][0]["content"] for _, body in http.asked if "messages" in body]
    parts = [one for one in contents if isinstance(one, list)]
    assert parts and all(one[0]["type"] == one[-1]["type"] == "text" for one in parts)
    assert states(found)["image"] == "ok"


def test_a_server_without_adapters_has_none():
    assert identify_server(InProcess(None, {"/v1/models": MODELS} | NATIVE)).adapters == ()


def test_bursts_have_identical_prompts_under_one_adapter_and_with_one_image():
    """After the same prompt under the other adapter, or with the other image."""
    for lines, wanted in ((adapter_bursts(("0:1", "1:1"), 20, 4), 4), (image_bursts(30, 8, 4), 4)):
        history = line_history(lines[-1], True)
        asked = history.asked
        assert len({(one.prompt, one.extra) for one in asked[1:]}) == 1 and asked[0] != asked[1]
        assert [one.together for one in asked] == [False, False, *[True] * (wanted - 1)]
    assert image_bursts(30, 1, 4) == ()


@pytest.fixture
def stages():
    return ServerStages(stage_of(Toy()))


def test_histories_with_images_need_a_server_that_takes_them(stages):
    with pytest.raises(BadInput, match=r"A8\.I4x2\.B3: the server takes no images") as bad:
        stages.play(line_history("A8.I4x2.B3", True))
    assert bad.value.file == stages.text.http.url
    stages.why = "images cannot be sent: 400"
    with pytest.raises(BadInput, match="images cannot be sent: 400"):
        stages.play(line_history("A8.I4x2.B3", True))
    assert stages.play_undrafted(line_history("A8.I4x2.B3", True)).gap == "chats"
    assert stages.play_undrafted(parse_history("A8")).gap == "" and stages.text.http.asked


def test_the_end_of_the_server_is_noted_wherever_it_came(stages):
    end, other = object(), object()
    stages.images = SimpleNamespace(play=lambda history: "run", end=end)
    assert stages.play(line_history("A8.I4x2.B3", True)) == "run" and stages.text.end is end
    stages.images.end = other
    stages.play(line_history("A8.I4x2.B3", True))
    assert stages.text.end is end


def test_an_image_of_a_prompt_is_not_varied(stages):
    [step] = line_history("A8.I4x2.B3", True).scenario.steps
    assert str(stages.answer(CacheRequest(step.request.prompt))) == "a prompt with an image is not varied"
    assert stages.answer(CacheRequest((300, 301))).tokens


def test_without_images_there_is_no_noise_of_them(stages):
    assert stages.measure_images(99) == 0.0


def far_stages(*answers, invoked=(False,), images=None, why=""):
    """Return stages whose cold answers have these log-probabilities."""
    replies = [one if one is None else Reply((1,), ScoredAnswer((1,), "", ({1: one},))) for one in answers]
    server = SimpleNamespace(adapters=[SimpleNamespace(invoked=one) for one in invoked])
    lines = []

    def play(history):
        lines.append(history.line)
        return SimpleNamespace(cold=[Failed("gone") if one is None else one for one in replies])

    return SimpleNamespace(text=SimpleNamespace(server=server), images=images, why=why, play=play, lines=lines,
                           image_tokens=5)  # fmt: skip


def keyed(stages, most=4096):
    return {name: (len([*found.lines]), found.why, len([*found.together]))
            for name, found in keyed_histories(stages, 0.005, 20, most, 3)}  # fmt: skip


@pytest.mark.parametrize(("answers", "invoked", "chosen"), [
    ((-1.0, -2.0), (False,), ["0:1"]), ((-1.0, -1.0), (False,), []),
    ((-1.0, -2.0, -3.0), (False, False), ["0:1", "1:1"]),
    ((-1.0, -2.0, -2.001), (False, False), ["0:1"]), ((-1.0, None, -3.0), (False, False), ["1:1"]),
    ((None, -1.0), (False,), []), ((), (False,), []), ((-1.0, -2.0), (True, False), ["1:1"]),
])  # fmt: skip
def test_adapters_are_told_apart_by_their_cold_answers(answers, invoked, chosen):
    assert list(_telling(far_stages(*answers, invoked=invoked), 0.005)) == chosen


def test_at_most_eight_adapters_are_tried():
    stages = far_stages(-1.0, invoked=(False,) * 9)
    assert list(_telling(stages, 0.005)) == []
    assert stages.lines[0].startswith("A40>4{lora=") and stages.lines[0].count("/A>4{lora=") == 8


def test_why_adapters_and_images_are_not_compared():
    equal = "cold answers {} differ by no more than the tolerance: a wrong one would not show"
    found = keyed(far_stages(-1.0, -1.0))
    assert found == dict.fromkeys(("adapter", "base"), (0, equal.format("under an adapter and without it"), 0))
    found = keyed(far_stages(-1.0, -2.0, invoked=(True,)))
    assert found == dict.fromkeys(("adapter", "base"), (0, "aLoRA adapters are not asked for", 0))
    found = keyed(far_stages(-1.0, -1.0, invoked=(False, True)))
    assert found["adapter"][1] == equal.format("under an adapter and without it"), "one of them needs no marker"
    assert keyed(far_stages(invoked=())) == {}
    assert keyed(far_stages(invoked=(), why="images cannot be sent: 400")) == {
        "image": (0, "images cannot be sent: 400", 0)}  # fmt: skip
    small = 2 * 5 + ROOM
    stages = far_stages(-1.0, -1.0, invoked=(), images=object())
    assert keyed(stages, small) == {"image": (0, equal.format("to two images"), 0)}
    assert keyed(stages, small - 1) == {
        "image": (0, f"two images of 5 tokens do not fit into a prompt of {small - 1}", 0)}  # fmt: skip


def test_histories_of_adapters_have_a_reason_or_lines():
    found = keyed(far_stages(-1.0, -2.0, -3.0, invoked=(False, False)))
    assert found["base"] == (0, "", 0) and found["adapter"][1] == "" and found["adapter"][0] > 0
    assert found["adapter"][2] == len(list(adapter_bursts(("0:1", "1:1"), 20, 3)))
    three = far_stages(-1.0, -2.0, -3.0, -4.0, invoked=(False,) * 3)
    of_three = dict(keyed_histories(three, 0.005, 20, 4096, 3))["adapter"]
    assert [*of_three.lines] == [*adapter_lines(("0:1", "1:1"), 20)], "the first two are compared"


def test_a_single_wrong_answer_makes_a_history_wrong():
    for off, is_wrong in ((0.5, True), (0.0, False)):
        assert _wrong(SimpleNamespace(play=Played(off)), ALONE, 0.005) is is_wrong


def test_images_that_cannot_be_sent_have_the_cause_alone(monkeypatch):
    """The place and the hint of a refusal are those of the trial, not of the check."""
    def refuse(client):
        raise BadInput("it has no projector", file="http://127.0.0.1:1", hint="start it with one")

    monkeypatch.setattr("cachesim.tools.conformance.http_check.keyed_histories.image_size", refuse)
    stages = ServerStages(stage_of(Toy()))
    stages.text.server = replace(stages.text.server, vision=True)
    stages.find_images()
    assert (stages.images, stages.why) == (None, "images cannot be sent: it has no projector")


def test_chats_with_images_are_sent_as_to_a_server_without_drafts():
    """Their answers cannot be had token by token."""
    server = KeyedServer(chat=True)
    stages = ServerStages(stage_of(Toy()))
    stages.text.http = InProcess(server.complete, {})
    stages.text.server = replace(stages.text.server, drafts=True, vision=True)
    stages.find_images()
    found = stages.images.server
    assert (stages.image_tokens, stages.why, found.dialect, found.drafts) == (5, "", "openai", False)
    assert stages.text.server.drafts and found.tokens == found.client.spelling.tokens
