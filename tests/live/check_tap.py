"""Record of the requests of ``cachesim check`` with all log-probabilities, and their repetition on the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.events import Log
from cachesim.judging.compare_answer import Judge
from cachesim.scenarios.option_checks import in_force
from cachesim.tools.conformance.http_check.compare_answers import TOP, ScoredAnswer, gap
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.replies import place
from cachesim.tools.conformance.http_check.warm_run import ServerRunner

ALL = 1_024                  # log-probabilities of a token: more than a tiny model has


@dataclass
class Sent:
    """A request with its result: all log-probabilities, and the reported count."""

    request: Request
    answer: ScoredAnswer
    cache_n: int


class Tap(Http):
    """Requests all log-probabilities, keeps them, and passes on as many as the check reads."""

    def __init__(self, *args):
        super().__init__(*args)
        self.all = []

    def post(self, path, body):
        status, said = super().post(path, {**body, "n_probs": ALL})
        if status != 200 or path != "/completion":
            raise ValueError(f"{path}: status {status}: {said}")
        tokens, found = tuple(said["tokens"]), said["completion_probabilities"]
        request = Request(tuple(body["prompt"]), body["n_predict"], forced=tokens, cache_prompt=body["cache_prompt"],
                          id_slot=body.get("id_slot", -1))  # fmt: skip
        self.all.append(Sent(request, ScoredAnswer(tokens, "", tuple(map(place, found))), said["timings"]["cache_n"]))
        for one in found:
            one["top_logprobs"] = one["top_logprobs"][:TOP]
        return status, said


class Watched(ServerRunner):
    """Knows the requests of the last run: a short prompt, all of it warm, then all of it cold."""

    first = 0

    def _play(self, history, spare, serve):
        self.first = len(self.http.all)
        return super()._play(history, spare, serve)

    def pair(self, played, number):
        """Return the places of a request and of its cold run among the sent requests."""
        warm = self.first + 1 + number
        return warm, warm + len(played.asks)

    def far(self, warm, cold):
        """Return the distance of two answers over all log-probabilities."""
        return gap(self.http.all[warm].answer, self.http.all[cold].answer)


def simulated(profile, model, options, sent, wanted):
    """Return place -> (is the answer wrong, cached tokens) of the wanted places, after sending all to the simulator."""
    server = engine_of(profile).start(profile, model, in_force(options, profile), "provenance", Log())
    judge, found = Judge(server.model), {}
    for number, one in enumerate(sent):
        answer = server.submit(one.request)
        while server.working:
            server.take_tasks()
            server.update()
        if number in wanted:
            verdict = judge.answer(one.request, answer)
            found[number] = (verdict.equal_cold is False, answer.cache_n)
    return found
