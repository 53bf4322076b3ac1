"""Recordings of SGLang's classes: options of the header, steps of the server."""

import pytest

from cachesim.engines.sglang import recordings
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA
from cachesim.engines.sglang.recordings import CLASSES

CONFIG = {"kind": "full_swa_mamba", "page_size": 4, "window": 6, "tokens": 188, "swa_tokens": 128, "states": 24,
          "max_running": 4, "chunked_prefill_size": None, "schedule_policy": "lpm", "eviction_policy": "slru",
          "strategy": "extra_buffer", "grid": 4, "track_interval": 8, "max_states_per_path": 2}  # fmt: skip


def test_a_header_names_model_and_options():
    model, flags = recordings.setup(CONFIG)
    assert model == "G W6 A" and flags["chunked_prefill_size"] == -1 and flags["radix_eviction_policy"] == "slru"
    assert (flags["in_batch_threshold"], flags["swa_eviction_interval"]) == (8, 1)


def test_a_turn_without_prefill_has_two_steps(engine):
    model, flags = recordings.setup({"kind": "full", "tokens": 30, "max_running": 2, "max_prefill_tokens": 64})
    server = engine.start("sglang@0.5.23-recorded", model, flags, "provenance")
    request = {"prompt": list(range(9)), "answer": [1, 2, 3, 4]}
    play = CLASSES.play(server, {"requests": {"0": request, "1": {**request, "prompt": list(range(20, 40))}}})
    assert play({"op": "add", "req": 0}).fields == {"req": 0}
    first = play({"op": "prefill", "sizes": {}, "tree": []})
    assert first.fields["run"] == [[0, 0, 9]] and first.fields["sizes"] == {"full": [21, 0, 9]}
    assert first.fields["tree"] == [[1, 0, 0, 9, "F", [1]]] and len(first.said) == 1
    play({"op": "add", "req": 1})
    assert play({"op": "prefill"}).fields["verdicts"] == [[1, "NO_TOKEN"]]
    assert play({"op": "decode"}).fields["run"] == [[0, 9, 10]]
    assert play({"op": "abort", "req": 0}).fields["ev"][0] == ["insert", 10, 9, 0, 9, None]


def test_marks_of_wrong_reads():
    assert CLASSES.wrong({"bad": {"3": {}}}) == {3} and CLASSES.wrong({}) == set()


@pytest.mark.parametrize("kind", ["full", "full_swa"])
def test_a_model_has_the_layers_of_its_kind(kind):
    assert recordings.setup({"kind": kind, "window": 8})[0] == {"full": "A", "full_swa": "W8 A"}[kind]


def test_the_tree_of_a_recording_shows_parents_parts_locks_and_states(engine):
    model, flags = recordings.setup({**CONFIG, "kind": "full_mamba", "chunked_prefill_size": 8, "page_size": 1,
                                     "strategy": "no_buffer", "eviction_policy": "lru"})  # fmt: skip
    server = engine.start("sglang@0.5.23-recorded", model, flags, "none")
    requests = {"0": {"prompt": [*range(12)], "answer": [1]}, "1": {"prompt": [*range(8), 40, 41], "answer": [1]}}
    play = CLASSES.play(server, {"requests": requests})
    for number in requests:
        play({"op": "add", "req": number})
        while server.working:
            play({"op": "prefill"})
    assert play({"op": "final"}).fields == {
        "tree": [[1, 0, 0, 8, "FM", [0, 0], 8], [2, 1, 8, 12, "FM", [0, 0], 12], [3, 1, 8, 10, "FM", [0, 0], 10]],
        "sizes": {"full": [174, 14, 0], "mamba": [21, 3, 0]}}
    core = server.scheduler.tree_cache.tree_core
    core.evict_component(core.nodes_by_id[1], MAMBA, "")
    assert play({"op": "final"}).fields["tree"][0] == [1, 0, 0, 8, "F", [0, 0]]


def test_each_turn_has_its_own_events_and_what_its_requests_said(engine):
    """Two requests of nine tokens, the second one after a decode step of the first."""
    model, flags = recordings.setup({"kind": "full", "tokens": 60, "max_running": 2, "max_prefill_tokens": 64})
    server = engine.start("sglang@0.5.23-recorded", model, flags, "provenance")
    requests = {str(number): {"prompt": [*range(5 * number, 5 * number + 9)], "answer": [1] * 3} for number in (0, 1)}
    play = CLASSES.play(server, {"requests": requests})
    found = []
    for steps in (("prefill", "decode"), ("prefill",)):
        play({"op": "add", "req": len(found) // 2})
        found += [play({"op": op}) for op in steps]
    assert [step.fields["ev"] for step in found] == [
        [["match", 0, 8, 0, 0, None, None, 0], ["insert", 9, 0, 0, 0, None], ["new", 1, 0, 9]], [],
        [["match", 1, 8, 0, 0, None, None, 0], ["insert", 9, 0, 0, 0, None], ["new", 2, 0, 9]]]  # fmt: skip
    said = [(number, request.prompt, answer.slot_tokens, [one.pos for one in answer.outputs])
            for step in found for number, request, answer in step.said]  # fmt: skip
    prompts = tuple(range(9)), (*range(9), 1), tuple(range(5, 14))
    places = [*range(9)], [9], [*range(9)]
    assert said == [(number, prompt, prompt, place)
                    for number, prompt, place in zip((0, 0, 1), prompts, places, strict=True)]  # fmt: skip
