"""What a search draws for ik_llama.cpp, what it advises, and the parts of its memory."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import DrawnServer, ServerLoad
from cachesim.engines.ik_llama.command_table import read_switch
from cachesim.engines.ik_llama.manual import MANUAL, draw
from cachesim.engines.ik_llama.memory_use import use
from tests.unit.engines.ik_llama.test_memory_use import ask


class FixedDraws:
    """Draws the element with this index (or the last), and True for each chance of at least ``least`` percent."""

    def __init__(self, least, place=0):
        self.least, self.place = least, place

    def chance(self, percent):
        return percent >= self.least

    def one(self, values):
        return values[min(self.place, len(values) - 1)]


def server(**more):
    return {"batch_size": 512, "ubatch_size": 512, "ctx_size": 128, "context_shift": False, "flash_attn": False, **more}


STEPS = {"ctx_checkpoints_interval": 0, "ctx_checkpoints_tolerance": 0}
SOME = {**STEPS, "ctx_checkpoints": 0, "cache_ram": 0}


@pytest.mark.parametrize(("model", "least", "drawn", "edges", "most"), [
    ("A", 61, server(), (1, 4, 5, 6, 512, 512, 512), 120), ("A", 60, server(**STEPS), (1, 4, 5, 6, 512, 512, 0), 120),
    ("A", 41, server(**STEPS), (1, 4, 5, 6, 512, 512, 0), 120),
    ("A", 40, server(**SOME), (1, 4, 5, 6, 512, 512, 0), 120),
    ("A", 31, server(**SOME), (1, 4, 5, 6, 512, 512, 0), 120),
    ("A", 30, server(**SOME, parallel=2, cache_ram_similarity=0.0), (1, 4, 5, 6, 512, 512, 0), 56),
    ("A", 21, server(**SOME, parallel=2, cache_ram_similarity=0.0), (1, 4, 5, 6, 512, 512, 0), 56),
    ("A", 20, server(**{**SOME, "cache_ram_similarity": 0.0, "context_shift": True}), (5, 64, 80, 100, 128), 278),
    ("A", 11, server(**{**SOME, "cache_ram_similarity": 0.0, "context_shift": True}), (5, 64, 80, 100, 128), 278),
    ("GGA+M", 30, server(**SOME, cache_ram_similarity=0.0, spec_type="mtp", spec_draft_n_max=1),
     (1, 4, 5, 6, 512, 512, 0), 120),
])  # fmt: skip
def test_an_option_is_drawn_with_its_chance(model, least, drawn, edges, most):
    assert draw(FixedDraws(least), model) == DrawnServer("ik_llama", model, drawn, edges, most)


def test_the_last_of_all_values():
    found = draw(FixedDraws(61, 9), "A")
    drawn = {"batch_size": 2, "ubatch_size": 1, "ctx_size": 2048, "context_shift": False, "flash_attn": True}
    assert found == DrawnServer("ik_llama", "A", drawn, (1, 4, 5, 6, 1, 2, 512), 48)


@pytest.mark.parametrize(("least_room", "most"), [(10, 168), (11, 120)])
def test_a_prompt_may_exceed_the_context(least_room, most):
    class Room(FixedDraws):
        def chance(self, percent):
            return percent == 10 and least_room == 10

    assert draw(Room(0), "A").most == most


def test_slots_are_tried_with_contexts_of_their_own_and_alone():
    now = {**MANUAL.defaults, "parallel": 2, "ctx_size": 4096}
    assert [one for one in MANUAL.tries(now, ServerLoad(2000, 5000, 3)) if "parallel" in one] == [
        {"parallel": 3, "ctx_size": 6144}, {"parallel": 3, "ctx_size": 6144, "slot_prompt_similarity": 0.9},
        {"parallel": 1}]  # fmt: skip
    alone = MANUAL.tries({**now, "parallel": 1}, ServerLoad(2000, 2000, 1))
    assert not any("parallel" in one for one in alone)


@pytest.mark.parametrize(("text", "on"), [("on", True), ("AUTO", True), ("1", True), ("off", False), ("0", False)])
def test_a_switch_is_read(text, on):
    assert read_switch("flash_attn")(text).options == {"flash_attn": on}


def test_another_word_is_no_switch():
    with pytest.raises(BadInput, match="expected on or off, found 'yes'"):
        read_switch("flash_attn")("yes")


CACHE = "prompt cache 1048576 * 8192 MiB"


@pytest.mark.parametrize(("model", "options", "parts"), [
    ("llama-3", {}, ["attention rows 131072 * 4096 cells", CACHE]),
    ("llama-3", {"cache_type_k": "q8_0", "cache_ram": 0}, ["attention rows 100352 * 4096 cells"]),
    ("qwen3.5-27b", {"ctx_checkpoints": 0}, [
        "attention rows 65536 * 4096 cells", "states 156893184 * 1 states", CACHE]),
    ("qwen3.5-27b", {"parallel": 2, "spec_type": "mtp", "ctx_checkpoints": 3, "cache_ram": 1}, [
        "attention rows 69632 * 4096 cells", "states 156893184 * 2 states", "draft: attention rows 4096 * 4096 cells",
        "checkpoints 156912188 * 6 checkpoints", "prompt cache 1048576 * 1 MiB"]),
])  # fmt: skip
def test_the_parts_of_a_server_memory(model, options, parts):
    found = use(ask(model, ctx_size=4096, **options))
    assert [f"{part.name} {part.each} * {part.number} {part.unit}" for part in found.parts] == parts
    assert (found.unlimited, found.chosen) == ("", {"ctx_size": 4096})


def test_an_unlimited_prompt_cache_is_counted_with_a_conversation_and_its_checkpoints():
    found = use(ask("qwen3.5-27b", ctx_size=4096, ctx_checkpoints=2, cache_ram=-1))
    entry = found.parts[-1]
    assert (entry.name, entry.number, entry.unit, found.unlimited) == ("prompt cache", 1, "conversation", "cache_ram")
    assert entry.each == found.checkpoint + 4096 * 65536 + 2 * found.checkpoint
    assert (found.token, found.window, found.state) == (65536, 0, 156893184)
    assert use(ask("gpt-oss-20b", ctx_size=4096)).window == 12 * 2048


@pytest.mark.parametrize(("option", "values"), [
    ("ctx_size", [128, 512, 1024, 2048, 2048]), ("ctx_checkpoints", [0, 1, 2, 3, 3]),
    ("ctx_checkpoints_interval", [0, 8, 16, 64, 512]), ("ctx_checkpoints_tolerance", [0, 1, 5, 5, 5]),
    ("cache_ram", [0, 0, 1, 1, 1]), ("cache_ram_similarity", [0.0, 0.5, 1.0, 1.0, 1.0]),
    ("spec_draft_n_max", [1, 2, 4, 4, 4]),
])  # fmt: skip
def test_an_option_is_drawn_from_its_values(option, values):
    assert [draw(FixedDraws(30, place), "GGA+M").server[option] for place in range(5)] == values
