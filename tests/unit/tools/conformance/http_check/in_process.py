"""Servers without a network: an HTTP client that calls functions, and such functions."""

from __future__ import annotations

from cachesim.base.tokens import common_prefix
from cachesim.model.hash_mixing import mix_int
from cachesim.tools.conformance.compare_replies import near
from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.warm_run import ServerRunner
from tests.unit.tools.conformance.http_check.stand_in import VOCABULARY

PROPS = {"total_slots": 1, "default_generation_settings": {"n_ctx": 4096}}
MODELS = {"data": [{"id": "toy", "meta": {"n_vocab": VOCABULARY}}]}
NATIVE = {"/props": PROPS, "/v1/models": MODELS, "/slots": [{"id": 0, "n_prompt_tokens": 0}]}


class InProcess(Http):
    """``complete`` answers POST requests, ``pages`` GET requests; ``asked``: paths and bodies in order."""

    def __init__(self, complete, pages=None, most=100_000):
        super().__init__("http://127.0.0.1:1", 1.0, most)
        self.complete, self.pages, self.asked = complete, NATIVE if pages is None else pages, []

    def get(self, path):
        with self._counted():
            return self.pages.get(path)

    def post(self, path, body):
        with self._counted():
            self.asked.append((path, dict(body)))
            return self.complete(dict(body))

    def hang_up(self, path, body, after):
        self.post(path, body)


class Toy:
    """A llama-server that keeps ``keeps`` prompts with their answers. ``apart(request, prompt, reused)``: error of the
    likeliest token's log-probability (requests from 0); an error of 1 changes the tokens too."""

    def __init__(self, keeps=1, apart=lambda request, prompt, reused: 0.0):
        self.keeps, self.apart, self.kept, self.requests = keeps, apart, [], 0

    def __call__(self, body):
        prompt = tuple(body["prompt"])
        shared = max((common_prefix(prompt, one) for one in self.kept if body["cache_prompt"]), default=0)
        reused = min(shared, len(prompt) - 1)
        off = self.apart(self.requests, prompt, reused)
        said = [(mix_int(hash(prompt) + at) + (off >= 1)) % VOCABULARY for at in range(body["n_predict"])]
        self.requests += 1
        self.kept = [*self.kept, (*prompt, *said)][-self.keeps:]
        top = [{"id": at, "logprob": -at - (off if at == 0 else 0)} for at in range(4)]
        return 200, {"tokens": said, "completion_probabilities": [{"top_logprobs": top}],
                     "timings": {"cache_n": reused, "prompt_n": len(prompt) - reused}}  # fmt: skip


def stage_of(complete, vocabulary=VOCABULARY, slots=1, most=100_000):
    """Return a runner for histories on a server in this process."""
    pages = {**NATIVE, "/props": {**PROPS, "total_slots": slots}}
    pages["/v1/models"] = {"data": [{"id": "toy", "meta": {"n_vocab": vocabulary}}]}
    http = InProcess(complete, pages, most)
    return ServerRunner(http, identify_server(http), near(0.0))
