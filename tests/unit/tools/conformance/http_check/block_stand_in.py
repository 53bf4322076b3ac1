"""A server with OpenAI's paths that plays the decisions of a simulated engine without slots, and says so.

No model runs. Reuse comes from the simulator. Its answer is a hash of the prompt, and another one if the simulator read
other rows or states than a server without a past. ``/v1/models`` names the rule set and "simulated decisions".
"""

from __future__ import annotations

import threading
from functools import partial

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.events import Log
from cachesim.model.hash_mixing import mix_int
from tests.unit.tools.conformance.http_check.stand_in import VOCABULARY

TOP = 4


class SimulatedBlocks:
    """A server with a rule set, for token arrays. ``cache_salt`` is a field of its requests."""

    def __init__(self, profile, model, **flags):
        self.profile, self.lock, self.start = profile, threading.Lock(), partial(self._start, model, flags)
        self.server = self.start()

    def _start(self, model, flags):
        return engine_of(self.profile).start(self.profile, model, flags, "provenance", Log())

    def get(self, path):
        """Answer a GET request."""
        name = f"{self.profile}, simulated decisions"
        return (200, {"data": [{"id": name, "max_model_len": 4096}]}) if path == "/v1/models" else (404, {})

    def complete(self, body):
        """Answer a POST request."""
        if not isinstance(body.get("prompt"), list) or isinstance(body.get("logprobs"), bool):
            return 400, {"error": "this server takes token arrays and a number of log-probabilities"}
        with self.lock:
            prompt, n = tuple(body["prompt"]), body["max_tokens"]
            said = tuple(mix_int(sum(prompt) ^ place) % VOCABULARY for place in range(n))
            salt = {"cache_salt": str(body["cache_salt"])} if "cache_salt" in body else {}
            request = Request(prompt, n, forced=said, extra=salt)
            answer, cold = self.server.complete(request), self.start().complete(request)
        if answer.error or answer.died:
            return 500, {"error": answer.error or "the engine died"}
        wrong = [one.digest for one in answer.outputs] != [one.digest for one in cold.outputs]
        read = [mix_int(sum(map(mix_int, prompt)) ^ place ^ wrong) for place in range(len(answer.outputs))]
        words = [f" {number % VOCABULARY}" for number in read]
        places = [{f"{number % VOCABULARY}.{place}": -(mix_int(number ^ place) % 10_000) / 1000 for place in range(TOP)}
                  for number in read]  # fmt: skip
        choice = {"text": "".join(words), "logprobs": {"tokens": words, "top_logprobs": places}}
        usage = {"prompt_tokens": len(prompt), "prompt_tokens_details": {"cached_tokens": answer.cache_n}}
        return 200, {"choices": [choice], "usage": usage}

