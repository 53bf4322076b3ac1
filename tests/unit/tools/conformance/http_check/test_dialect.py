"""Tests of the detection of a server and of its request format."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check.adapters import Adapter
from cachesim.tools.conformance.http_check.compare_answers import TOP
from cachesim.tools.conformance.http_check.dialect import (
    LARGEST,
    cold,
    complete,
    context_of,
    identify_server,
    listed,
    sizes_of,
)
from cachesim.tools.conformance.http_check.http_client import NotJson
from cachesim.tools.conformance.protocol import CacheRequest, Failed
from tests.unit.tools.conformance.http_check.in_process import MODELS, NATIVE, PROPS, InProcess
from tests.unit.tools.conformance.http_check.text_stand_in import TextServer


def native(**pages):
    return identify_server(InProcess(None, {**NATIVE, **{f"/{name}": page for name, page in pages.items()}}))


def models(vocabulary):
    return {**NATIVE, "/v1/models": {"data": [{"meta": {"n_vocab": vocabulary}}]}}


def test_a_llama_server_says_its_name_slots_and_context():
    found = native(props={**PROPS, "total_slots": 3, "model_path": "/a.gguf", "n_ubatch": 32})
    assert (found.dialect, found.name, found.slots, found.n_ctx) == ("native", "/a.gguf", 3, 4096)
    assert (tuple(found.sizes), found.busy, found.used, found.cold_is_costly) == ((32,), "", 0, False)


@pytest.mark.parametrize("slots", ["x", 0, -1, True, 2.0, None, 1_025, 1_000_000_000])
def test_a_number_of_slots_that_cannot_be_is_refused(slots):
    with pytest.raises(BadInput, match="total_slots: expected an integer from 1 to 1024"):
        native(props={"total_slots": slots})
    assert native(props={"total_slots": 1_024}).slots == 1_024


@pytest.mark.parametrize("vocabulary, tokens", [
    (4096, range(256, 4096)), (152_000, range(1_000, 30_000)), (0, range(1_000, 30_000)), ("x", range(1_000, 30_000)),
])
def test_tokens_that_are_sent_are_no_special_ones(vocabulary, tokens):
    assert identify_server(InProcess(None, models(vocabulary))).tokens == tokens


def test_a_vocabulary_that_is_too_small_is_refused():
    with pytest.raises(BadInput, match="a vocabulary with at least 64 ordinary tokens, found 60"):
        identify_server(InProcess(None, models(60)))


def test_slots_in_use_are_said_and_requests_before_are_counted():
    slots = [{"n_prompt_tokens": 5, "id_task": 7}, {"n_prompt_tokens": 0, "id_task": -1}, {"id_task": 9}]
    assert (native(slots=slots).busy, native(slots=slots).used) == ("1 slots hold conversations", 16)
    assert native(slots=[*slots, {"is_processing": True}]).busy == "a slot is processing a request"
    assert native(slots={"error": "no"}).busy == ""


def test_a_request_says_its_slot_only_where_one_was_chosen():
    http = InProcess(lambda body: (200, {"tokens": [1], "timings": {"cache_n": 2, "prompt_n": 1}}))
    server = identify_server(http)
    assert complete(http, server, CacheRequest((1, 2, 3)), -1).cached == 2
    complete(http, server, CacheRequest((1, 2, 3), n_predict=4), 0)
    cold(http, server, CacheRequest((1, 2, 3), cancel_after=1), 0)
    complete(http, server, CacheRequest((1, 2, 3), cancel_after=1), 0)
    bodies = [body for path, body in http.asked if path == "/completion"]
    assert [one.get("id_slot") for one in bodies] == [None, 0, 0, 0]
    assert [one["cache_prompt"] for one in bodies] == [True, True, False, True]
    assert [one.get("stream", False) for one in bodies] == [False, False, False, True]
    assert bodies[1]["prompt"] == [1, 2, 3] and bodies[1]["n_predict"] == 4 and bodies[1]["temperature"] == 0


def test_a_reply_with_an_error_is_no_answer():
    for status, said in ((200, {"error": "no"}), (200, [1]), (500, {})):
        http = InProcess(lambda body, reply=(status, said): reply)
        with pytest.raises(Failed):
            complete(http, identify_server(http), CacheRequest((1,)), 0)
    http = InProcess(lambda body: (400, {"error": {"message": "too long"}}))
    assert complete(http, identify_server(http), CacheRequest((1,)), 0).refused == "400: too long"


def test_a_server_with_the_paths_of_openai_is_asked_in_its_own_way():
    http = InProcess(TextServer().complete, {"/v1/models": MODELS})
    found = identify_server(http)
    assert (found.dialect, found.name, found.slots) == ("openai", "toy", 1)
    assert found.missing == {"cache": "requests cannot switch the cache off"} and found.cold_is_costly
    found = identify_server(InProcess(TextServer(switch=True).complete, {"/v1/models": MODELS}))
    assert found.missing == {} and not found.cold_is_costly


def test_sizes_that_a_server_states_are_found_wherever_they_stand():
    props = {"total_slots": 1, "model": {"n_swa": 48, "n_ctx": 4096}, "n_ubatch": 32, "chat": {"n_batch": True}}
    assert sizes_of(props, None, [{"block_size": 16}]) == (16, 32, 48)
    assert sizes_of({"n_swa": 1, "n_batch": 0, "page_size": 2}) == (2,)
    assert sizes_of({"a": {"b": {"c": {"d": {"n_swa": 8}}}}}) == (8,)
    assert sizes_of({"a": {"b": {"c": {"d": {"e": {"n_swa": 8}}}}}}) == ()          # nested too deep
    assert sizes_of({"n_swa": LARGEST}, {"n_batch": LARGEST + 1}) == (LARGEST,)
    assert context_of(7, props) == 4096 and context_of(7, []) == 7
    assert context_of(7, {"n_ctx": 512}, {"max_model_len": 256}, {"n_ctx": 0}) == 256
    assert (context_of(7, {"n_ctx": 2}), context_of(7, {"n_ctx": 1})) == (2, 7)


def openai_pages(*models):
    return {"/v1/models": {"data": list(models)}}


def openai(pages, **how):
    return identify_server(InProcess(TextServer(arrays=True, **how).complete, pages))


def test_a_server_with_the_paths_of_openai_states_its_context_and_sizes():
    page = {"id": "x" * 300, "max_model_len": 512, "block_size": 16}
    found = identify_server(InProcess(TextServer(arrays=True).complete, openai_pages(page)))
    assert (found.n_ctx, found.sizes, len(found.name)) == (512, (16,), 200) and found.name.count("x") == 197
    assert tuple(found.tokens) == tuple(range(1_000, 30_000)) and not found.chooses_rows and not found.is_tiny
    assert openai({}).name == "/v1/completions" and openai({}).n_ctx == 4096
    assert openai(openai_pages({"id": "deepseek-ai/DeepSeek-V3.2"})).chooses_rows


def test_a_page_that_is_not_json_counts_as_missing_and_a_lost_connection_ends_the_detection():
    class Broken(InProcess):
        error = NotJson("expected JSON")

        def get(self, path):
            raise self.error

    http = Broken(TextServer(arrays=True).complete, {})
    assert identify_server(http).dialect == "openai"
    http.error = Failed("connection failed")
    with pytest.raises(BadInput, match="connection failed") as bad:
        identify_server(http)
    assert bad.value.file == http.url


@pytest.mark.parametrize(("props", "models", "facts"), [
    ({}, {}, (False, False, False)), ({"modalities": {"vision": True}}, {"n_params": 9_999_999}, (True, True, False)),
    ({"modalities": {"vision": 1}}, {"n_params": 10_000_000}, (False, False, False)),
    ({"modalities": {"vision": False}}, {"n_params": 0}, (False, False, False)),
    ({"model_path": "/x/GLM-5.2-Q2_K.gguf", "model_alias": "mine"}, {}, (False, False, True)),
])  # fmt: skip
def test_what_a_native_server_says_about_its_model(props, models, facts):
    found = native(props={**PROPS, **props}, **{"v1/models": {"data": [{"meta": models}]}})
    assert (found.vision, found.is_tiny, found.chooses_rows) == facts


def test_a_native_server_has_a_name_and_adapters():
    assert native(props=PROPS).name == "llama-server"
    assert native(props={**PROPS, "model_alias": "mine", "model_path": "/a.gguf"}).name == "mine"
    assert len(native(props={**PROPS, "model_alias": "x" * 99}).name) == 60
    found = native(**{"lora-adapters": [{"id": 0, "scale": 0.5}, {"id": 1, "scale": 1}, "x"]})
    assert [adapter.scale for adapter in found.adapters] == [0.5, 1.0] and native().adapters == ()


@pytest.mark.parametrize(("vocabulary", "first", "last"), [
    (68, 4, 67), (1_600, 100, 1_599), (16_000, 1_000, 15_999), (40_000, 1_000, 29_999)])  # fmt: skip
def test_the_first_tokens_of_a_vocabulary_are_left_out(vocabulary, first, last):
    found = identify_server(InProcess(None, models(vocabulary))).tokens
    assert (found[0], found[-1]) == (first, last)


def test_a_list_at_a_path_may_be_missing_or_hold_other_things():
    class Broken(InProcess):
        def get(self, path):
            raise Failed("gone")

    assert listed(Broken(None), "/slots") == []
    assert listed(InProcess(None, {"/slots": {"id": 0}}), "/slots") == []
    assert listed(InProcess(None, {"/slots": [{"id": 0}, 7, None]}), "/slots") == [{"id": 0}]


def completion(*tokens, cached=2, **more):
    return {"tokens": list(tokens), "timings": {"cache_n": cached, "prompt_n": 1}, **more}


def test_of_several_completions_the_first_that_differs_is_judged():
    def reply_of(*bodies):
        http = InProcess(lambda body: (200, list(bodies)))
        ask = CacheRequest((1, 2, 3), fields={"n_cmpl": len(bodies)})
        return complete(http, identify_server(http), ask, -1)

    assert reply_of(completion(5), completion(5, cached=0), completion(6, cached=0)).tokens == (6,)
    assert reply_of(completion(5), completion(6, cached=0)).cached == 2
    assert reply_of(completion(5), completion(5)).tokens == (5,)
    assert reply_of(*[completion(5)] * 64, completion(6)).tokens == (5,)
    with pytest.raises(Failed, match="expected the completions of a prompt, found none"):
        reply_of()


def test_a_cold_request_has_no_place_and_is_not_cancelled():
    http = InProcess(lambda body: (200, completion(5)))
    server = identify_server(http)
    ask = CacheRequest((1, 2), 3, cancel_after=1, fields={"id_slot": 1, "n_cmpl": 2, "lora": [{"id": 0, "scale": 1}]})
    cold(http, server, ask, 0)
    [(path, body)] = http.asked
    assert (path, body) == ("/completion", {
        "prompt": [1, 2], "n_predict": 3, "temperature": 0, "cache_prompt": False, "ignore_eos": True, "n_probs": TOP,
        "return_tokens": True, "id_slot": 0, "lora": [{"id": 0, "scale": 1}]})  # fmt: skip


class Client:
    """Client of a server that is not native, which notes what it is asked."""

    cold_is_costly = True

    def complete(self, ask):
        return "warm", ask

    def cold(self, ask):
        return "cold", ask


def test_a_server_that_is_not_native_is_asked_by_its_client():
    server = replace(native(), client=Client())
    ask = CacheRequest((1,), fields={"id_slot": 1, "model": "one"})
    assert complete(None, server, ask, 0) == ("warm", ask)
    assert cold(None, server, ask, 0) == ("cold", CacheRequest((1,), cache=False, fields={"model": "one"}))
    assert server.cold_is_costly and not native().cold_is_costly


def test_adapters_of_a_server_with_the_paths_of_openai_are_models_of_their_own():
    found = openai(openai_pages({"id": "base"}, {"id": "cat", "parent": "base"}, {"id": "other"}))
    assert found.adapters == (Adapter("cat"),) and found.name == "base"
    assert openai(openai_pages({"id": "base"})).adapters == ()


def test_a_server_that_answers_no_completion_is_named_with_what_it_said():
    def complete(body):
        if isinstance(body.get("prompt"), list):
            return 404, {}
        raise Failed("connection failed")

    said = r"\(/v1/completions: no HTTP, /v1/chat/completions: no HTTP\)"
    with pytest.raises(BadInput, match=said):
        identify_server(InProcess(complete, {}))


def test_a_way_to_cold_answers_is_tried_with_a_prompt_of_100_tokens():
    http = InProcess(TextServer(arrays=True, switch=True).complete, {})
    assert identify_server(http).missing == {}
    assert {len(body["prompt"]) for _, body in http.asked if isinstance(body["prompt"], list)} == {2, 100}


@pytest.mark.parametrize("reply", [(500, {"choices": [{"text": " x"}]}), (200, [1])])
def test_an_error_with_a_completion_and_a_list_are_no_answers(reply):
    with pytest.raises(BadInput, match="neither llama-server nor an OpenAI-compatible server answers at this URL"):
        identify_server(InProcess(lambda body: reply, {}))
