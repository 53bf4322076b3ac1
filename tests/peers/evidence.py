"""Results of the installed mlx-lm for scenarios: ``python -m tests.peers evidence [ids...]``.

Each scenario is sent to the real generation thread with a tiny random model. "cold" is the model's own output for the
whole prompt, without a cache. Results are stored in ``scenarios/evidence/mlx-lm-<version or commit>.json``.

The loop that takes requests runs a single batch step at a time, as with a model whose steps exceed the server's time
budget. A request therefore arrives at the step that the scenario names. For another version, put its tree into
PYTHONPATH and name it with ``--release``. Exit code 1 if a result differs from the simulator's.
"""

from __future__ import annotations

from importlib.metadata import version

import mlx.core as mx

from cachesim.base.errors import BadInput
from cachesim.engines.chat_template import template_of
from cachesim.engines.mlx_lm.flags import Options
from cachesim.engines.mlx_lm.model_layout import model_kind
from cachesim.engines.shared.flags import options_of
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import groups
from cachesim.tools.live.token_map import MappedText, TokenMap, Vocabulary
from tests.evidence.digests import of_case
from tests.live.evidence_file import store
from tests.peers import real_server
from tests.peers.bursts import CONTENT
from tests.peers.models import arguments
from tests.peers.releases import rules_at

SAID = {True: "same", False: "DIFFERS", None: "undecided"}
ROUNDING = 1e-4             # differences of log-probabilities up to this are rounding (F32); clean answers have 0.0
WORDS = Vocabulary(tuple(CONTENT), (), ("",) * real_server.VOCAB, {})


class Paced(real_server.Polled):
    """Queue of requests. ``after``: batch steps between a request and its predecessor, for each of the next
    requests."""

    def __init__(self, *args):
        super().__init__(*args)
        self.after, self.later = [], []

    def arrive(self, items):
        """Add the first requests now and the others step by step."""
        now = next((i for i, steps in enumerate(self.after) if steps), len(items))
        self.later = list(zip(self.after[now:], items[now:], strict=True))
        super().arrive(items[:now])

    def get(self, block=True, timeout=None):
        if self.later and not self.queue:
            steps, item = self.later[0]
            if steps == 0 or timeout is not None:                    # with a timeout: the thread is idle
                super().arrive([item])
                del self.later[0]
            else:
                self.later[0] = steps - 1, item
        return super().get(block, timeout)


class OneStep:
    """A time budget that ends after a single step."""

    def __iter__(self):
        yield None


class Thread(real_server.RealServer):
    """A generation thread whose requests arrive at the scenario's steps."""

    queue = Paced

    def __init__(self, *args):
        super().__init__(*args)
        self.generator._time_budget = OneStep()


def record(scenario):
    """Run a scenario on the real server. Return a dict per request, and notes where the real texts differ from the
    scenario's. Raise BadInput if the scenario cannot be sent."""
    template, settings = template_of(scenario.server), _settings(scenario)
    model, draft = _models(scenario)
    words = TokenMap(
        (MappedText((*one.request.prompt, *(one.request.forced or ()))) for one in scenario.steps), 0, WORDS
    )
    warm, out = Thread(model, template, settings, draft), []
    try:
        for _, group in groups(scenario.steps):
            asked = [_asked(step, words) for step in group]
            warm.generator.requests.after = [step.after for step in group]
            replies = warm.burst(asked)
            for step, reply in zip(group, replies, strict=True):
                out.append({"n": len(out), **_outcome(reply, model, words.prompt(MappedText(step.request.prompt)))})
                words.heard((step.request.forced or ())[: len(reply.tokens)], reply.tokens)
            if any(reply.error == "died" for reply in replies):
                break
    finally:
        warm.stop()
    return out, words.notes


def _settings(scenario):
    found = options_of(Options, scenario.server)
    names = ("prompt_cache_size", "prompt_cache_bytes", "decode_concurrency", "prompt_concurrency", "prefill_step_size")
    return {name: getattr(found, name) or None for name in names}


def _models(scenario):
    model = real_server.random_model(*arguments(model_kind(scenario.model).spec), seed=0)
    draft = scenario.server.get("draft_model")
    return model, real_server.random_model(*arguments(model_kind(draft).spec), seed=1) if draft else None


def _asked(step, words):
    """Return a request in real tokens: messages or (), text, tokens to generate, seed."""
    request = step.request
    if request.cancel_at is not None:
        raise BadInput("a client that disconnects is not supported")
    talk = [(role, words.prompt(MappedText(content))) for role, content in request.messages]
    text = () if talk else words.prompt(MappedText(request.prompt))
    return talk, text, request.n_predict, 7 if request.seed else None


def _outcome(reply, model, prompt):
    """Return the result of a request beside the model's output without a cache."""
    if reply.error == "died":
        return {"died": "generation thread"}
    if reply.error:
        return {"status": 404, "error": reply.error}
    tokens, logprobs = cold_answer(model, prompt, len(reply.tokens))
    same = next((i for i, (a, b) in enumerate(zip(reply.tokens, tokens, strict=True)) if a != b), len(tokens))
    gap = max((abs(a - b) for a, b in zip(reply.logprobs[:same], logprobs[:same], strict=True)), default=0.0)
    return {
        "cache_n": reply.cached, "prompt_n": len(prompt) - reply.cached, "warm": reply.tokens, "cold": tokens,
        "max_dlogprob": float(f"{gap:.3g}"), "differs": same < len(tokens) or gap > ROUNDING,
    }  # fmt: skip


def cold_answer(model, prompt, count):
    """Return the most likely tokens and their log-probabilities, each from a forward pass over the whole text."""
    text, logprobs = list(prompt), []
    for _ in range(count):
        logits = model(mx.array([text]))[0, -1]
        found = logits - mx.logsumexp(logits)
        text.append(int(mx.argmax(found)))
        logprobs.append(found[text[-1]].item())
    return text[len(prompt) :], logprobs


def as_simulated(scenario, profile, found, notes):
    """True if reused tokens, wrong answers, errors and the end of the thread equal the simulator's. None if they differ
    and the real drafts or texts differ from the scenario's. The real server cannot be forced to accept every draft, so
    such requests are not compared."""
    run = run_judged(scenario, profile, "provenance", with_ledger=False)
    every = options_of(Options, scenario.server).num_draft_tokens
    three = zip(scenario.steps, run.requests, found, strict=False)
    if all(step.request.draft_else >= every or _agrees(simulated, real) for step, simulated, real in three):
        return True
    return None if notes or any(step.drafts or step.request.draft_else for step in scenario.steps) else False


def _agrees(simulated, real):
    if simulated.answer.died or "died" in real:
        return simulated.answer.died == ("died" in real)
    if simulated.answer.status != 200 or "status" in real:
        return (simulated.answer.status != 200) == ("status" in real)
    differs = simulated.judged.answer.equal_cold is False
    return simulated.answer.cache_n == real["cache_n"] and differs == real["differs"]


def main(args):
    """Run scenarios and store the results."""
    number = args.release or version("mlx-lm")
    profile, entries = rules_at(number).name, {}
    for name, file in sorted(corpus_files().items()):
        scenario = load(file)
        if profile not in scenario.profiles or (args.ids and name not in args.ids):
            continue
        try:
            found, notes = record(scenario)
        except BadInput as bad:
            print(f"{name:42} not sent: {bad.cause}")
            continue
        same = as_simulated(scenario, profile, found, notes)
        print(f"{name:42} {SAID[same]}", flush=True)
        entries[name] = {"scenario": of_case(file), "profile": profile, "flags": [f"{key}={value}" for key, value in
                         scenario.server.items()], "requests": found, "as_simulated": same}
    store(corpus_root() / "evidence" / f"mlx-lm-{number}.json", f"mlx-lm-{number}",
          f"mlx-lm {number}, mlx {version('mlx')}", entries)
    return int(any(one["as_simulated"] is False for one in entries.values()))
