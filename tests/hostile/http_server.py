"""Server on the loopback that answers like a llama-server, until it sends the reply of a mutant.

It runs in a thread of the mutant's process. The reply is a JSON file: ``at`` is the number of the request that gets it,
and every later request to this path; ``pieces`` are [TEXT, TIMES] with a character per byte, sent as they are, with
``pause`` seconds after each; afterwards the connection is closed, or with ``stay`` kept open.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer

from cachesim.cli.main import main

URL = "URL"                  # word of the command line that stands for the server's address
LONGEST = 3.0                # seconds for which a connection without a reply is kept open


def answer(prompt, n_predict, stream=False):
    """Return the JSON of a completion."""
    tokens = [(sum(prompt) + i) % 300 for i in range(n_predict)]
    top = [{"top_logprobs": [{"id": token, "logprob": -1.0}]} for token in tokens]
    return {
        "id_slot": 0, "tokens_evaluated": len(prompt), "tokens_cached": len(prompt) + n_predict, "truncated": False,
        "stop_type": "limit", "stop": not stream, "tokens": tokens, "completion_probabilities": top,
        "timings": {"cache_n": 0, "prompt_n": len(prompt), "predicted_n": n_predict},
    }  # fmt: skip


PROPS = {"total_slots": 1, "model_path": "/models/tiny-GA.gguf", "build_info": "b11549-abc",
         "default_generation_settings": {"n_ctx": 1024}}  # fmt: skip
SLOTS = [{"id": 0, "id_task": 5, "is_processing": False}]
MODELS = {"data": [{"id": "m", "meta": {"n_vocab": 320}}]}
GETS = {"/props": PROPS, "/slots": SLOTS, "/v1/models": MODELS}


def head(size, status="200 OK", kind="application/json"):
    """Return status line and headers of a reply."""
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"


class Handler(StreamRequestHandler):
    """Connection to the server."""

    reply, seen, reached, path = {}, 0, False, None

    def handle(self):
        with suppress(OSError, ValueError):
            while line := self.rfile.readline(65537):
                self._serve(line.decode("latin-1").split()[1])

    def _serve(self, target):
        size = 0
        while (line := self.rfile.readline(65537)) not in (b"\r\n", b"\n", b""):
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        body, path = json.loads(self.rfile.read(size) or b"{}"), target.partition("?")[0]
        ours = type(self)
        number, ours.seen = ours.seen, ours.seen + 1
        if number == self.reply["at"]:
            ours.path = path
        if ours.path == path:
            self._misbehave()
        else:
            self._send(200, GETS.get(path) or self._completion(path, body))

    def _completion(self, path, body):
        if path != "/completion":
            return {"status": 200, "success": True}
        return answer([token for token in body["prompt"] if isinstance(token, int)], min(body["n_predict"], 50))

    def _send(self, status, body):
        data = json.dumps(body).encode()
        self.wfile.write(head(len(data), f"{status} OK").encode() + data)

    def _misbehave(self):
        pause = self.reply.get("pause", 0)
        for text, times in self.reply["pieces"]:
            piece = text.encode("latin-1", "replace")
            together = max(1, min(times, (1 << 16) // max(1, len(piece)))) if not pause else 1
            for _ in range(times // together):
                self.wfile.write(piece * together)
                time.sleep(pause)
            self.wfile.write(piece * (times % together))
        if self.reply.get("stay"):
            self.connection.settimeout(LONGEST)
            self.rfile.read(1)
        raise ValueError("close the connection")


class Server(ThreadingTCPServer):
    """The server, whose threads end with the process."""

    daemon_threads, allow_reuse_address, block_on_close, request_queue_size = True, True, False, 50


def served(mutant):
    """Run the command line of a mutant against a server that sends its reply; return the exit code."""
    handler = type("Handler", (Handler,), {"reply": json.loads(mutant.data)})
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            return main([url if word == URL else word for word in mutant.argv])
        finally:
            server.shutdown()
