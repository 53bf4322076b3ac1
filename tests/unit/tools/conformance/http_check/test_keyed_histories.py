"""Tests of the check on servers with adapters and images: mix-ups are found, correct servers raise no alarm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.corpus import line_history
from cachesim.tools.conformance.http_check import rules_with_fault
from cachesim.tools.conformance.http_check.adapters import adapter_bursts
from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.images import image_bursts
from cachesim.tools.conformance.http_check.keyed_histories import ServerStages
from cachesim.tools.conformance.http_check.suite import CheckOptions, check
from cachesim.tools.conformance.protocol import CacheRequest
from tests.unit.tools.conformance.http_check.in_process import MODELS, NATIVE, PROPS, InProcess, Toy, stage_of
from tests.unit.tools.conformance.http_check.keyed_stand_in import KeyedServer
from tests.unit.tools.conformance.http_check.stand_in import Simulated

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


def test_a_finding_is_run_again_from_its_line(monkeypatch):
    monkeypatch.setattr(rules_with_fault, "MODELS", ())          # no rules are looked up
    wanted = CheckOptions(("isolation",), ("Wash5/A9{lora=0:1}/A.B1",), examples=1, tolerance=0.005, near=(8,))
    found, _ = served(KeyedServer("adapters"), wanted)
    assert states(found)["base"] == "failed"
    for text, what in (("A1{lora=2:1}", "lists 2 adapters"), ("I4x1.A1", "takes no images")):
        with pytest.raises(BadInput, match=what):
            served(KeyedServer(), CheckOptions(("same",), (text,), examples=1, tolerance=0.005))


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


def test_an_image_of_a_prompt_is_not_varied(stages):
    [step] = line_history("A8.I4x2.B3", True).scenario.steps
    assert str(stages.answer(CacheRequest(step.request.prompt))) == "a prompt with an image is not varied"
    assert stages.answer(CacheRequest((300, 301))).tokens


def test_without_images_there_is_no_noise_of_them(stages):
    assert stages.measure_images(99) == 0.0


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
