"""A server of ik_llama.cpp under way: started, asked, and heard until it is idle again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial

from cachesim.base.errors import BadInput
from cachesim.engines.ik_llama.memory.model_layout import model_kind
from cachesim.tools.live.llama_server.client import Client, ConnectionLost, HttpReply
from cachesim.tools.live.llama_server.process import Died, Ended, Process, StoppedAtEnd
from cachesim.tools.live.llama_server.server import DEAD_WITHIN, IDLE_WITHIN, PORTS, START_WITHIN, TAKEN, alias
from tests.live.ik.log import DECODE, IDLE, LAUNCHED, LOOKED, VERBOSE, Entry, read_line
from tests.live.ik.models import name_of

COMMIT = "8337e4c"
BASE = ("-t", "1", "-tb", "1", "-fa", "off", "--no-warmup", *VERBOSE)
"""One thread, F16 K/V: the arithmetic of one slot repeats exactly. Everything is logged."""
TEMPLATE = ("--jinja", "--chat-template", "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
"""A chat template without a system role: what it says of a system message goes through the log's queue. Prompts are
tokens, so that nothing else depends on it."""
HTTP_THREADS = 64
SLOT_WITHIN = 1.0           # seconds in which a slot action is answered that is answered at all
MARK = "Removing system prompt due to template not supporting system role"
LOST = HttpReply(0, None)
"""A slot action was done and its answer never sent: its task is queued before the server waits for the result."""


ENDS, SPACES = (96, 98), (0, 95)
"""Tokens that are never generated: ``ignore_eos`` leaves the end of a turn as it is, which would end an answer too; and
where our model's tokens have no texts, spaces, by which the server takes other tokens for the same text."""


class IkClient(Client):
    """HTTP to ik_llama.cpp, whose streams hold texts and no tokens. ``never``: tokens that it does not generate."""

    never = ENDS

    def complete(self, body):
        if body["prompt"] == []:                # a list without numbers is one of no prompts, which is refused
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
        path, body = f"/slots/{id_slot}?action={action}", {"filename": filename} if filename else {}
        try:
            response = self._client.post(path, json=body, timeout=SLOT_WITHIN)
        except self._httpx.TimeoutException:
            return LOST
        except self._httpx.TransportError as error:
            raise ConnectionLost(repr(error)) from None
        return HttpReply(response.status_code, response.json())


class IkServer(StoppedAtEnd):
    """One process with its client and its log. ``facts`` is what it said of itself when it started."""

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
        """Read on in the log."""
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
        """Return what was logged since the last call."""
        self.listen()
        said, self.said = self.said, []
        return [entry for entry in said if entry.text != MARK]

    def settled(self, look=False):
        """Return what was logged since the last call, as soon as no slot works any more. Raise Ended.

        With ``look`` a question is put behind everything that is still to be done. Then a chat is asked for of which a
        warning goes into the log by way of the queue: when it stands there, so does everything before."""
        try:
            before = self.looked
            if look:
                self.client.get("/slots")
            self._until(lambda: self.idle and not self.open and self.looked >= before + look)
            marks = self.marks
            self.client.post("/apply-template", {"messages": [{"role": "system", "content": "cachesim"}]})
        except ConnectionLost:
            raise Ended(self.died()) from None
        self._until(lambda: self.marks > marks)
        return self.taken()

    def _until(self, done):
        def look():
            self.listen()
            return done()

        self.process.wait(look, IDLE_WITHIN, "the work in hand")

    def died(self) -> Died:
        """How it ended, waiting for its end if the connection broke just now."""
        self.process.wait(lambda: self.process.returncode is not None, DEAD_WITHIN, "ending")
        return self.process.died()

    def stop(self):
        if hasattr(self, "client"):
            self.client.close()
        self.process.stop()


def _command(start, port, folder):
    """The command line; ``stdbuf`` lets the server write every line at once, however long."""
    stdbuf = shutil.which("stdbuf")
    words = [*start.command(port, folder), "--threads-http", str(HTTP_THREADS), "--log-disable", *TEMPLATE]
    return [stdbuf, "-o1M", *words] if stdbuf else words


def facts_of(said: list[Entry]):
    """What a recording's header says of the server, from the lines of its start."""
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
    """Start a server; again, if somebody else took its port meanwhile. Raise BadInput with what it said last."""
    for _ in range(PORTS):
        try:
            return IkServer(start, folder, log)
        except Ended as error:
            said = str(error)
            lines = log.read_text("utf-8", "replace").splitlines()
            if not any(TAKEN in line for line in lines):
                break
    why = next((line for line in reversed(lines) if "ERR" in line or "error" in line), said)
    raise BadInput(f"the server ended when it started: {why}", file=str(start.binary))


def cold_start(start):
    """The start of the server without a cache."""
    words = iter(start.flags)
    kept = []
    for word in words:
        if word == "--spec-type":
            next(words, None)
        else:
            kept.append(word)
    return replace(start, flags=(*kept, "--cache-ram", "0", "--ctx-checkpoints", "0"))
