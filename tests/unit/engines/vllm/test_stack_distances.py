"""One run with room for everything tells what vLLM evaluates with every size of its pool."""

from random import Random

import pytest

from cachesim.engines.base import Request
from cachesim.engines.capabilities import RequestSize
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.capacity import StackServer

STACK = engine_of("vllm@0.33.0").capacity().stack


def drawn_requests(rng: Random, block: int) -> list[Request]:
    """Requests that repeat, cut and continue each other, often at the end of a block."""
    known, requests = [()], []
    for _ in range(rng.randint(5, 20)):
        prefix = rng.choice(known)
        prefix = prefix[: rng.choice((len(prefix), rng.randint(0, len(prefix)), len(prefix) // block * block))]
        prompt = (*prefix, *(rng.randint(10, 13) for _ in range(rng.choice((0, 1, block, rng.randint(0, 8)))))) or (9,)
        answer = tuple(rng.randint(10, 13) for _ in range(rng.choice((1, 1, block, rng.randint(1, 6)))))
        known += [prompt, prompt + answer]
        requests.append(Request(prompt, n_predict=len(answer), forced=answer))
    return requests


def run(profile, requests, options):
    """The events of a server that answers these requests, and the prompt tokens that it evaluates."""
    server = engine_of(profile).start(profile, "A", options, "none")
    answers = [server.complete(request) for request in requests]
    assert all(answer.status == 200 for answer in answers)
    return server.log.events, sum(answer.prompt_n for answer in answers)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("profile", ["vllm@0.33.0", "vllm@0.30.0"])
def test_each_size_evaluates_what_its_own_run_evaluates(profile, seed):
    rng = Random(seed)
    block = rng.choice((1, 2, 3, 4))
    requests = drawn_requests(rng, block)
    options = {"block_size": block, "max_num_batched_tokens": rng.choice((4, 2048)), "async_scheduling": seed % 2 == 0}
    sizes = [RequestSize(len(request.prompt), request.n_predict) for request in requests]
    server = StackServer(engine_of(profile).rules(profile), "A", options, sizes)
    assert STACK.obstacle(server) == ""
    most = 2 + sum((size.prompt + size.answer) // block + 4 for size in sizes)
    events, whole = run(profile, requests, {**options, "num_gpu_blocks": most})
    least = STACK.least(server)
    values = range(least, most, max(5, (most - least) // 8))
    told = [whole + lost for lost in STACK.lost_tokens(server, events, values)]
    assert told == [run(profile, requests, {**options, "num_gpu_blocks": value})[1] for value in values]


@pytest.mark.parametrize(("model", "options", "clause"), [
    ("GA", {}, "windows and states"), ("W8 A", {}, "windows and states"),
    ("A", {"enable_prefix_caching": False}, "not cached"), ("A", {"num_cpu_chunks": 4}, "CPU memory"),
    ("A", {"speculative_method": "eagle", "num_speculative_tokens": 2}, "drafts"),
    ("A", {"watermark": 0.1}, "watermark"),
])  # fmt: skip
def test_other_servers_need_a_run_for_each_size(model, options, clause):
    server = StackServer(engine_of("vllm@0.33.0").rules("vllm@0.33.0"), model, options, [RequestSize(40, 1)])
    assert clause in STACK.obstacle(server)
