"""Tests of the ik_llama.cpp log reader and of the comparison of answers, without a server."""

from __future__ import annotations

import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.option_checks import filled
from tests.live.beside import ranked
from tests.live.ik import answers
from tests.live.ik.log import read_event, read_line
from tests.live.ik.models import find_model
from tests.live.ik.order import in_order
from tests.live.ik.together import as_one
from tests.live.ik.worlds import FEW, MANY, MODELS, drafting, option_set

HEAD = 'tid="1" timestamp=2'


def said(level, function, text, **fields):
    """Return a line of the server."""
    tail = "".join(f" {name}={json.dumps(value)}" for name, value in fields.items())
    return read_line(f"{level:>4} [{function:>24}] {text} | {HEAD}{tail}")


def late(text, slot=0, task=5):
    """Return a line that goes through the queue."""
    return read_line(f"slot apply_checkp: id {slot:2d} | task {task} | {text}")


def batch(p0, task=5):
    return said("INFO", "batch_pending_prompt", "kv cache rm [p0, end)", id_slot=0, id_task=task, p0=p0)


@pytest.mark.parametrize(
    ("entry", "event"),
    [
        (batch(7), {"ev": "batch", "slot": 0, "task": 5, "p0": 7}),
        (said("VERB", "slots", "selected slot by lcp similarity", id_slot=1, max_lcp_len=4, similarity=0.5),
         {"ev": "slot_by_lcp", "slot": 1, "task": None, "lcp": 4, "f_sim": 0.5}),
        (read_line("======== Cache: cache_size = 9, n_past =  4, n_past_prompt = 5"),
         {"ev": "cache_lcp", "slot": None, "task": None, "n_tokens": 9, "n_past": 4, "n_past_prompt": 5}),
        (read_line(" - looking for better prompt, base f_keep = -nan, sim = 0.000, n_keep = 0, "
                   "n_discarded_prompt = 0"),
         {"ev": "pc_search", "slot": None, "task": None, "f_keep": "-nan", "f_sim": 0.0}),
        (late("created context checkpoint 2 of 32 (pos_min = 4, pos_max = 5, n_tokens = 6, size = 0.206 MiB, "
              "took 0.03 ms)"),
         {"ev": "ckpt_create", "slot": 0, "task": 5, "n": 2, "max": 32, "pos_min": 4, "pos_max": 5, "n_tokens": 6,
          "mib": 0.206}),
        (said("ERR", "send_error", "task error", id_multi=-1, id_task=3, error="no"),
         {"ev": "error", "slot": None, "task": None, "text": 'task error id_multi=-1 id_task=3 error="no"'}),
        (said("VERB", "update_slots", "run slots completed"), None),
        (read_line("cache : some text of a prompt"), None),
    ],
)  # fmt: skip
def test_a_line_and_its_event(entry, event):
    assert read_event(entry) == event


def test_late_lines_stand_where_they_belong():
    restored = late("forcing full prompt re-processing due to lack of cache data (likely due to SWA, see x)")
    taken = late("created context checkpoint 1 of 3 (pos_min = 63, pos_max = 63, n_tokens = 64, size = 0.206 MiB, "
                 "took 0 ms)")  # fmt: skip
    progress = said("VERB", "b", "prompt processing progress", id_slot=0, n_past=64)
    end, other = said("VERB", "u", "run slots completed"), batch(64)
    release = said("INFO", "r", "slot released", id_slot=0, id_task=5, n_cache_tokens=70, truncated=False)
    lines = [batch(0), restored, progress, end, other, end, release, taken]
    kinds = [read_event(entry)["ev"] for entry in in_order(lines) if read_event(entry)]
    assert kinds == ["full_reprocess", "batch", "ckpt_create", "batch", "release"]
    assert in_order(lines[:1]) == lines[:1]


def answer(*tokens, prob=0.5):
    probs = [{"tok_str": "a", "prob": prob}, {"tok_str": "b", "prob": 0.25}]
    return {"completion_probabilities": [{"content": text, "probs": probs} for text in tokens]}


def test_an_answer_beside_a_cold_one():
    assert answers.compare([68], answer("d"), answer("d"))["equal"]
    apart = answers.compare([68, 69], answer("d", "e"), answer("d", "f"))
    assert (apart["equal"], apart["first_diff"], apart["max_dlogprob"]) == (False, 1, 0.0)
    assert answers.compare([68], answer("d", prob=None), answer("d"))["nan"]


def test_a_tie_is_no_difference():
    near = {"equal": False, "max_dlogprob": 0.004, "cold_margin": 0.005}
    assert answers.is_tie(near, 0.01)
    assert not answers.is_tie(near, 0.001)
    assert not answers.is_tie({**near, "cold_margin": 0.5}, 0.01)
    assert not answers.is_tie({**near, "equal": True}, 0.01)


def test_members_find_their_tasks():
    tasks = {4: answers.Task(1, answers.text_of([101, 102]), 2, 4, [7]),
             6: answers.Task(0, answers.text_of([101]), 1, 2, [8])}  # fmt: skip
    members = [{"request": {"prompt": [101]}}, {"request": {"prompt": [101, 102]}}]
    bodies = [{"id_slot": 0, "tokens_cached": 2, **answer("x")}, {"id_slot": 1, "tokens_cached": 4, **answer("x")}]
    assert answers.find_tasks(members, bodies, tasks) == [6, 4]
    assert answers.find_tasks(members, [None, {**bodies[1], "id_slot": 3}], tasks) == [6, None]


def test_members_with_the_same_prompt_are_told_apart_by_what_their_slot_held():
    tasks = {n: answers.Task(0, answers.text_of([101]), 1, end, [8]) for n, end in ((4, 9), (6, 8))}
    bodies = [{"id_slot": 0, "tokens_cached": held, **answer("x")} for held in (8, 9)]
    assert answers.find_tasks([{"request": {"prompt": [101]}}] * 2, bodies, tasks) == [6, 4]


def asked(*lengths, **more):
    requests = [{"prompt": [1] * n, "n_predict": n, **more} for n in lengths]
    return {"op": "parallel", "steps": [{"op": "completion", "after": 2, "request": one} for one in requests]}


def test_what_can_be_one_request():
    one = as_one(asked(3, 4))
    assert one["one_request"] and [member["request"]["n_predict"] for member in one["steps"]] == [4, 4]
    assert "after" not in one["steps"][0]
    assert "one_request" not in as_one(asked(3, 6))                       # their lengths differ
    assert "one_request" not in as_one(asked(3, 4, cancel_after=1))
    assert as_one({"op": "slot"}) == {"op": "slot"}


@pytest.mark.parametrize("slots", [FEW, MANY])
def test_options_are_drawn_and_can_be_written(slots):
    engine = ENGINES["ik_llama"]
    for number in range(40):
        drawn = option_set(0, number, slots)
        flags = engine.recorded.write(filled(drawn.server, "ik_llama"))
        options = engine.recorded.read(list(drafting(flags))).options
        assert drawn == option_set(0, number, slots)
        assert drawn.model in MODELS and (options["parallel"] > 1) == (slots == MANY)
        assert {name: options[name] for name in drawn.server} == drawn.server


def test_models_are_those_that_it_loads():
    assert [find_model(name).arch for name in ("A", "llama", "gemma3l6", "GGGA", "GA+M")] == [
        "llama", "llama", "gemma3", "qwen35", "qwen35"]  # fmt: skip
    assert find_model("qwen35d64").file == "tiny-qwen35d64.gguf"
    for name in ("S", "W8 A", "HH", "CA"):
        with pytest.raises(BadInput, match="no architecture"):
            find_model(name)


def test_errors_name_tasks_by_their_order():
    texts = [{"ev": "error", "text": f"task error id_multi=-1 id_task={task} error"} for task in (17, 9, 17)]
    assert [event["text"].split()[3] for event in ranked(texts)] == ["id_task=0", "id_task=1", "id_task=0"]
