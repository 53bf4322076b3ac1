"""A running server of ik_llama.cpp with its client and log; requests wait until it is idle again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost, HttpReply, ReplyLate
from cachesim.engines.ik_llama.memory.model_layout import model_kind
from cachesim.tools.live.llama_server.client import Client
from cachesim.tools.live.llama_server.process import Process, ProcessEnd, ServerEnded, StoppedAtEnd
from cachesim.tools.live.llama_server.reply_shapes import read
from cachesim.tools.live.llama_server.server import DEAD_WITHIN, IDLE_WITHIN, PORTS, START_WITHIN, TAKEN, alias
from tests.live.ik.log import DECODE, IDLE, LAUNCHED, LOOKED, VERBOSE, Entry, read_line
from tests.live.ik.models import name_of

COMMIT = "8337e4c"
BASE = ("-t", "1", "-tb", "1", "-fa", "off", "--no-warmup", *VERBOSE)
"""One thread, F16 K/V: the arithmetic of a single slot is reproducible. Full logging."""
TEMPLATE = ("--jinja", "--chat-template", "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
"""A chat template without a system role: its message about a system message goes through the log's queue. Prompts are
tokens, so the template affects nothing else."""
HTTP_THREADS = 64
SLOT_WITHIN = 1.0           # seconds within which a slot action is answered, if at all
MARK = "Removing system prompt due to template not supporting system role"
LOST = HttpReply(0, None)
"""A slot action was done without an answer: its task is queued before the server waits for the result."""


ENDS, SPACES = (96, 98), (0, 95)
"""Tokens that are never generated: the end of a turn, which ``ignore_eos`` allows and which would end an answer; and,
as some tokens of the model have no text, spaces, for which the server mistakes other tokens."""


class IkClient(Client):
    """HTTP client for ik_llama.cpp, whose streams contain texts instead of tokens. ``never``: tokens it must not
    generate."""

    never, shape = ENDS, staticmethod(read({}))

    def complete(self, body):
        if body["prompt"] == []:                # an empty list means no prompts, which is refused
            body = {**body, "prompt": ""}
        return super().complete({**self._bias(), **body})

    def hang_up(self, body, after, launched):
        return super().hang_up({**self._bias(), **body}, after, launched)

    def _bias(self):
        return {"logit_bias": [[token, False] for token in self.never]}

    def tokens_in(self, line):
        if not line.startswith("data: ") or line == "data: [DONE]":
            return []
        body = json.loads(line.removeprefix("data: "))
        return [] if body.get("stop") or "content" not in body else [0]

    def slot(self, action, id_slot, filename=""):
        body = {"filename": filename} if filename else {}
        try:
            return self.post(f"/slots/{id_slot}?action={action}", body, SLOT_WITHIN)
        except ReplyLate:
            return LOST


class IkServer(StoppedAtEnd):
    """A process with its client and its log. ``facts``: values logged at startup."""

    def __init__(self, start, folder, log):
        self.process = Process(lambda port: _command(start, port, folder), log)
        try:
            words = model_kind(name_of(start.gguf).removeprefix("tiny-")).words
            self.client, self.log, self.offset, self.said = IkClient(self.process.url), log, 0, []
            self.open, self.idle, self.marks, self.looked = set(), False, 0, 0
            self.client.never = ENDS if words else ENDS + SPACES
            self.process.wait(partial(self.client.healthy, alias(self.process.port)), START_WITHIN, "loading the model")
            self.facts = facts_of(self.settled(look=True))
        except BaseException:
            self.stop()
            raise

    @property
    def one_slot(self):
        """True if it has a single slot."""
        return self.facts.get("n_slots") == 1

    def listen(self):
        """Read new messages of the log."""
        with self.log.open("rb") as stream:
            stream.seek(self.offset)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        for line in whole.decode("utf-8", "replace").split("\n")[:-1]:
            self._hear(read_line(line))

    def _hear(self, entry):
        if entry.text == LAUNCHED:
            self.open.add(entry.fields["id_task"])
            self.idle = False
        elif entry.text == "slot released":
            self.open.discard(entry.fields["id_task"])
            self.idle = False
        elif entry.text == IDLE:
            self.idle = True
        elif entry.text == LOOKED and entry.level == "INFO":
            self.looked += 1
            self.idle = False
        elif entry.text == DECODE:
            self.idle = False
        self.marks += entry.text == MARK
        self.said.append(entry)

    def taken(self):
        """Return the messages since the last call."""
        self.listen()
        said, self.said = self.said, []
        return [entry for entry in said if entry.text != MARK]

    def settled(self, look=False):
        """Wait until no slot works; return the messages since the last call. Raise Ended.

        With ``look`` a request is queued after all pending work. Then a chat is requested whose warning goes through
        the log's queue: once it is logged, the log of everything before is complete."""
        try:
            before = self.looked
            if look:
                self.client.get("/slots")
            self._until(lambda: self.idle and not self.open and self.looked >= before + look)
            marks = self.marks
            self.client.post("/apply-template", {"messages": [{"role": "system", "content": "cachesim"}]})
        except ConnectionLost:
            raise ServerEnded(self.died()) from None
        self._until(lambda: self.marks > marks)
        return self.taken()

    def _until(self, done):
        def look():
            self.listen()
            return done()

        self.process.wait(look, IDLE_WITHIN, "the work in hand")

    def died(self) -> ProcessEnd:
        """Wait for the end of the process after its connection broke; return how it ended."""
        self.process.wait(lambda: self.process.returncode is not None, DEAD_WITHIN, "ending")
        return self.process.died()

    def stop(self):
        if hasattr(self, "client"):
            self.client.close()
        self.process.stop()


def _command(start, port, folder):
    """Return the command line; ``stdbuf`` makes the server write every line at once."""
    stdbuf = shutil.which("stdbuf")
    words = [*start.command(port, folder), "--threads-http", str(HTTP_THREADS), "--log-disable", *TEMPLATE]
    return [stdbuf, "-o1M", *words] if stdbuf else words


def facts_of(said: list[Entry]):
    """Return the server's facts for a recording's header, from its startup lines."""
    out = {"n_swa": 0, "seq_rm": "partial"}
    for entry in said:
        if entry.text in ("initializing slots", "new slot"):
            fields = entry.fields
            out |= {name: fields[name] for name in ("n_slots", "n_ctx_slot") if name in fields}
        name, _, number = entry.text.partition("=")
        word = name.split()[-1] if name.split() else ""
        if word in ("n_batch", "n_ubatch", "n_swa") and name.startswith("ll") and number.strip().isdigit():
            out[word] = int(number)
    return out


def run_server(start, folder, log):
    """Start a server, again if another process took its port. Raise BadInput with its last message."""
    for _ in range(PORTS):
        try:
            return IkServer(start, folder, log)
        except ServerEnded as error:
            said = str(error)
            lines = log.read_text("utf-8", "replace").splitlines()
            if not any(TAKEN in line for line in lines):
                break
    why = next((line for line in reversed(lines) if "ERR" in line or "error" in line), said)
    raise BadInput(f"the server ended when it started: {why}", file=str(start.binary))


def cold_start(start):
    """Return the start of the server without a cache."""
    words = iter(start.flags)
    kept = []
    for word in words:
        if word == "--spec-type":
            next(words, None)
        else:
            kept.append(word)
    return replace(start, flags=(*kept, "--cache-ram", "0", "--ctx-checkpoints", "0"))
