"""Scenarios on the released scheduler of vLLM: ``python -m tests.peers.vllm_scenarios [IDS...]``.

The scheduler runs without a model. It decides which tokens each request finds in the cache, and a client reads this
number in its reply. It says the answers of our run. The numbers are stored in ``scenarios/evidence/vllm-RELEASE.json``.
Another release: put its tree into PYTHONPATH. Exit code 1 if a number differs from ours.
"""

from __future__ import annotations

import argparse
import os
import sys

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.base.media_items import is_item
from cachesim.engines.shared.engine_face import layers_of
from cachesim.engines.vllm.flags import options
from cachesim.engines.vllm.kv_cache_planning import get_kv_cache_config
from cachesim.engines.vllm.profiles import PROFILES
from cachesim.engines.vllm.rules.blocks import DENSE
from cachesim.engines.vllm.start_options import resolved
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import groups
from tests.evidence.digests import of_case
from tests.live.evidence_file import store
from tests.peers.vllm_engine import FILLER, RELEASE, RealServer

PROFILE = f"vllm@{RELEASE}"
REQUEST = {"priority": "priority", "cache_salt": "salt", "lora": "lora"}
SAID = {True: "same", False: "DIFFERS"}
STUCK = 200                     # steps in a row without a token, after which the requests wait for ever


class Scheduler(RealServer):
    """The released scheduler with the drafts of a scenario. ``asked``: its requests, with the places of their
    drafts."""

    def __init__(self, config, requests, asked):
        super().__init__(config, requests, recorded=False)
        self.asked, self.cached, self.quiet = asked, {}, 0

    def right_drafts(self, name, first, drafted):
        """Return how many drafts of a scenario are right, behind ``first`` tokens of the answer."""
        request = self.asked[int(name)]
        return min(drafted, request.right_drafts(len(request.prompt) + first - 1))

    def proposed(self):
        """Return the drafts for the requests that just spoke."""
        drafts, count = {}, self.config["num_spec"]
        for request in self.scheduler.running:
            name = request.request_id
            if request.num_output_tokens and not request.is_prefill_chunk and not request.spec_token_ids:
                rest = self.requests[name]["answer"][request.num_output_tokens :] + [FILLER] * count
                right = self.right_drafts(name, request.num_output_tokens, count)
                drafts[name] = [*rest[:right], *(token + 1 for token in rest[right:count])]
        return drafts

    def step(self):
        """Schedule a step; process the oldest one, if another must not begin before."""
        run = self.schedule()["run"]
        self.quiet = 0 if run else self.quiet + 1
        if self.pending and not (run and len(self.pending) <= self.config["async_scheduling"]):
            drafts = self.proposed if self.config["spec"] and not self.config["async_scheduling"] else {}
            self.cached.update(self.update(drafts).get("cached", {}))


def header(scenario):
    """Return the header of a recording with the model and the options of a scenario. Raise BadInput for what the
    harness does not set."""
    rules = PROFILES[PROFILE]
    spec = layers_of(scenario.model, rules).spec
    opts = options(resolved(rules, spec, rules.options(scenario.server)))
    config = get_kv_cache_config(rules, opts, spec)
    if opts.num_cpu_chunks or opts.multimodal or (opts.enable_prefix_caching and opts.mamba_cache_mode != "align"
                                                  and any(one.kind == "mamba" for one in config.kv_cache_groups)):
        raise BadInput("CPU offload, images and states of another mode are not set")
    method = opts.speculative_method
    drafter = "mtp_hash" if opts.multi_module_mtp else "eagle_drop" if opts.disable_lookahead_block_hashes else (
        "eagle_keep" if opts.disable_eagle_block_drop else "eagle_hash")
    if method not in ("", "ngram", "eagle", "eagle3", "mtp"):
        raise BadInput(f"drafts of {method} are not set")
    ranks = opts.decode_context_parallel_size
    groups_of = [{"kind": one.kind, "block_size": one.block_size // ranks, "window": one.window, "chunk": one.window,
                  "eagle": one.is_eagle_group} for one in config.kv_cache_groups]  # fmt: skip
    retention = opts.prefix_cache_retention_interval
    return {
        "max_num_seqs": opts.max_num_seqs, "max_num_batched_tokens": opts.max_num_batched_tokens,
        "max_model_len": config.max_model_len, "long_prefill_token_threshold": opts.long_prefill_token_threshold,
        "policy": opts.scheduling_policy, "watermark": opts.watermark, "reserve_full": opts.scheduler_reserve_full_isl,
        "retention": None if retention == DENSE else retention,
        "spec": (method if method in ("", "ngram") else drafter) or None, "num_spec": opts.num_speculative_tokens,
        "async_scheduling": opts.async_scheduling, "caching": opts.enable_prefix_caching,
        "dcp": ranks, "prefix_match_unit": opts.prefix_match_unit or None,
        "ckpt_align": opts.mamba_prefill_checkpoint_alignment or None,
        "shared_prefix_checkpoint": opts.enable_mamba_shared_prefix_checkpoint, "groups": groups_of,
        "num_blocks": opts.num_gpu_blocks,
    }  # fmt: skip


def sent(step, answer):
    """Return a request as a recording holds it. Raise BadInput for what the harness does not send."""
    request = step.request
    if step.action is not None or request.cancel_at is not None or any(map(is_item, request.prompt)):
        raise BadInput("actions, images and clients that disconnect are not sent")
    if answer.status != 200:
        raise BadInput("the front end refuses a request")
    extra = {name: request.extra[key] for key, name in REQUEST.items() if key in request.extra}
    return {"prompt": list(request.prompt), "answer": list(answer.tokens) or [FILLER], **extra,
            **({} if request.cache_prompt else {"skip_read": True})}  # fmt: skip


def record(scenario, run):
    """Run a scenario on the released scheduler; return a dict for each request."""
    requests = {str(n): sent(step, one.answer) for n, (step, one) in
                enumerate(zip(scenario.steps, run.requests, strict=True))}  # fmt: skip
    server = Scheduler(header(scenario), requests, [one.request for one in run.requests])
    ended = ""
    try:
        for first, group in groups(scenario.steps):
            for number, step in enumerate(group, first):
                for _ in range(step.after):
                    server.step()
                server.add(number)
            while server.scheduler.requests and server.quiet < STUCK:
                server.step()
            if server.scheduler.requests:
                break
    except Exception as end:                                    # it ends the process
        ended = f"{type(end).__name__} {end}".strip()
    found = []
    for number in range(len(scenario.steps)):
        name = str(number)
        if name in server.cached:
            found.append({"n": number, "cache_n": server.cached[name]})
        elif ended or server.quiet >= STUCK:
            found.append({"n": number, **({"died": ended} if ended else {"stuck": True})})
    return found


def agrees(simulated, real):
    """True if a request finds as many tokens on the released scheduler as in our run, or is not answered in both."""
    if "died" in real or "stuck" in real:
        return bool(simulated.answer.died or not simulated.answer.done)
    return not simulated.answer.died and simulated.answer.cache_n == real["cache_n"]


def main(argv):
    """Run scenarios and store the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.vllm_scenarios", description=__doc__)
    parser.add_argument("ids", nargs="*", help="scenarios (default: all that name the installed release)")
    args = parser.parse_args(argv)
    entries = {}
    for name, file in sorted(corpus_files().items()):
        scenario = load(file)
        if PROFILE not in scenario.profiles or (args.ids and name not in args.ids):
            continue
        run = run_judged(scenario, PROFILE, "provenance", with_ledger=False)
        try:
            found = record(scenario, run)
        except BadInput as bad:
            print(f"{name:52} not sent: {bad.cause}")
            continue
        same = all(agrees(run.requests[one["n"]], one) for one in found)
        print(f"{name:52} {SAID[same]}" + ("" if same else f" {found} {[one.answer.cache_n for one in run.requests]}"),
              flush=True)  # fmt: skip
        entries[name] = {"scenario": of_case(file), "profile": PROFILE,
                         "flags": [f"{key}={value}" for key, value in scenario.server.items()], "requests": found,
                         "as_simulated": same}  # fmt: skip
    store(corpus_root() / "evidence" / f"vllm-{RELEASE}.json", f"vllm-{RELEASE}", f"vllm {RELEASE}, scheduler", entries)
    return exits.BROKEN if any(not one["as_simulated"] for one in entries.values()) else exits.HOLDS


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)                  # vLLM's background threads do not end
