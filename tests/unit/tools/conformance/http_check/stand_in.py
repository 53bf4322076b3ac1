"""A llama-server over HTTP whose cache is the simulator's, and misbehaving servers."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.events import Log
from cachesim.model.hash_mixing import mix_int
from cachesim.replay.recorded_requests import scales_text

VOCABULARY = 1024


class Simulated:
    """A server with a rule set. ``spoil``: every so many-th answer is changed in this field."""

    def __init__(self, profile, model="GA", spoil=0, field="completion_probabilities", **flags):
        engine = engine_of(profile)
        self.server = engine.start(profile, model, {"ctx_size": 4096, "parallel": 1, **flags}, "provenance", Log())
        self.lock, self.answered = threading.Lock(), 0
        self.spoil, self.field = spoil, field

    def complete(self, body):
        with self.lock:
            prompt = tuple(body["prompt"])
            said = tuple(mix_int(sum(prompt) ^ place) % VOCABULARY for place in range(body["n_predict"]))
            lists = {"lora": scales_text(body["lora"])} if "lora" in body else {}
            request = Request(prompt, body["n_predict"], forced=said, cache_prompt=body.get("cache_prompt", True),
                              id_slot=body.get("id_slot", -1), extra=lists)  # fmt: skip
            answer = self.server.submit(request)
            while self.server.working:
                self.server.take_tasks()
                self.server.update()
            self.answered += 1
        if answer.error:
            return 400, {"error": {"message": answer.error}}
        spoilt = bool(self.spoil) and self.answered % self.spoil == 0
        said = answer.outputs[0].digest if answer.outputs else 0
        said += spoilt and self.field == "completion_probabilities"
        numbers = [-(mix_int(said ^ place) % 10_000) / 1000 for place in range(4)]
        return 200, {
            "tokens": [(token + (spoilt and self.field == "tokens")) % VOCABULARY for token in answer.tokens],
            "tokens_evaluated": len(request.prompt),
            "timings": {"cache_n": answer.cache_n, "prompt_n": answer.prompt_n},
            "completion_probabilities": [{"top_logprobs": [{"id": place, "logprob": one}
                                                           for place, one in enumerate(numbers)]}],
        }  # fmt: skip


@contextmanager
def serving(complete, props=None, used=0, get=None):
    """Yield the URL of a server with these completions."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16                     # send head and body together: otherwise every reply takes 40 ms

        def log_message(self, *words):
            pass

        def reply(self, status, body):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            if get is not None:
                return self.reply(*get(self.path))
            known = {
                "/props": props or {"total_slots": 1, "default_generation_settings": {"n_ctx": 4096}},
                "/v1/models": {"data": [{"id": "toy", "meta": {"n_vocab": VOCABULARY}}]},
                "/slots": [{"id": 0, "n_prompt_tokens": used}],
            }  # fmt: skip
            return self.reply(200, known[self.path]) if self.path in known else self.reply(404, {})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
            said = complete(body)
            return said(self) if callable(said) else self.reply(*said)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None      # a client that disconnects
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def hang(_):
    time.sleep(3)
    return 200, {}


def drop(_):
    """Close the connection without a reply."""

    def close(handler):
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    return close


def trickle(_):
    """Send a reply byte by byte that never ends."""

    def write(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.02)

    return write
