"""Mutated HTTP replies of a llama-server: status lines, headers, chunks, lengths, JSON bodies and event streams."""

from __future__ import annotations

import json

from tests.hostile.http_server import MODELS, PROPS, SLOTS, URL, answer, head
from tests.hostile.mutant import Mutant
from tests.hostile.nasty import INTEGERS, TEXTS
from tests.hostile.trees import mutated
from tests.hostile.written import flipped, to_json

WAIT = ("--timeout", "0.4")                      # seconds
COMMANDS = (
    ("check", URL, "--requests", "14", "--examples", "1", "--seconds", "3", *WAIT, "--yes"),
    ("check", URL, "--requests", "9", "--examples", "1", "--seconds", "3", *WAIT, "--yes", "--json"),
    ("verify", "A5.B3/A.C2", "--url", URL, *WAIT, "--layers", "GA"),
    ("verify", "A5/B2!/A", "--url", URL, *WAIT, "--json"),
    ("record", "A5.B3/A.C2", "--url", URL, *WAIT, "--layers", "GA", "--out", "made.json"),
)
MADE = ("made.json",)
LAST = 8                                         # number of the last request that gets the reply
STREAM = [answer([5, 6, 7], 1, stream=True), answer([5, 6, 7], 0)]
TREES = (PROPS, PROPS, MODELS, SLOTS, answer([5, 6, 7], 4), answer([5, 6, 7], 4), {"status": "ok"},
         {"error": {"code": 400, "message": "the request exceeds the available context size", "n_ctx": 5}},
         {"choices": [{"text": "a b", "index": 0, "logprobs": {"content": [{"token": "a", "logprob": -1.0}]}}],
          "usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2}}})  # fmt: skip
STATUS = ("200 OK", "200", "200 OK", "200 OK", "204 No Content", "301 Moved", "302 Found", "304 Not Modified",
          "400 Bad Request", "401 Unauthorized", "404 Not Found", "500 Oops", "503 Busy", "100 Continue", "101 Upgrade",
          "999 x", "0 x", "-1", "2000", "", "200 \x1b[31m", "200 " + "x" * 100_000, "\xff")  # fmt: skip
VERSIONS = ("HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/0.9", "HTTP/2", "HTTP/9.9", "ICY", "http/1.1", "")
LINES = (
    "Content-Encoding: gzip", "Content-Encoding: br, gzip", "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity", "Location: http://169.254.169.254/",
    "Location: file:///etc/passwd", "Location: /\x1b[2J", "Connection: close", "Connection: upgrade",
    "Retry-After: 999", "Set-Cookie: a=b; Domain=.", "Content-Type: text/event-stream",
    "Content-Type: x; charset=utf-7", " folded", ":", "", "no colon", "X: " + "y" * 70_000, "\x00: \x00",
    "X\x1b: \x1b", "Content-Length: 5", "Content-Length: -1", "Content-Length: 9999999999999999999999",
    "Content-Length: 0x10", "Content-Length: 3, 3", "Content-Length:",
)  # fmt: skip
CHUNKS = ("0", "-1", "ffffffffffffffff", "1" * 5000, "zz", "5;ext=" + "a" * 5000, "", "+5", "5 ", "0x5")
BODIES = ("", "null", "[]", "{}", "0", '"x"', "<html>", "[" * 100_000, '{"a":' * 5000, "9" * 5000, "data: {}\n\n",
          "\x1f\x8b\x08\x00" + "\x00" * 50, "NaN", "\xff\xfe", " " * 70_000)
BYTES = 0.15                                      # share of replies with changed bytes in addition


def _body(rng):
    """Return the bytes of a body, as characters."""
    how = rng.randrange(14)
    if how == 0:
        return rng.choice(BODIES)
    if how == 1:
        events = [to_json(mutated(json.loads(json.dumps(one)), rng, {"x": STREAM})) for one in STREAM]
        events += rng.choice((["[DONE]"], [], ["x" * 2_000_000], ["{}"] * 1000))
        return "".join(f"{rng.choice(('data: ', 'data: ', 'data:', 'event: ', ''))}{event}\n\n" for event in events)
    tree = json.loads(json.dumps(rng.choice(TREES)))
    text = to_json(mutated(tree, rng, {"x": list(TREES), "texts": list(TEXTS), "numbers": list(INTEGERS)}))
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def pieces_of(rng):
    """Return the pieces of a reply: the head, then the body whole or in chunks."""
    body = _body(rng)
    how = rng.randrange(12)
    if how > 4:                                  # correct HTTP
        return [[head(len(body)), 1], [body, 1]]
    if how == 3:                                 # chunks
        sizes = [rng.choice((f"{len(body):x}", f"{len(body):x}", *CHUNKS)) for _ in range(2)]
        first = head(0).replace("Content-Length: 0", "Transfer-Encoding: chunked")
        return [[first, 1], *([f"{size}\r\n{body}\r\n", rng.choice((1, 1, 100))] for size in sizes), ["0\r\n\r\n", 1]]
    size = rng.choice((len(body), len(body), len(body), rng.choice(INTEGERS)))
    lines = [f"{rng.choice(VERSIONS)} {rng.choice(STATUS)}", f"Content-Length: {size}"]
    lines[1:1] = rng.choices(LINES, k=rng.randrange(4)) * rng.choice((1, 1, 1, 200))
    return [[rng.choice(("\r\n", "\r\n", "\n")).join([*lines, "", ""]), 1], [body, rng.choice((1, 1, 1, 2, 1000))]]


def http(rng, number):
    """Return a command for a server that sends a mutated reply."""
    argv = rng.choice(COMMANDS)
    pieces = pieces_of(rng)
    if rng.random() < BYTES:
        piece = rng.choice(pieces)
        piece[0] = flipped(piece[0].encode("latin-1", "replace"), rng).decode("latin-1")
    reply = {"at": min(rng.randrange(LAST + 1), rng.randrange(LAST + 1)), "pieces": pieces}
    if rng.random() < 0.03:
        reply["pause"] = 0.1
    if rng.random() < 0.05:
        reply["stay"] = True
    return Mutant("http", number, argv, {"reply.json": json.dumps(reply).encode()}, MADE, given_to="http", lines=20)
