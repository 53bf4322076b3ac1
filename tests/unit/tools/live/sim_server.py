"""Stand-in for a running llama-server: the simulator answers over HTTP, with tokens of a toy model.

If the simulator judges an answer wrong, its log-probabilities are changed by ``far``.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from urllib.parse import parse_qs, urlsplit

from cachesim.engines.registry import engine_of, profiles
from cachesim.events import Log
from cachesim.replay.event_owners import RequestEvents
from cachesim.replay.recorded_requests import make_request, scales_text
from cachesim.tools.replay.command import checker
from tests.live.fake import spoken
from tests.unit.tools.live.log_text import lines_of


class Simulated(BaseHTTPRequestHandler):
    """``props`` overrides its reported properties; ``spoil`` changes a reply."""

    protocol_version = "HTTP/1.1"
    profile, model, options, far, props, spoil, slots_work, log = "", "", {}, 1.0, {}, None, True, None

    @classmethod
    def begin(cls):
        cls.lock, cls.judge, cls.folder, cls.tasks = Lock(), staticmethod(checker()), TemporaryDirectory(), 0
        rules = profiles()[cls.profile]
        cls.events, cls.told = Log(), 0
        cls.sim = engine_of(cls.profile).start(rules, cls.model, dict(cls.options), "provenance", cls.events)

    def log_message(self, *words):
        pass

    def reply(self, status, body):
        data = json.dumps(body).encode() if not isinstance(body, bytes) else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        settings = self.sim.core.settings
        said = {
            "/props": {"total_slots": settings.n_slots,
                       "model_path": f"/models/tiny-{self.model.replace(' ', '')}.gguf",
                       "build_info": "b11549-abc", "default_generation_settings": {"n_ctx": settings.n_ctx_slot},
                       **self.props},
            "/slots": [{"id": 0, "id_task": self.tasks}] * settings.n_slots,
            "/lora-adapters": [{"id": number, "scale": scale} for number, scale in enumerate(self.sim.core.served)],
            "/v1/models": {"data": [{"meta": {"n_vocab": 320}}]},
        }  # fmt: skip
        if self.path == "/slots" and self.log is not None:
            with self.lock:
                self.write_log(f"srv  process_sing: n_idle_slots = {settings.n_slots}, n_processing_slots = 0")
        self.reply(self.props.get("status", 200), said.get(self.path, {"status": "ok"}))

    def write_log(self, *lines):
        """Write the events since the last call, and lines, as an idle server does."""
        if self.log is not None:
            new = self.events.events[self.told :]
            type(self).told = len(self.events.events)
            texts = [*lines_of(new, profiles()[self.profile]), *lines, "srv  update_slots: all slots are idle"]
            self.log.write("".join(f"{text}\n" for text in texts).encode())
            self.log.flush()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        path = urlsplit(self.path)
        with self.lock:
            type(self).tasks += 1
            if path.path == "/completion":
                self.reply(*self.complete(body))
                return
            if path.path == "/lora-adapters":
                said = self.sim.set_adapters(scales_text(body))
                self.write_log()
                self.reply(200, said)
                return
            action = parse_qs(path.query)["action"][0]
            file = Path(self.folder.name) / body["filename"] if "filename" in body else None
            slot = int(path.path.split("/")[2])
            said = self.sim.slot(action, slot, file) if self.slots_work else {"status": 501}
            self.write_log()
            self.reply(said["status"], said)

    def complete(self, body):
        said = spoken(body["prompt"], body["n_predict"])
        request = make_request("completion", body, {"tokens": said}, RequestEvents(()))
        answer = self.sim.complete(replace(request, n_predict=body["n_predict"]))
        self.write_log()
        if answer.status != 200:
            return answer.status, {"error": {"code": answer.status, "message": answer.error}}
        wrong = self.judge(self.sim, request, answer) is False
        top = [{"top_logprobs": [{"id": token, "logprob": -1.0 - wrong * self.far}]} for token in answer.tokens]
        timings = {"cache_n": answer.cache_n, "prompt_n": answer.prompt_n, "predicted_n": len(answer.tokens)}
        out = {
            "id_slot": answer.id_slot, "tokens_evaluated": len(body["prompt"]), "tokens_cached": answer.tokens_cached,
            "truncated": False, "stop_type": "limit", "tokens": list(answer.tokens), "timings": timings,
            "completion_probabilities": top,
        }  # fmt: skip
        return (200, out) if self.spoil is None else type(self).spoil(out)


@contextmanager
def simulated(model, profile="llama_cpp@b11549", options=None, **more):
    """Yield the URL of a stand-in with these options."""
    options = {"ctx_size": 2048, "parallel": 1, "kv_unified": False, **(options or {})}
    handler = type("Handler", (Simulated,), {"profile": profile, "model": model, "options": options, **more})
    handler.begin()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)     # seconds until it sees its end
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        handler.folder.cleanup()
