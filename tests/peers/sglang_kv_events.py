"""KV events of SGLang's released tree and scheduler, and of our server: every message, sent by the released publisher
and read by the subscriber of ``watch``, is compared, without time stamps.

    python -m tests.peers.sglang_kv_events FOLDER --runs 50 --seed 0

FOLDER: an unpacked wheel of sglang 0.5.23, beside the packages of the extra `kv-events`. Servers are drawn as in
``sglang_schedule``, with salts, without host memory. The released binding of the hash function is C++; here pages are
hashed in Python.
"""

import hashlib
import logging
import random
import sys
from collections import Counter

from cachesim.engines.base import Request
from cachesim.engines.server_parts import EventHashing
from cachesim.engines.sglang import ENGINE, PROFILES
from tests.peers import sglang_source as source
from tests.peers.published_events import wire
from tests.peers.sglang_schedule import CONTEXT, both, shares_slots
from tests.peers.sglang_server import RealServer
from tests.peers.sglang_start import ReleasedRequests
from tests.peers.sglang_turns import MODELS, MOST, draw_server

INTERVAL = 40                   # decode steps between two publications


EVENTS = "sglang.srt.disaggregation.kv_events"


def released(endpoint, replay):
    """Return the released publisher of rank 0."""
    return sys.modules[EVENTS].ZmqEventPublisher(0, endpoint, replay)


class Binding:
    """The native module of the released hash function."""

    def get_hash(self, raw, length, width, is_bigram, prior, page):
        """Return the digests of the pages, in hexadecimal digits."""
        found = []
        for start in range(0, length, page):
            stop = min(start + page, length)
            tokens = [raw[i + j] for i in range(start, stop) for j in range(1 + is_bigram)]
            prior = hashlib.sha256((prior or b"") + b"".join(token.to_bytes(4, "little") for token in tokens)).digest()
            found.append(prior.hex())
        return found


def campaign(real, seed, tried):
    """Send drawn requests to both servers and compare their messages."""
    draw = random.Random(seed)
    parts = draw.choice(list(MODELS))
    opts = {**draw_server(draw, parts, PROFILES[f"sglang@{source.RELEASE}"]), "enable_hierarchical_cache": False}
    window = draw.choice([3, 6, 10])
    ours = ENGINE.start("sglang@0.5.23", MODELS[parts].format(window), opts, "none")
    states = opts["max_mamba_cache_size"] if 2 in parts else None
    opts["max_running_requests"] = real.requests.number(
        ours.context.server_args, opts["max_total_tokens"], states, CONTEXT, most=opts["max_running_requests"])
    theirs = RealServer(real, parts, ours.context.swa_retain_window, opts, 40)
    ours.published_events.start(EventHashing())
    theirs.cache.tree_core.kv_events.record_all_cleared()           # as `reset` does when the server starts
    messages, mine, decodes = [], [], 0

    def publish():
        events = theirs.cache.tree_core.kv_events.take()
        if events:
            messages.append(sys.modules[EVENTS].KVEventBatch(ts=0.0, events=events))

    process = theirs.scheduler.process_batch_result

    def process_and_publish(batch, result):
        nonlocal decodes
        process(batch, result)
        decodes += batch.forward_mode.is_decode()
        if batch.forward_mode.is_extend() or decodes % INTERVAL == 0:
            publish()

    theirs.scheduler.process_batch_result = process_and_publish
    texts = [tuple(draw.randrange(50) for _ in range(60)) for _ in range(3)]
    for number in range(40):
        prompt = (*draw.choice(texts)[: draw.randrange(1, 50)], draw.randrange(50))
        answer, salt = tuple(range(100, 101 + draw.randrange(20))), draw.choice(["", "", "", "k"])
        space = draw.choice(["", "", "", "e"])
        priority, right = draw.randrange(2), draw.randrange(4)
        ours.submit(Request(prompt, len(answer), forced=answer, draft_else=right, eog=answer[-1:],
                            extra={"extra_key": space, "cache_salt": salt, "priority": priority}))  # fmt: skip
        ours.take_tasks()
        theirs.submit(number, prompt, answer, space or None, priority, right, len(answer)).cache_salt = salt or None
        for _ in range(draw.choice([0, 1, 1, 3, 12 if number < 39 else MOST])):
            both(theirs, ours, Counter())
            if ours.dead:
                tried["ends of the scheduler"] += 1
                break
            if shares_slots(theirs):
                tried["requests whose slots were freed"] += 1
                return
            if not theirs.is_busy:
                publish()
                mine += ours.published_events.take()
                break
        if ours.dead:
            break
    while not ours.dead and theirs.is_busy:
        both(theirs, ours, Counter())
        tried["ends of the scheduler"] += ours.dead
    if not ours.dead:
        publish()
    mine = [[list(batch.events), batch.rank] for batch in [*mine, *ours.published_events.take()]]
    assert len(messages) == len(mine), (len(messages), len(mine))
    with wire(released, lambda: sys.modules[EVENTS].KVEventBatch(ts=0.0, events=[])) as connected:
        tried.update(runs=1, messages=connected.check(messages, mine))
    tried.update(event["type"] for events, _ in mine for event in events)


def main():
    parser = source.parser(__doc__)
    parser.add_argument("--runs", type=int, default=50)
    args = parser.parse_args()
    logging.disable()
    real, tried, seed = source.load(args.folder, schedule=True, host=True, events=True), Counter(), args.seed
    real.requests = ReleasedRequests(args.folder)
    sys.modules["sglang.srt.mem_cache.cpp_utils.native_hash"]._load_native_hash_module = Binding
    while tried["runs"] < args.runs:
        try:
            campaign(real, seed, tried)
        except AssertionError as error:
            raise AssertionError(f"campaign {seed}") from error
        seed += 1
    print(", ".join(f"{n} {name}" for name, n in tried.items()) + ", 0 differences")


if __name__ == "__main__":
    main()
