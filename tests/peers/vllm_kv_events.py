"""KV events of vLLM's scheduler and of our server: ``python -m tests.peers.vllm_kv_events --runs 50 --seed 0``.

Requests are drawn for the released classes. Every message that they publish, sent by the released publisher and read by
the subscriber of ``watch``, must have the fields of ours, also when it is sent again; time stamps are left out. Hash
functions and seeds are drawn, too.
"""

import argparse
import logging
import os
import sys
from collections import Counter
from types import SimpleNamespace
from unittest import mock

from vllm.distributed.kv_events import KVEventBatch, ZmqEventPublisher
from vllm.utils.hashing import get_hash_fn_by_name

from cachesim.engines.server_parts import EventHashing
from cachesim.engines.vllm.engine import ENGINE
from cachesim.engines.vllm.profiles import PROFILES
from tests.peers import vllm_draw, vllm_engine
from tests.peers.published_events import wire

SEEDS = (None, "0", "17")


class Messages:
    """A publisher that keeps what the released one is to send."""

    def __init__(self):
        self.sent = []

    def publish(self, batch):
        self.sent.append(batch)

    def shutdown(self):
        pass


def recorded(seed, hashing):
    """Return a drawn recording with the messages of the released scheduler, None if vLLM refuses the settings."""
    messages = Messages()
    function = get_hash_fn_by_name(hashing.algorithm)

    def draw(rng):
        return {**vllm_draw.draw_config(rng), "images": False}

    def prepare(config, requests):
        on = SimpleNamespace(enable_kv_cache_events=True, publisher="null")
        server = vllm_engine.RealServer({**config, "kv_events": on}, requests, recorded=False)
        config.update({name: value for name, value in server.config.items() if name != "kv_events"})
        server.scheduler.kv_event_publisher = messages
        return server

    with mock.patch.dict(os.environ), mock.patch.object(vllm_engine, "sha256", function):
        os.environ.pop("PYTHONHASHSEED", None)
        if hashing.seed is not None:
            os.environ["PYTHONHASHSEED"] = hashing.seed
        data = vllm_draw.record(seed, prepare, draw)
    return None if data is None else (data, messages.sent)


def replayed(data, hashing):
    """Return the messages of our server for the steps of a recording."""
    classes = ENGINE.recorded.classes()
    model, flags = classes.setup(data["config"])
    server = ENGINE.start(f"vllm@{vllm_engine.RELEASE}", model, flags, "none")
    server.published_events.start(hashing)
    play = classes.play(server, data)
    for step in data["steps"]:
        play(step)
    return [[list(batch.events), batch.rank] for batch in server.published_events.take()]


def released(endpoint, replay):
    """Return the released publisher of rank 0."""
    return ZmqEventPublisher(0, endpoint, replay)


def main(argv):
    """Compare drawn runs."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.vllm_kv_events", description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    logging.disable()
    tried, seed = Counter(), args.seed
    while tried["runs"] < args.runs:
        seed += 1
        seeds = SEEDS if PROFILES[f"vllm@{vllm_engine.RELEASE}"].seeds_hashes else SEEDS[1:]
        hashing = EventHashing(("sha256", "sha256_cbor")[seed % 2], seeds[seed % len(seeds)])
        found = recorded(seed, hashing)
        if found is None or found[0]["final"].get("died"):
            continue
        data, theirs = found
        ours = replayed(data, hashing)
        with wire(released, lambda: KVEventBatch(ts=0.0, events=[])) as connected:
            assert len(theirs) == len(ours), (seed, len(theirs), len(ours))
            tried.update(runs=1, messages=connected.check(theirs, ours))
        tried.update(event["type"] for events, _ in ours for event in events)
    print(f"vLLM {vllm_engine.RELEASE}: {', '.join(f'{n} {name}' for name, n in tried.items())}, 0 differences")


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)                     # vLLM's background threads do not end
