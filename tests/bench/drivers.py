"""Programs of rows that no command covers. They import the package of the checkout that is measured:

    python drivers.py NAME SIZE MODULES

MODULES is the JSON object of ``spellings.find_modules``. This file imports nothing else, because the other commit has
its own ``tests``.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any, Callable, Mapping

LLAMA, VLLM, SGLANG = "llama_cpp@b11549", "vllm@0.33.0", "sglang@0.5.23"
BLOCK, BLOCKS = 16, 100              # tokens of a block, blocks of a prompt
Modules = Mapping[str, Any]


def word(number: int, n: int) -> tuple[int, ...]:
    """Return n tokens that no other word number has."""
    return tuple(range(number * 10_000_000 + 1, number * 10_000_000 + 1 + n))


class Asked:
    """Requests with given answers, for the package of a checkout."""

    def __init__(self, modules: Modules, marks: bool = True) -> None:
        self.make, self.marks = modules["requests"].Request, marks

    def request(self, prompt: tuple[int, ...], n: int, number: int, mark: int = 0) -> Any:
        """Return a request with an answer of n tokens; the last message begins at ``mark``."""
        starts = (mark,) if mark and self.marks else ()
        return self.make(prompt, n_predict=n, forced=word(100_000 + number, n), user_starts=starts)

    def short_requests(self, n: int) -> list[Any]:
        """Return turns of four conversations; every fifth turn restarts its conversation."""
        found: list[Any] = []
        talks = [word(i, 20) for i in range(4)]
        for i in range(n):
            talk = talks[i % 4][:200] if i % 5 else talks[i % 4][:16]
            found.append(self.request((*talk, *word(100 + i, 4)), 2, i, len(talk)))
            talks[i % 4] = (*found[-1].prompt, *word(200_000 + i, 2))
        return found

    def conversations(self, n: int) -> list[Any]:
        """Return conversations without a common prefix."""
        return [self.request(word(i, 200), 4, i, 100) for i in range(n)]

    def prompt(self, n: int) -> list[Any]:
        """Return a request with a prompt of n tokens."""
        return [self.request(word(0, n), 1, 0)]

    def answer(self, n: int) -> list[Any]:
        """Return a request with an answer of n tokens."""
        return [self.request(word(0, 20), n, 0)]

    def long_session(self, n: int) -> list[Any]:
        """Return turns of a conversation that begins with 100,000 tokens; every eighth omits the earlier answers."""
        found: list[Any] = []
        talk = word(0, 100_000)
        for i in range(n):
            if i % 8 == 7:
                talk = talk[:-200]
            found.append(self.request((*talk, *word(10 + i, 200)), 50, i, len(talk)))
            talk = (*found[-1].prompt, *word(200_000 + i, 50))
        return found


def run_judged(modules: Modules, profile: str, requests: list[Any], server: dict[str, Any], model: str) -> None:
    """Run requests by provenance and judge every answer."""
    schema = modules["schema"]
    steps = tuple(schema.Step(request, None) for request in requests)
    engine = profile.partition("@")[0]
    scenario = schema.Scenario("bench", "", (), "", engine, model, (profile,), server, {}, steps)
    modules["judged_run"].run_judged(scenario, profile, "provenance")


def judge_llama(modules: Modules, requests: list[Any]) -> None:
    """Judge requests on a llama.cpp server with a single slot and a prompt cache."""
    context = 1024 * (2 + max(len(request.prompt) + request.n_predict for request in requests) // 1024)
    run_judged(modules, LLAMA, requests, {"ctx_size": context, "parallel": 1}, "GGGA")


def judge_short(modules: Modules, size: int) -> None:
    """Judge short requests on llama.cpp."""
    judge_llama(modules, Asked(modules).short_requests(size))


def judge_conversations(modules: Modules, size: int) -> None:
    """Judge conversations that pass through llama.cpp's prompt cache."""
    judge_llama(modules, Asked(modules).conversations(size))


def judge_answer(modules: Modules, size: int) -> None:
    """Judge a long answer of llama.cpp."""
    judge_llama(modules, Asked(modules).answer(size))


def judge_session(modules: Modules, size: int) -> None:
    """Judge turns of a long session on llama.cpp."""
    judge_llama(modules, Asked(modules).long_session(size))


def judge_vllm(modules: Modules, size: int) -> None:
    """Judge short requests on vLLM."""
    run_judged(modules, VLLM, Asked(modules, False).short_requests(size), {"num_gpu_blocks": 40_000}, "A")


def judge_sglang(modules: Modules, size: int) -> None:
    """Judge short requests on SGLang."""
    run_judged(modules, SGLANG, Asked(modules, False).short_requests(size), {"max_total_tokens": 800_000}, "A")


def judge_vllm_prompt(modules: Modules, size: int) -> None:
    """Judge a long prompt on vLLM."""
    run_judged(modules, VLLM, Asked(modules).prompt(size), {"num_gpu_blocks": 100 + size // 8}, "GGGA")


def judge_dense_prompt(modules: Modules, size: int) -> None:
    """Judge a long prompt on vLLM, with a model of full attention."""
    run_judged(modules, VLLM, Asked(modules).prompt(size), {"num_gpu_blocks": 100 + size // 8}, "A")


def judge_sglang_prompt(modules: Modules, size: int) -> None:
    """Judge a long prompt on SGLang."""
    run_judged(modules, SGLANG, Asked(modules).prompt(size), {"max_total_tokens": 2 * size}, "A")


def start(modules: Modules, profile: str, model: str, flags: dict[str, Any], mode: str = "provenance") -> Any:
    """Return a server whose answers are not judged."""
    return modules["registry"].engine_of(profile).start(profile, model, flags, mode, modules["events"].Log())


def fill_blocks(modules: Modules, size: int) -> None:
    """Fill a pool of vLLM with prompts of 100 blocks, and a tenth of it again."""
    server = start(modules, VLLM, "A", {"num_gpu_blocks": size + 1, "block_size": BLOCK})
    asked = Asked(modules, False)
    for number in range(size // BLOCKS + size // BLOCKS // 10):
        server.complete(asked.request(word(number, BLOCK * BLOCKS), 1, number))


def fill_tree(modules: Modules, size: int) -> None:
    """Send short prompts that share parts to SGLang, until its tree has about as many nodes."""
    server = start(modules, SGLANG, "A", {"max_total_tokens": 16 * size})
    asked = Asked(modules, False)
    for number in range(size * 11 // 20):
        prompt = (number // 16, number // 4, number // 2, 0, number, 5, 0, 0)
        server.complete(asked.request(prompt, 1, number))


def prefill_exactly(modules: Modules, size: int) -> None:
    """Evaluate a prompt with full arithmetic."""
    flags = {"ctx_size": size + 256, "batch_size": 512, "ubatch_size": 512, "cache_ram": 0, "ctx_checkpoints": 0}
    start(modules, LLAMA, "GGGA", flags, "exact").complete(Asked(modules).prompt(size)[0])


DRIVERS: dict[str, Callable[[Modules, int], None]] = {
    driver.__name__: driver for driver in (
        judge_short, judge_conversations, judge_answer, judge_session, judge_vllm, judge_sglang, judge_vllm_prompt,
        judge_dense_prompt, judge_sglang_prompt, fill_blocks, fill_tree, prefill_exactly)
}  # fmt: skip


def load(names: Mapping[str, str]) -> dict[str, Any]:
    """Return the modules of a checkout by their names here, without limits of a run."""
    modules = {name: import_module(spelling) for name, spelling in names.items()}
    limits = modules["limits"]
    limits.lift({limit.name: 10**12 for limit in limits.OF_A_RUN})
    return modules


if __name__ == "__main__":
    DRIVERS[sys.argv[1]](load(json.loads(sys.argv[3])), int(sys.argv[2]))
