"""Stand-in program for llama-server: it answers and logs in equal forms, and misbehaves on demand.

`--fake MODE`: well, unhealthy, stillborn, busy (never idle), taken (the first port is in use), other (reports another
alias), remembers (answers a repeated prompt wrongly), alone (a cold server does not start), old (without the control
request), older (without it, and with a log without levels), slotless. The next token is a number computed from all
tokens before it. Some prompts are special:

    [13] ends it with a failed assertion    [14] decodes empty batches forever    [15] is never answered
    [16] is answered without log lines      [17] is refused when it is launched   [18] is refused by a cold server
    [19] ends a cold server                 [20] is answered wrongly by a cold server that answered before
    [21] has further answers, each wrong    [22] has other log-probabilities on a cold server
    [23] has an accepted draft of which two tokens were not delivered
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from socketserver import StreamRequestHandler, ThreadingTCPServer

if "--version" in sys.argv:
    print(os.environ.get("VERSION", "version: 11549 (abc)"))
    sys.exit()
WORDS = dict(zip(sys.argv[1:], [*sys.argv[2:], ""], strict=False))
MODE, COLD = WORDS.get("--fake", "well"), "--ctx-checkpoints" in WORDS
LOCK, HELD, SCALES, TASKS, BUSY = threading.Lock(), [], [0], iter(range(10**6)), []


def say(level, text):
    print(text if MODE == "older" else f"0.00.000.001 {level} {text}", file=sys.stderr, flush=True)


def idle():
    if MODE != "busy":
        say("I", "srv  update_slots: all slots are idle")


def generate(prompt, n, scale):
    out = []
    for i in range(n):
        out.append((sum(prompt) + sum(out) + i + int(100 * scale)) % 300)
    if (MODE == "remembers" and not COLD and prompt in HELD) or (prompt == [20] and COLD and HELD):
        out[-1] += 1
    HELD.append(prompt)
    return out


class Handler(StreamRequestHandler):
    """Reads requests of HTTP/1.1. To import http.server takes longer than the rest of this program, in each test."""

    def handle(self):
        while line := self.rfile.readline().split():
            self.path, self.headers = line[1].decode(), {}
            while header := self.rfile.readline().strip().lower():
                name, _, self.headers[name.decode()] = header.partition(b": ")
            self.do_GET() if line[0] == b"GET" else self.do_POST()
            if self.headers.get("connection") == b"close":
                break

    def head(self, status, *headers):
        self.wfile.write("\r\n".join((f"HTTP/1.1 {status} x", *headers, "\r\n")).encode())

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.head(status, f"Content-Length: {len(data)}")
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/slots" and MODE == "older":
            with LOCK:
                say("D", "srv  process_sing: n_idle_slots = 1, n_processing_slots = 0")
                self.reply(200, [{"id": 0, "is_processing": False}])
                idle()
            return
        if self.path == "/slots":
            self.reply(501 if MODE == "slotless" else 200, [{"id": 0, "is_processing": bool(BUSY)}])
            return
        self.reply(503 if MODE == "unhealthy" else 200, {
            "model_alias": "x" if MODE == "other" else WORDS["--alias"], "total_slots": int(WORDS.get("-np", 1))})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        path, _, query = self.path.partition("?")
        with LOCK:
            if path == "/completion":
                BUSY.append(1)
                self.complete(body)
                BUSY.pop()
            elif path.startswith("/slots/"):
                action = query.removeprefix("action=")
                counts = {"erase": {"n_erased": 3}, "save": {"n_saved": 3, "n_written": 40}}
                self.reply(200, {"id_slot": 0, "filename": "x", **counts.get(action, {"n_restored": 3, "n_read": 40})})
                idle()
            elif path == "/lora-adapters":
                SCALES[:] = [sum(one["scale"] for one in body)]
                say("I", f"srv  process_sing: set lora adapter idx=0 scale={SCALES[0]:f}")
                self.reply(200, {"success": True})
                idle()
            elif MODE in ("old", "older") or path != "/v1/chat/completions/control":
                self.reply(404, {})
            else:
                mark = f"control reasoning_end on unknown completion id={body['id']}, no live slot"
                say("W", f"srv  process_sing: {mark}")
                self.reply(200, {"success": False})
                idle()

    def complete(self, body):
        prompt, task = body["prompt"], next(TASKS)
        at = f"id  0 | task {task} |"
        if prompt == [16]:
            self.stream([])
            return
        if prompt == [17] or (prompt == [18] and COLD):
            say("E", f"srv  update_slots: failed to launch slot with task, id_task = {task}")
            self.reply(400, {"error": {"code": 400, "message": "Prompt contains invalid tokens", "type": "invalid"}})
            idle()
            return
        say("I", "slot get_availabl: id  0 | task -1 | selected slot by LRU, t_last = -1")
        say("I", f"slot launch_slot_: {at} processing task" + (", is_child = 0" if MODE != "older" else ""))
        if prompt == [13] or (prompt == [19] and COLD):
            print("/src/common.cpp:7: failed to remove sequence 0 with p0=1, p1=-1", file=sys.stderr, flush=True)
            os.abort()
        if prompt == [15]:
            idle()
            say("D", "srv          stop: all tasks already finished, no need to cancel")
            time.sleep(60)
        while prompt == [14]:
            say("D", "que    start_loop: processing new tasks")
            say("D", "srv  update_slots: posting NEXT_RESPONSE")
            say("I", f"slot   operator(): {at} cached n_tokens = 9, memory_seq_rm [9, end)")
            time.sleep(0.0001)
        say("I", f"slot   operator(): {at} new prompt, n_ctx_slot = 64, n_keep = 0, task.n_tokens = {len(prompt)}")
        say("I", f"slot   operator(): {at} cached n_tokens = 0, memory_seq_rm [0, end)")
        scale = sum(one["scale"] for one in body["lora"]) if "lora" in body else SCALES[0]
        tokens = generate(prompt, body["n_predict"], scale)
        for n, token in enumerate(tokens):
            say("D", f"slot process_toke: {at} n_gen = {n + 1}, n_remaining = 1, next token: {token:5d} 'x'")
        if body.get("stream"):
            self.stream(tokens)
            say("W", f"srv          stop: cancel task, id_task = {task}")
            tokens = tokens[:4]
        if MODE == "older":
            print("a message without a line end, assuming pure content parser.", end="", file=sys.stderr, flush=True)
        held = len(prompt) + len(tokens) - 1
        if not body.get("stream"):
            far = 0.25 if prompt == [22] and COLD else 0.0
            top = [{"id": token, "logprob": -1.0 - far} for token in tokens]
            timings = {"cache_n": 0, "prompt_n": len(prompt), "predicted_n": len(tokens)}
            if prompt == [23] and not COLD:
                timings |= {"draft_n": 4, "draft_n_accepted": 3}
                held += 2
            one = {
                "id_slot": 0, "tokens_evaluated": len(prompt), "tokens_cached": held, "truncated": False,
                "stop_type": "limit", "tokens": tokens, "timings": timings,
                "completion_probabilities": [{"top_logprobs": [one]} for one in top],
            }
            more = [{**one, "index": n, "tokens": [tokens[0] + 1, *tokens[1:]]}
                    for n in range(1, body.get("n_cmpl", 1))]  # fmt: skip
            self.reply(200, [one, *more] if more else one)
        say("I", f"slot      release: {at} stop processing: n_tokens = {held}, truncated = 0")
        idle()

    def stream(self, tokens):
        self.head(200)
        try:
            for token in tokens:
                self.wfile.write(f"data: {json.dumps({'tokens': [token], 'stop': False})}\n\n".encode())
                self.wfile.flush()
                time.sleep(0.01)
        except OSError:
            pass


if MODE == "stillborn" or (MODE == "alone" and COLD):
    say("E", "srv    load_model: failed to load model, 'x.gguf'")
    sys.exit(1)
if MODE == "taken" and not os.path.exists(TRIED := f"{WORDS['--slot-save-path']}tried"):
    open(TRIED, "w").close()
    say("E", f"srv         start: couldn't bind HTTP server socket, hostname: x, port: {WORDS['--port']}")
    sys.exit(1)
say("W", "srv  llama_server: a banner")
say("I", "print_info: EOG token             = 96 '<|endoftext|>'")
say("I", "srv    load_model: initializing, n_slots = 1, n_ctx_slot = 64, kv_unified = 'false'")
ThreadingTCPServer.allow_reuse_address = ThreadingTCPServer.daemon_threads = True
ThreadingTCPServer((WORDS["--host"], int(WORDS["--port"])), Handler).serve_forever()
