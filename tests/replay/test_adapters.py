"""Wrong answers and reuse of a real llama-server b11549 with adapters, as its recordings count them."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Self

import pytest

from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer
from cachesim.engines.registry import engine_of, profiles
from cachesim.events import Log
from cachesim.replay.recorded_trace import read_trace
from cachesim.tools.replay.command import checker

SHARED = Path(__file__).parents[3] / "shared" / "traces" / "llama_cpp_lora"
RANDOM = "*-lora-*-12????.json"              # workloads with a seed; the others are hand-written cases


class Count(NamedTuple):
    """Answers that a server without a cache answered too: those that differ, and their prompt tokens."""

    wrong: int = 0
    compared: int = 0
    reused: int = 0
    asked: int = 0

    def __add__(self, more: Self) -> Self:       # type: ignore[override]
        return type(self)(*(a + b for a, b in zip(self, more, strict=True)))


def requests(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each request of a recording, also those that were sent at once."""
    for step in steps:
        yield from step.get("steps", [step])


def count(path: Path) -> tuple[str, Count]:
    """Return the workload of a recording, and what it counts."""
    data = json.loads(path.read_text())
    answers = [one["response"] for one in requests(data["steps"]) if "cold" in one]
    reused, evaluated = (sum(answer[name] for answer in answers) for name in ("cache_n", "prompt_n"))
    return data["workload"], Count(len(data["inexact"]), len(answers), reused, reused + evaluated)


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/traces is not there")
def test_a_server_that_does_not_key_its_cache_by_adapters_answers_wrong():
    found = [count(path) for path in sorted(SHARED.glob(RANDOM))]
    plain = sum((one for name, one in found if not name.startswith("alora")), Count())
    activated = sum((one for name, one in found if name.startswith("alora")), Count())
    assert len(found) == 88
    assert plain == Count(73, 428, 28_567, 85_293)
    assert activated == Count(50, 220, 12_641, 33_997)
    assert sum((one for name, one in found if name == "personas"), Count())[::2] == (0, 5_563)


def own_text(known: list[tuple[Tokens, Tokens]], prompt: Tokens) -> Tokens:
    """Return a recorded prompt with the simulator's answers for the recorded ones. ``known``: conversations so far, as
    recorded and as they are here."""
    recorded, own = max((one for one in known if prompt[: len(one[0])] == one[0]), key=lambda one: len(one[0]),
                        default=((), ()))  # fmt: skip
    return own + prompt[len(recorded) :]


def again(path: Path, rules: str, folder: Path) -> Count:
    """Return what the requests of a recording count under a rule set. The answers are the simulator's, and take the
    place of the recorded ones in later prompts."""
    trace, check = read_trace(path, profiles()), checker()
    server = engine_of(rules).start(rules, trace.model, trace.flags, "provenance", Log())
    found, known = Count(), list[tuple[Tokens, Tokens]]()
    for step in trace.steps:
        if step.action == "lora":
            server.set_adapters(step.scales)
        elif step.action:
            server.slot(step.action, step.id_slot, folder / step.file if step.file else None)
        asked = [(one.request, replace(one.request, prompt=own_text(known, one.request.prompt), forced=None,
                                       children_forced=())) for one in step.members]  # fmt: skip
        sent = [(*pair, server.submit(pair[1])) for pair in asked]
        while not all(answer.done for *_, answer in sent):
            server.take_tasks()
            server.update()
        for recorded, request, answer in sent:
            if answer.status == 200:
                found += Count(check(server, request, answer) is False, 1, answer.cache_n,
                               answer.cache_n + answer.prompt_n)  # fmt: skip
                known.append((recorded.prompt + (recorded.forced or ()), request.prompt + tuple(answer.tokens)))
    return found


TRIED, REPAIRED = "b11549-lora-tried", "b11549-repaired"


@pytest.mark.long
@pytest.mark.skipif(not SHARED.exists(), reason="../shared/traces is not there")
@pytest.mark.parametrize(("pattern", "rules", "expected"), [
    ("alora_*", TRIED, (25, 220, 12_743, 33_997)), ("alora_*", REPAIRED, (0, 220)), ("bug-*", TRIED, (0,)),
    ("[cfgps]*-12????", TRIED, (0, 428)), ("[cfgps]*-12????", REPAIRED, (0, 428)),
    # reused before the change: 1,397, 516, 8,090, 5,563, 1,455 and 9,526
    ("children-*", TRIED, (0, 39, 1_387, 4_934)), ("files-*", TRIED, (0, 55, 293, 7_952)),
    ("global_change-*", TRIED, (0, 58, 4_484, 14_318)), ("personas-*", TRIED, (0, 63, 9_189, 17_598)),
    ("same_prompt-*", TRIED, (0, 71, 2_145, 9_300)), ("switch_in_turn-*", TRIED, (0, 68, 10_107, 18_819)),
])  # fmt: skip
def test_a_cache_that_is_keyed_by_adapters_answers_right(tmp_path, pattern, rules, expected):
    found = sum((again(path, f"llama_cpp@{rules}", tmp_path) for path in sorted(SHARED.glob(f"*-lora-{pattern}.json"))),
                Count())  # fmt: skip
    assert found[: len(expected)] == expected


def arrivals(members: int) -> Iterator[dict[int, int]]:
    """Yield orders in which requests of a group may arrive: number of the request -> iterations after the one
    before."""
    for order in permutations(range(members)):
        for after in product((0, 2, 30), repeat=max(0, members - 1)):
            yield dict(zip(order, (0, *after), strict=False))


def reuse_by_arrival(path: Path, rules: str) -> set[int]:
    """Return the numbers of reused tokens that a recording with groups of requests can have."""
    trace = read_trace(path, profiles())
    ways = {"": {0: engine_of(rules).start(rules, trace.model, trace.flags, "none", Log())}}
    for step in trace.steps:
        before, ways = ways, defaultdict(dict)
        for reused, server in (one for same in before.values() for one in same.items()):
            for order in arrivals(len(step.members)):
                one, answers = server.fork(), list[Answer]()
                for number, after in order.items():
                    for _ in range(after):
                        one.take_tasks()
                        one.update()
                    answers.append(one.submit(step.members[number].request))
                while not all(answer.done for answer in answers):
                    one.take_tasks()
                    one.update()
                cache = one.core.cache
                held = [*one.core.slots, *(cache.entries if cache else ())]          # servers that hold the same
                total = reused + sum(answer.cache_n for answer in answers)
                ways[repr([kept.tokens for kept in held])].setdefault(total, one)
    return {reused for same in ways.values() for reused in same}


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="../shared/traces is not there")
def test_the_reuse_of_requests_sent_at_once_depends_on_their_arrival():
    """The specification counts 29,853 reused tokens after the change; 27,605 are those of the workloads without groups,
    and 2,248 remain. Eight runs of a server with these changes (tests/live/adapters_tried.toml) gave 1,962 to 2,222; in
    the workloads without groups it reuses what is computed above."""
    paths = sorted(SHARED.glob("*-lora-parallel_mix-12????.json"))
    assert all(count(path)[1].reused in reuse_by_arrival(path, "llama_cpp@b11549") for path in paths)
    sums = {0}
    for path in paths:
        sums = {one + more for more in reuse_by_arrival(path, f"llama_cpp@{TRIED}") for one in sums}
    assert (min(sums), max(sums)) == (1_962, 3_408) and 29_853 - 27_605 in sums
