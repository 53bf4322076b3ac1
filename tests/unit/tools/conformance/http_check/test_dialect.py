"""Tests of the detection of a server and of its request format."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.http_check.dialect import cold, complete, context_of, identify_server, sizes_of
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
    assert context_of(7, props) == 4096 and context_of(7, []) == 7
    assert context_of(7, {"n_ctx": 512}, {"max_model_len": 256}, {"n_ctx": 0}) == 256
