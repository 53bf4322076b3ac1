"""HTTP server with given replies, in place of a llama-server."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DROP = "the connection is closed without a reply"
TIMINGS = {"cache_n": 1, "prompt_n": 2, "predicted_n": 2}


def answer(*tokens, **more):
    """Return the body of a completion."""
    return {"id_slot": 0, "tokens_evaluated": 3, "tokens_cached": 4, "truncated": False, "stop_type": "limit",
            "tokens": list(tokens), "timings": TIMINGS, **more}  # fmt: skip


def likely(*places):
    """Return the log-probabilities of tokens, a dictionary for each generated token."""
    return {"completion_probabilities": [
        {"top_logprobs": [{"id": token, "logprob": value} for token, value in place.items()]} for place in places]}


class GivenServer:
    """``replies``: body, status and body, or DROP by path; a list has one for each request, of which the last stays.
    ``asked``: the requests so far: method, path and body."""

    def __init__(self, replies):
        self.replies, self.asked, self.url, self.port = dict(replies), [], "", 0

    def reply(self, path):
        found = self.replies.get(path, {})
        if isinstance(found, list) and found and isinstance(found[0], tuple):
            found = found.pop(0) if len(found) > 1 else found[0]
        return found if isinstance(found, tuple) else (200, found)

    def posted(self, path=""):
        """Return the bodies of the posts to a path, or to all paths."""
        return [body for method, at, body in self.asked if method == "POST" and at.startswith(path)]


@contextmanager
def given(replies=(), port=0):
    """Run a server; yield it. Replies that are bytes are sent as they are."""
    server = GivenServer(replies)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.asked.append((self.command, self.path, json.loads(data) if data else None))
            status, body = server.reply(self.path)
            if body == DROP:
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        do_POST = do_GET

        def log_message(self, *_):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.port, server.url = http.server_port, f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
