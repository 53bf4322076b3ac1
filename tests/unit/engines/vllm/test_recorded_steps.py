"""Steps of a recording on a server: each returns the fields that the recording should have."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.recordings import CLASSES
from cachesim.engines.vllm.worker.draft_rows import DraftRowsWrong
from tests.unit.engines.vllm.test_recordings import CONFIG

FULL = {"kind": "full", "block_size": 4, "eagle": False}
WINDOW = {"kind": "swa", "window": 6, "block_size": 4, "eagle": False}
STATES = {"kind": "mamba", "block_size": 8, "eagle": False}
REQUESTS = {
    "A": {"prompt": [*range(10)], "answer": [1, 2]}, "A end": {"prompt": [*range(10)], "answer": [1]},
    "A more": {"prompt": [*range(8), 40, 41, 42, 43, 44], "answer": [3]},
    "A short": {"prompt": [*range(6)], "answer": [6, 7, 1]},
    "B short": {"prompt": [*range(20, 26)], "answer": [26, 27, 1]},
    "A salt": {"prompt": [*range(10)], "answer": [1], "salt": "x"},
    "A new": {"prompt": [*range(10)], "answer": [1], "skip_read": True},
    "A late": {"prompt": [*range(10)], "answer": [1], "priority": 2},
    "A long": {"prompt": [*range(10)], "answer": [1, 2, 3, 4, 5]}, "B": {"prompt": [*range(20, 28)], "answer": [1, 2]},
    "C": {"prompt": [*range(20, 36)], "answer": [3]},
    "C soon": {"prompt": [*range(20, 36)], "answer": [3], "priority": 1},
}  # fmt: skip


def player(*groups: Mapping[str, Any], mode: str = "none", **config: Any) -> Any:
    data = {**CONFIG, "groups": groups or [FULL], "policy": "fcfs", "long_prefill_token_threshold": 0, "num_blocks": 6,
            **config}  # fmt: skip
    model, flags = CLASSES.setup(data)
    return CLASSES.play(ENGINE.start("vllm@0.33.0", model, flags, mode), {"requests": REQUESTS})


def fields(play: Any, op: str, *names: str, **step: Any) -> Any:
    """Perform a step; return its fields, or those of these names."""
    found = play({"op": op, **step}).fields
    return [found[name] for name in names] if names else found


def state(free: Sequence[int], running: Sequence[int] = (), waiting: Sequence[int] = (), **computed: int) -> Any:
    """Return a state after a step; ``computed``: tokens by request, such as r0=10."""
    return {"free": [*free], "running": [*running], "waiting": [*waiting],
            "computed": {name[1:]: tokens for name, tokens in computed.items()}}  # fmt: skip


def test_a_step_shows_its_requests_and_what_they_do_to_blocks() -> None:
    play = player()
    assert fields(play, "add", req="A") == {"req": 0, "hashes": [0, 1]}
    ran = play({"op": "schedule"})
    assert ran.fields == {
        "run": [[0, 0, 10]], "zero": [], "copies": [], "loads": [], "stores": [],
        "ev": [["lookup", 0, 0, 0], ["alloc", 0, 0, 0, 10, 0], ["key", 1, 0, 0, 4], ["key", 2, 1, 0, 8],
               ["got", [[1, 2, 3]]]],
    }  # fmt: skip
    assert [(number, request.prompt, answer.outputs) for number, request, answer in ran.said] == [
        (0, tuple(range(10)), [])]
    assert fields(play, "update") == {"finished": [], "cached": {"0": 0}, "state": state([4, 5], [0], r0=10), "ev": []}
    assert fields(play, "schedule", "run", "ev") == [
        [[0, 10, 1]], [["alloc", 0, 10, 0, 1, 0], ["got", [[]]]]]
    assert fields(play, "update") == {
        "finished": [0], "cached": {}, "state": state([3, 4, 5, 2, 1]), "ev": [["free", [3], [2, 1]]]}  # fmt: skip


def test_a_hash_keeps_its_number_and_an_evicted_block_shows_its_hashes() -> None:
    play = player()
    for name, known in (("A end", [0, 1]), ("A more", [0, 1, 2])):
        assert fields(play, "add", req=name)["hashes"] == known
        fields(play, "schedule")
        fields(play, "update")
    assert fields(play, "final") == {
        "pool": [[1, 0, 0, 0, 4], [2, 0, 1, 0, 8], [3, 0, 2, 0, 12]], "cpu": [], **state([4, 5, 3, 2, 1])}  # fmt: skip
    assert fields(play, "add", req="C")["hashes"] == [3, 4, 5, 6]
    [events] = fields(play, "schedule", "ev")
    assert [row for row in events if row[0] in ("evict", "key")] == [
        ["evict", 3, [2]], ["evict", 2, [1]],
        ["key", 4, 3, 0, 4], ["key", 5, 4, 0, 8], ["key", 3, 5, 0, 12], ["key", 2, 6, 0, 16]]  # fmt: skip
    assert fields(play, "final", "pool") == [
        [[1, 0, 0, 0, 4], [2, 1, 6, 0, 16], [3, 1, 5, 0, 12], [4, 1, 3, 0, 4], [5, 1, 4, 0, 8]]]


def test_a_request_names_its_salt_and_whether_it_reads_the_cache() -> None:
    play = player(num_blocks=30)
    for name in ("A end", "A salt", "A new"):
        fields(play, "add", req=name)
    assert fields(play, "schedule", "run") == [[[0, 0, 10], [1, 0, 10], [2, 0, 4]]]
    assert fields(play, "update", "cached") == [{"0": 0, "1": 0}]
    assert fields(play, "abort", req=0) == {"ev": []}
    assert fields(play, "abort", req=2) == {"ev": [["free", [], [7]]]}
    assert fields(play, "final", "pool", "running") == [
        [[1, 0, 0, 0, 4], [2, 0, 1, 0, 8], [4, 0, 2, 0, 4], [5, 0, 3, 0, 8], [7, 0, 0, 0, 4]], []]


def test_drafts_of_a_recording_are_taken_by_a_request_that_generates() -> None:
    """The second step has two drafts, of which the request accepts as many as its answer or the step states."""
    play = player(num_blocks=30, spec="ngram", num_spec=2, max_num_batched_tokens=8)
    fields(play, "add", req="A long")
    assert fields(play, "schedule", "run") == [[[0, 0, 8]]]
    assert fields(play, "update", drafts={"0": [5, 6]})["cached"] == {}
    assert fields(play, "schedule", "run") == [[[0, 8, 2]]]
    assert fields(play, "update", "cached", drafts={"0": [2, 9]}) == [{"0": 0}]
    assert fields(play, "schedule", "run", run=[[0, 10, 3, 2, 1]]) == [[[0, 10, 3, 2, 1]]]
    assert fields(play, "update", "state", drafts={"0": [5, 6]}) == [state(range(5, 30), [0], r0=12)]
    assert fields(play, "schedule", "run", run=[[0, 12, 3, 2, 2]]) == [[[0, 12, 3, 2, 2]]]
    assert fields(play, "update", "finished", drafts={"0": [7]}) == [[0]]
    assert fields(play, "schedule", "run") == [[]]


def test_waiting_requests_are_in_the_order_of_the_policy() -> None:
    for policy, order in (("priority", [2, 1]), ("fcfs", [1, 2])):
        play = player(policy=policy, max_num_seqs=1)
        for name in ("A", "A late", "C soon"):
            fields(play, "add", req=name)
        fields(play, "schedule")
        assert fields(play, "update", "state") == [state([4, 5], [0], order, r0=10)]


def test_a_reset_without_running_requests_fails_while_one_runs() -> None:
    play = player(num_blocks=7)
    fields(play, "add", req="A")
    fields(play, "add", req="B")
    fields(play, "schedule")
    fields(play, "update")
    assert fields(play, "reset", running=False) == {"ok": False, "ev": []}
    assert fields(play, "reset", running=True) == {
        "ok": True, "ev": [["preempt", 1, 8], ["free", [], [5, 4]], ["preempt", 0, 10], ["free", [3], [2, 1]]]}
    assert fields(play, "final") == {"pool": [], "cpu": [], **state([3, 6, 5, 4, 2, 1], waiting=[0, 1])}
    assert fields(play, "schedule", "run") == [[[0, 0, 11], [1, 0, 9]]]
    assert fields(play, "update", "cached", "finished") == [{}, [0, 1]]


def test_copies_between_the_memories_are_shown_with_the_chunks_in_use() -> None:
    play = player(num_blocks=12, offload={"num_cpu_chunks": 8})
    fields(play, "add", req="A end")
    fields(play, "add", req="A more")
    assert fields(play, "schedule", "loads", "stores") == [[], [[[1, 0], [2, 1]], [[4, 2]]]]
    assert fields(play, "update", "finished") == [[0, 1]]
    assert fields(play, "final", "cpu") == [[[0, 0, 0, -1], [1, 1, 0, -1], [2, 2, 0, -1]]]
    assert fields(play, "schedule", "run", ended=[1, 0]) == [[]]
    fields(play, "update", ended=[0])
    assert fields(play, "final", "cpu") == [[[0, 0, 0, 0], [1, 1, 0, 0], [2, 2, 0, -1]]]


def test_requests_that_ended_store_their_last_chunks_in_the_order_of_the_recording() -> None:
    """Each of them completes its second chunk with a right draft, which is known only after the step."""
    play = player(num_blocks=12, spec="ngram", num_spec=1,
                  offload={"num_cpu_chunks": 8, "offload_prompt_only": False})  # fmt: skip
    fields(play, "add", req="A short")
    fields(play, "add", req="B short")
    assert fields(play, "schedule", "stores") == [[[[1, 0]], [[3, 1]]]]
    fields(play, "update", ended=[0, 1], drafts={"0": [7], "1": [27]})
    both = [[0, 6, 2, 1, 1], [1, 6, 2, 1, 1]]
    assert fields(play, "schedule", "run", "stores", run=both) == [both, []]
    assert fields(play, "update", "finished") == [[0, 1]]
    assert fields(play, "schedule", "run", "stores", ended=[1, 0]) == [[], [[[4, 2]], [[2, 3]]]]


def test_a_request_waits_for_its_load() -> None:
    play = player(offload={"num_cpu_chunks": 8})
    for number, name in enumerate(("A end", "C")):
        fields(play, "add", req=name)
        fields(play, "schedule", ended=[number - 1])
        fields(play, "update", ended=[number])
    fields(play, "add", req="A end")
    assert fields(play, "schedule", "run", "loads", ended=[1]) == [[], [[[2, 1]]]]
    assert fields(play, "update", "state") == [state([5, 4, 3], waiting=[2])]
    assert fields(play, "schedule", "run") == [[]]
    fields(play, "update", ended=[2])
    assert fields(play, "schedule", "run") == [[[2, 8, 2]]]


def test_a_draft_row_that_the_recording_calls_wrong_is_compared() -> None:
    play = player(FULL, WINDOW, mode="provenance", num_blocks=30)
    fields(play, "add", req="A")
    assert fields(play, "schedule", "drafts wrong", bad={"0": ["draft_wrong"]}) == [[[], [0]]]
    fields(play, "update")
    assert fields(play, "schedule", "drafts wrong", bad={"0": ["wrong"]}) == [[]]
    fields(play, "update")
    assert fields(play, "final", "pool") == [[[1, 0, 0, 0, 4], [2, 0, 1, 0, 8], [4, 0, 0, 1, 4], [5, 0, 1, 1, 8]]]


def test_rows_of_a_model_with_states_are_zeroed() -> None:
    play = player(FULL, STATES, num_blocks=12, prefix_match_unit=4)
    fields(play, "add", req="A end")
    assert fields(play, "schedule", "run", "zero") == [[[0, 0, 8]], [1, 2]]
    fields(play, "update")
    assert fields(play, "final", "pool") == [[[1, 1, 0, 0, 4], [2, 1, 1, 0, 8], [3, 1, 1, 1, 8]]]


def test_a_server_that_died_in_a_step_has_no_last_state() -> None:
    play = player()
    fields(play, "add", req="A")
    assert fields(play, "died", "op") == ["schedule"]
    assert fields(play, "final", died=True) == {}


def test_a_step_accepts_the_drafts_that_its_row_states_and_shows_wrong_ones_of_its_own() -> None:
    play = player(mode="provenance")
    play({"op": "add", "req": "A"})
    play.server.log.emit(DraftRowsWrong(0, 0, 3, 1))
    assert fields(play, "schedule", "run", "drafts wrong", run=[[0, 0, 10]]) == [[[0, 0, 10]], []]
