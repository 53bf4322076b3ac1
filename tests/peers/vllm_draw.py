"""Draws models, settings, requests and clients for the comparison with vLLM, and records its real scheduler."""

from __future__ import annotations

import random
import traceback

from cachesim.engines.shared.model_sizes import real_model
from cachesim.engines.vllm.compressed_layers import layer_caches, packed_groups
from tests.peers.vllm_engine import ATTENTION, EAGLE_FAMILY, FILLER, RELEASE, RealServer

SIZES = (2, 3, 4, 5, 8, 16)
TOKENS = range(8, 90)        # without FILLER and PLACEHOLDER
PLACEHOLDER = 6
IMAGES = {"x": 2, "y": 5, "z": 9}        # identifiers, and the tokens of each
KINDS = (
    "full", "full full", "swa", "rswa", "chunked", "mamba", "full swa", "full swa swa", "full chunked", "full mamba",
    "full mamba", "full mamba", "full mamba mamba", "full swa mamba", "swa mamba",
)  # fmt: skip
OFFLOADED = {"full", "swa", "rswa", "chunked", "mamba"}
FREE = 0.4                     # of the layouts have any number of groups of any kinds
MANAGERS = "single_type_kv_cache_manager.py"
MOST_STEPS = 160
LONG = 1000                    # tokens of a request from which on prompts are as long as they may
PER_STEP = {"add": 0.12, "abort": 0.012, "reset": 0.01}
RESETS = 0.06                  # of a step with CPU offload: prompts come back from there


def draw_groups(rng, most):
    """Return the cache groups of a model, and whether it caches prefixes."""
    kinds, caching = rng.choice(KINDS).split(), rng.random() > 0.1
    if rng.random() < FREE:
        kinds = [rng.choice(("full", "full", "swa", "swa", "mamba", "mamba", "rswa")) for _ in range(rng.randint(1, 5))]
    base = rng.choice(SIZES)
    mixed = "chunked" not in kinds and rng.random() < 0.5
    groups = []
    for kind in kinds:
        size = base * rng.choice((1, 2, 3, 4, 6)) if mixed else base
        group = {"kind": kind, "block_size": size if kind != "mamba" or caching else most}
        if kind in ("swa", "rswa"):
            group["window"] = rng.randint(2, 5 * base + 1)
        if kind == "chunked":
            group["chunk"] = base * rng.randint(1, 4)
        groups.append(group | {"eagle": False})
    return groups, caching


def draw_config(rng):
    """Return a header's configuration; what vLLM resolves is missing."""
    most = rng.choice((64, 96, 128))
    groups, caching = draw_groups(rng, most)
    kinds = {group["kind"] for group in groups}
    spec = rng.choice((None, None, None, "ngram", "eagle_drop", "eagle_keep", "eagle_hash", "eagle_hash", "mtp_hash"))
    if "chunked" in kinds and (spec in EAGLE_FAMILY):
        spec = None
    if spec in EAGLE_FAMILY and spec != "eagle_keep" and rng.random() < 0.8:    # without the drop vLLM marks no group
        groups[0]["eagle"] = True
    sizes = [group["block_size"] for group in groups if group["kind"] != "mamba" or caching]
    step = least_common(sizes) if len(groups) > 1 else sizes[0] if sizes else most
    unit = [u for u in (1, 2, 3, 4) if all(size % u == 0 for size in sizes)]
    mamba = caching and "mamba" in kinds
    sparse = "mamba" in kinds or "swa" in kinds
    align = rng.choice((1, 1, 2, 4)) if mamba and rng.random() < 0.35 else None
    least = min([step] + [group["block_size"] - 1 for group in groups if align and group["kind"] == "mamba"])
    return {
        "kind": " ".join(group["kind"] for group in groups), "max_num_seqs": rng.randint(1, 6),
        "max_num_batched_tokens": max(rng.choice((8, 13, 16, 24, 32, 64)), step if mamba else 0), "max_model_len": most,
        "long_prefill_token_threshold": rng.choice((0, 0, 6, 10)), "policy": rng.choice(("fcfs", "fcfs", "priority")),
        "watermark": rng.choice((0.0, 0.0, 0.1)), "reserve_full": rng.random() > 0.2,
        "retention": rng.choice((0, 0, None, step * rng.randint(1, 3))) if sparse and caching else 0,
        "spec": spec, "num_spec": min(least, rng.randint(1, 3)) if spec else 0,
        "async_scheduling": rng.random() < 0.6 and not (spec == "ngram" and RELEASE < "0.33"),
        "images": rng.random() < 0.2, "caching": caching,
        "dcp": 2 if kinds <= {"full", "mamba"} and rng.random() < 0.08 and not any(g["eagle"] for g in groups) else 1,
        "prefix_match_unit": rng.choice(unit) if len(groups) > 1 and caching and unit and rng.random() < 0.3 else None,
        "ckpt_align": align,
        "shared_prefix_checkpoint": rng.random() < 0.2, "groups": groups,
        "num_blocks": 2 + len(groups) * (most // min(sizes or [most]) + 3) * rng.randint(2, 12) // 5,
    }  # fmt: skip


def known_to_release(config):
    """Return a drawn configuration without what the installed release does not have."""
    changes = {}
    if RELEASE < "0.30":
        changes |= {"shared_prefix_checkpoint": False}
        changes |= {"spec": "eagle_drop"} if config["spec"] == "eagle_keep" else {}
        changes |= {"ckpt_align": None}
    if RELEASE < "0.29":
        changes |= {"dcp": 1} if len(config["groups"]) > 1 or config["groups"][0]["kind"] == "mamba" else {}
        sparse = {group["kind"] for group in config["groups"]} & {"swa", "mamba"}
        changes |= {} if sparse else {"retention": None}                # any number is refused
    if RELEASE < "0.28":
        changes |= {"spec": "eagle_drop"} if config["spec"] == "mtp_hash" else {}
    if RELEASE < "0.26":
        changes |= {"prefix_match_unit": None}
    return config | changes


def least_common(sizes):
    """Return the least common multiple, at most 64; larger mixtures are made equal by the caller's luck."""
    product = 1
    for size in sizes:
        product = next(n for n in range(product, product * size + 1, product) if n % size == 0)
    return product


def draw_request(rng, known, config):
    """Return a request; most repeat a part of an earlier one."""
    most = config["max_model_len"] - 2
    size = min(group["block_size"] for group in config["groups"])
    prompt, images = [], []
    if known and rng.random() < 0.8:
        old = known[rng.randrange(len(known))]
        text = old["prompt"] + old["answer"] * (rng.random() < 0.4)
        cut = rng.choice((len(text), len(old["prompt"]), rng.randint(1, len(text)),
                          max(1, rng.randint(0, len(text) // size) * size)))  # fmt: skip
        prompt, images = text[:cut], [one for one in old.get("images", ()) if one[0] + one[1] <= cut]
    if config["images"] and rng.random() < 0.5:
        name, size_of = rng.choice(list(IMAGES.items()))
        images = [*images, [len(prompt), size_of, name]]
        prompt = prompt + [PLACEHOLDER] * size_of
    if not prompt or rng.random() < 0.75:
        longest = 60 if most < LONG else most
        prompt = prompt + [rng.choice(TOKENS) for _ in range(rng.choice((1, 3, size, rng.randint(1, longest))))]
    prompt = prompt[: min(most, 90) if most < LONG else most - 30]
    room = config["max_model_len"] - len(prompt)
    request = {"prompt": prompt, "answer": [rng.choice(TOKENS) for _ in range(rng.randint(1, min(20, room)))]}
    images = [image for image in images if image[0] + image[1] <= len(prompt)]
    if images and all(image[1] <= config["max_num_batched_tokens"] for image in images):
        request["images"] = images           # a placeholder without image is a token
    rare = {"salt": lambda: rng.choice("ab"), "lora": lambda: rng.choice("lm"), "skip_read": lambda: True}
    request |= {name: value() for name, value in rare.items() if rng.random() < 0.04}
    if config["policy"] == "priority":
        request["priority"] = rng.randint(0, 2)
    return request


def draw_drafts(rng, server, told):
    """Return the drafts for the requests that just spoke: a right beginning, sometimes a wrong token."""
    config, drafts = server.config, {}
    for name in told if config["spec"] and not config["async_scheduling"] else ():
        request = server.scheduler.requests.get(name)
        if request is None or request.is_finished() or request.is_prefill_chunk:
            continue
        rest = (server.requests[name]["answer"][request.num_output_tokens :] + [FILLER] * config["num_spec"])
        right = rng.randint(0, config["num_spec"])
        count = rng.randint(0, config["num_spec"]) if config["spec"] == "ngram" else config["num_spec"]
        words = (rest[:right] + [rng.choice(TOKENS) for _ in range(config["num_spec"])])[:count]
        if words:
            drafts[name] = words
    return drafts


def draw_offload(rng):
    """Return the configuration of a model, and of its CPU memory."""
    config = draw_config(rng)
    while not {group["kind"] for group in config["groups"]} <= OFFLOADED:
        config = draw_config(rng)
    config |= {"dcp": 1, "retention": config["retention"] or 0}
    states = [group["block_size"] for group in config["groups"] if group["kind"] == "mamba"]
    if len({group["block_size"] for group in config["groups"]}) == 1 and states:
        config["prefix_match_unit"] = None                  # vLLM also stores parts of blocks, which is refused here
    config["num_spec"] = min([config["num_spec"], *(size - 1 for size in states)])      # as in every real model
    if not config["num_spec"]:
        config["spec"] = None
    least = 2 + sum(-(-config["max_model_len"] // group["block_size"]) for group in config["groups"])
    config["num_blocks"] = max(config["num_blocks"] * 2 // 3, least)
    return config | {"offload": {
        "num_cpu_chunks": rng.randint(1, 40), "blocks_per_chunk": rng.choice((1, 1, 2, 3)),
        "eviction_policy": rng.choice(("lru", "arc")), "store_threshold": rng.choice((0, 0, 0, 2)),
        "offload_prompt_only": rng.random() < 0.5}, "late": rng.choice((0, 0.6, 0.9))}


def draw_compressed(rng):
    """Return the configuration of a model with compressed rows: the groups of DeepSeek V4, with real blocks."""
    model = rng.choice(("deepseek-v4", "deepseek-v4-pro"))
    spec = rng.choice((None, None, "eagle_drop", "eagle_hash", "eagle_keep"))
    caches = layer_caches(real_model(model), 256, int(spec in EAGLE_FAMILY))
    groups = [{"kind": "swa" if first.window else "full", "block_size": first.block, "latent": True,
               "eagle": any(cache.is_draft for cache in group.caches) and spec != "eagle_keep",
               **({"window": first.window} if first.window else {})}
              for group in packed_groups(caches) for first in group.caches[:1]]  # fmt: skip
    most = rng.choice((1100, 1600, 2400))
    return {
        "kind": model, "max_num_seqs": rng.randint(1, 6), "max_num_batched_tokens": rng.choice((64, 200, 512, 1024)),
        "max_model_len": most, "long_prefill_token_threshold": rng.choice((0, 0, 100)),
        "policy": rng.choice(("fcfs", "fcfs", "priority")), "watermark": rng.choice((0.0, 0.0, 0.1)),
        "reserve_full": rng.random() > 0.2, "retention": rng.choice((0, 0, None, 256, 512)), "spec": spec,
        "num_spec": rng.randint(1, 3) if spec else 0, "async_scheduling": rng.random() < 0.6, "images": False,
        "caching": rng.random() > 0.1, "dcp": 1,
        "prefix_match_unit": rng.choice((None, None, 4, 2)), "ckpt_align": None, "shared_prefix_checkpoint": False,
        "groups": groups, "num_blocks": most // 4 * rng.randint(3, 12),
    }  # fmt: skip


def record(seed, prepare=RealServer, draw=draw_config):
    """Return a drawn recording of the real scheduler, or None if vLLM refuses the drawn settings."""
    rng = random.Random(seed)
    config = known_to_release(draw(rng))
    if any(ATTENTION.get(group["kind"], (True,))[0] is None for group in config["groups"]):
        return None
    try:
        server = prepare(config, requests := {})
    except (ValueError, AssertionError):
        return None
    steps, final = [], None
    client = Client(rng, server, requests)
    try:
        while len(steps) < MOST_STEPS and (op := client.next(len(steps))) is not None:
            steps.append({"i": len(steps), **op})
        final = server.final()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = next((one for one in reversed(frames) if one.filename.endswith(MANAGERS)), frames[-1])
        steps.append({"i": len(steps), "op": "died", "error": f"{type(error).__name__}: {error}", "in": where.name,
                      "ev": server.recorder.take()})  # fmt: skip
        final = {"died": True}
    head = {"engine": "vllm", "version": RELEASE, "name": f"drawn-{seed}", "seed": seed}
    return head | {"config": config, "requests": requests, "steps": steps, "final": final}


class Client:
    """Clients of one server: when requests come, leave, and the cache is reset."""

    def __init__(self, rng, server, requests):
        """Start without requests."""
        self.rng, self.server, self.requests, self.left = rng, server, requests, rng.randint(3, 14)
        self.idle = 0

    def next(self, done):
        """Perform an operation and return its step; None at the end."""
        rng, server = self.rng, self.server
        alive = [name for name, request in server.scheduler.requests.items() if not request.is_finished()]
        draw = rng.random()
        if self.left and (draw < PER_STEP["add"] or not alive):
            self.left -= 1
            number = len(self.requests)
            self.requests[str(number)] = draw_request(rng, list(self.requests.values()), server.config)
            return server.add(number)
        if not alive and not server.pending and not (server.jobs and server.scheduler.has_requests()):
            return None
        draw = rng.random()
        if alive and (draw < PER_STEP["abort"] or self.idle > 3):
            self.idle = 0
            return server.abort(int(rng.choice(alive)))
        if draw > 1 - (RESETS if server.jobs else PER_STEP["reset"]):
            # vLLM does not reset then; until 0.32.0 it also raises if a preempted request loads in the next step.
            late = server.jobs and (server.jobs.loads() or server.pending or RELEASE < "0.33")
            return server.reset(rng.random() < 0.5 and not late)
        depth = 2 if server.config["async_scheduling"] else 1
        if len(server.pending) >= depth or (server.pending and (self.idle or rng.random() < 0.15)):
            told = [name for name, tokens in server.pending[0][1].items() if tokens]
            self.idle *= not told
            ended = server.jobs.drawn(rng, server.config["late"]) if server.jobs else ()
            return server.update(lambda: draw_drafts(rng, server, told), ended)
        step = server.schedule()
        self.idle = 0 if step["run"] else self.idle + 1
        return step
