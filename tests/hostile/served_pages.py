"""Mutated input of the commands that serve: cases of the playground, and connections that `watch` relays."""

from __future__ import annotations

import json

from cachesim.base import limits
from cachesim.base.console import complain, say_json
from cachesim.tools.playground.case import answer
from cachesim.tools.playground.worker import LIMITS
from cachesim.tools.watch.exchanges import Connections
from cachesim.tools.watch.frames import CLIENT_ENDS, REPLY, REQUEST, SERVER_ENDS, Frame
from cachesim.tools.watch.held_bytes import HeldBytes
from cachesim.tools.watch.joined_rows import JoinedRows
from cachesim.tools.watch.recent_bodies import RecentBodies
from cachesim.tools.watch.report import row_text
from tests.hostile.bodies import BODIES
from tests.hostile.http_replies import pieces_of
from tests.hostile.lines import LINES, MODELS, bent_line
from tests.hostile.mutant import Mutant
from tests.hostile.nasty import TEXTS
from tests.hostile.trees import mutated
from tests.hostile.written import flipped, to_json

PATHS = ("/completion", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/tokenize")
PROFILES = (
    "llama_cpp@b11549",
    "llama_cpp@b10587",
    "llama_cpp@b9518",
    "vllm@0.33.0",
    "mlx_lm@0.31.0",
    "sglang@0.5.23",
    "ik_llama@main",
)
FLAGS = ("", "-np 2", "-c 512 -np 1", "--ctx-checkpoints 3", "--cache-ram 0")
SOUND = 0.5  # share of the mutants whose bytes are well formed


def page(rng, number):
    """Return the fields that a page of the playground sends."""
    profiles = rng.sample(PROFILES, rng.randrange(1, 3))
    flags = rng.choice(FLAGS) if profiles[0].startswith("llama_cpp") else ""
    fields = {"line": rng.choice(LINES), "model": rng.choice((*MODELS, "", "")), "flags": flags, "profiles": profiles}
    if rng.random() > SOUND:
        fields["line"] = bent_line(rng)
        fields = mutated(fields, rng, {"x": [{"flags": "--model /etc/passwd"}, {"profiles": ["x.py"]}, list(TEXTS)]})
    data = to_json(fields).encode("utf-8", "surrogatepass")
    return Mutant("playground", number, (), {"fields.json": data}, given_to="playground")


def answered_page(mutant):
    """Print the answer to a page. Return 0 for a result, 2 for an error."""
    limits.lift({limit.name: most for limit, most in LIMITS.items()})
    try:
        found = answer(json.loads(mutant.data))
    except (ValueError, RecursionError) as error:  # the application refuses it before
        complain(type(error).__name__)
        return 2
    if "error" in found:
        complain(found["error"][:200])
        return 2
    say_json(found)
    return 0


def connection(rng, number):
    """Return the bytes of a client and of a server, in the pieces in which a relay reads them."""
    body = json.loads(json.dumps(rng.choice(BODIES)))
    if rng.random() > SOUND:
        body = mutated(body, rng, {"x": list(BODIES)})
    data = to_json(body).encode("utf-8", "surrogatepass")
    size = len(data) if rng.random() < 0.9 else rng.choice((0, -1, len(data) + 9, 10**12))
    request = f"POST {rng.choice(PATHS)} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n".encode() + data
    if rng.random() > SOUND:
        request = flipped(request, rng)
    replies = [text.encode("latin-1", "replace") * min(times, 20) for text, times in pieces_of(rng)]
    frames = [[REQUEST, request], *([REPLY, reply] for reply in replies)]
    if rng.random() < 0.1:
        rng.shuffle(frames)
    given = json.dumps([[kind, piece.decode("latin-1")] for kind, piece in frames]).encode()
    return Mutant("relay", number, (), {"frames.json": given}, given_to="relay")


def analysed(mutant):
    """Print the rows of a connection. Return 0 if there is one, 2 if there is none."""
    joined, rows, held = JoinedRows(RecentBodies(), False), [], HeldBytes()
    connections = Connections(joined.sent, lambda exchange: rows.extend(joined.ended(exchange)), held)
    pieces = [(kind, text.encode("latin-1")) for kind, text in json.loads(mutant.data)]
    for kind, data in (*pieces, (CLIENT_ENDS, b""), (SERVER_ENDS, b"")):
        connections.read(Frame(kind, 1, data))
    for row in rows:
        print(json.dumps(row), row_text(row))
    if not rows:
        complain("no row")
    return 0 if rows else 2
