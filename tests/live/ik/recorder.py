"""Recorder for ik_llama.cpp: runs steps on a real server and records the results.

Its steps are those of ``cachesim.tools.live.llama_server.recorder``. A group whose members differ only in their prompts
can be sent as a SINGLE request (``one_request``): all start in the same round then, so nothing depends on time.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost, HttpReply
from cachesim.engines.llama_cpp.log_events import numbered, task_numbers
from cachesim.tools.live.llama_server.client import at_once
from cachesim.tools.live.llama_server.cold_server import inexact
from cachesim.tools.live.llama_server.process import ServerEnded, StoppedAtEnd
from tests.live.ik import answers
from tests.live.ik.log import DECODE, LAUNCHED, read_event
from tests.live.ik.models import name_of
from tests.live.ik.order import in_order
from tests.live.ik.server import LOST, cold_start, run_server
from tests.live.ik.together import as_one

_TASK = re.compile(r"(?<!\w)id_task=(\d+)")
MOVED = ("ctx_shift",)
FIRST = 101                 # first token of words
COLD = ("prompt", "n_predict", "n_keep", "n_discard")


class Recorder(StoppedAtEnd):
    """A real server and a second server without any caching. ``rounding``: largest difference of log-probabilities that
    is not inexact. ``lists``: the second server gets ``cache_prompt`` true, after a prompt with another beginning; with
    false a context shift does not update the slot's list, and its own answer is wrong."""

    def __init__(self, start, rounding, lists=False):
        self.start, self.rounding, self.lists = start, rounding, lists
        self._folder = TemporaryDirectory(prefix="cachesim-ik-")
        self._hot = self._cold = None
        self.reset()

    def stop(self):
        for server in (self._hot, self._cold):
            if server is not None:
                server.stop()
        self._hot = self._cold = None
        self._folder.cleanup()

    def reset(self):
        """Begin another recording with equal options."""
        if self._cold is not None and self._flags != self.start.flags:
            self._cold.stop()
            self._cold = None
        self.steps, self.inexact, self._moved, self._flags = [], [], False, self.start.flags
        self.folder.mkdir(exist_ok=True)
        for file in self.folder.iterdir():
            file.unlink()
        try:
            self._start_hot()
            self.server = dict(self._hot.facts)
        except BaseException:
            self.stop()
            raise

    @property
    def folder(self):
        """Folder of the slot files."""
        return Path(self._folder.name, "slots")

    @property
    def log_file(self):
        """Output of the server since its last start."""
        return Path(self._folder.name, "hot.log")

    def _start_hot(self):
        if self._hot is not None:
            self._hot.stop()
            self._hot = None
        self._hot = run_server(replace(self.start, flags=self._flags), self.folder, self.log_file)

    def _start_cold(self):
        if self._cold is not None:
            self._cold.stop()
            self._cold = None
        start = cold_start(replace(self.start, flags=self._flags))
        self._cold = run_server(start, self.folder, Path(self._folder.name, "cold.log"))

    # Steps

    def play(self, step):
        """Run a step; return it with its number and results."""
        out = {"i": len(self.steps), **(step if self._hot is None or self._hot.one_slot else as_one(step))}
        if step["op"] == "restart":
            before, self._flags = self._flags, tuple(out.get("flags", self._flags))
            self._start_hot()
            if self._cold is not None and self._flags != before:
                self._start_cold()
            out["events"], out["server"] = [], dict(self._hot.facts)
        else:
            self._work(out)
        self.steps.append(out)
        return out

    def _work(self, out):
        members = [out]
        if out["op"] == "parallel":
            out["steps"] = members = [{"i": f"{out['i']}.{n}", **one} for n, one in enumerate(out["steps"])]
        together = bool(out.get("one_request"))
        racy = (out["op"] == "parallel" and not together) or any("cancel_after" in one["request"] for one in members)
        if racy:
            out["racy"] = True
        try:
            replies = self._asked(members, together)
            before = self._hot.looked
            said = [_renumbered(entry, before - 1) for entry in self._hot.settled(look=racy or LOST in replies)]
        except (ConnectionLost, ServerEnded) as error:
            self._ended(out, error)
            return
        self._hear(out, members, replies, said)

    def _asked(self, members, together):
        """Return the replies; for a request with several prompts a part for each, or the refusal for all."""
        if together:
            body = {**members[0]["request"], "prompt": [member["request"]["prompt"] for member in members]}
            reply = self._hot.client.complete(body)
            parts = reply.body if reply.status == 200 else [reply.body] * len(members)
            return [HttpReply(reply.status, part) for part in parts]
        replies = [None] * len(members)

        def send(n):
            replies[n] = self._send(members[n])

        at_once([partial(send, n) for n in range(len(members))], self._hot.listen)
        return replies

    def _send(self, member):
        client, body = self._hot.client, member["request"]
        if member["op"] == "slot":
            return client.slot(body["action"], body["id_slot"], body.get("filename", ""))
        sent = {name: value for name, value in body.items() if name != "cancel_after"}
        if "cancel_after" in body:
            self._bound(body)
            sent["n_predict"] = body["n_predict"]
            return client.hang_up(sent, body["cancel_after"], lambda: None)
        return client.complete(sent)

    def _bound(self, body):
        """Change a request whose client disconnects so that it can be replayed: a disconnect before the first token
        ends the rounds of all others, and a full context has its own end."""
        body["cancel_after"] = max(1, body["cancel_after"])
        room = self._hot.facts["n_ctx_slot"] - 2 - len(body["prompt"])
        body["n_predict"] = max(1, min(body["n_predict"], room))

    def _hear(self, out, members, replies, said):
        events = list(_with_tasks((read_event(entry), entry) for entry in in_order(said)))
        out["events"] = self._numbered(event for event, _ in events)
        if not self._hot.one_slot:
            out["decodes"] = list(_decodes(events))
        self._moved |= any(event["ev"] in MOVED for event in out["events"])
        tasks = answers.read_tasks(said)
        bodies = [one.body if isinstance(one, HttpReply) and one.status == 200 else None for one in replies]
        if len(members) == len(tasks) == 1:
            known = [*tasks]
        elif out.get("one_request"):
            known = [*sorted(tasks), *[None] * len(members)][: len(members)]
        else:
            known = answers.find_tasks(members, bodies, tasks)
        numbers = task_numbers([event for event, _ in events if event is not None])
        for member, reply, number in zip(members, replies, known, strict=True):
            if number is not None and len(numbers) > 1:
                member["task"] = numbers[number]
            self._answer(member, reply, tasks.get(number))

    def _numbered(self, events):
        return numbered([event for event in events if event is not None], self._hot.one_slot)

    def _answer(self, member, reply, task):
        if member["op"] == "slot":
            member["response"] = answers.read_slot(reply)
        elif not isinstance(reply, HttpReply):
            self._hung_up(member, reply, task)
        elif reply.status != 200:
            member["response"] = answers.read_error(reply)
            if task is not None and task.tokens:
                member["generated"] = task.tokens
        else:
            member["response"] = answers.read_answer(reply.body, task)
            self._compare(member, reply.body)

    def _hung_up(self, member, seen, task):
        if task is None:
            member["launched"], member["response"] = False, {"cancelled": True, "tokens": []}
            return
        request = member["request"]
        member["response"] = answers.hung_up(seen, request, task)
        if len(task.tokens) == request["n_predict"]:
            member["generated"] = task.tokens               # it ended before the server noticed
        elif task.end is not None:
            request["cancel_at_n"] = task.end

    def _ended(self, out, error):
        """Record that the process ended in this step."""
        died = error.died if isinstance(error, ServerEnded) else self._hot.died()
        out["events"] = self._numbered(map(read_event, in_order(self._hot.taken())))
        out["died"] = {"error": str(error), "returncode": died.returncode, "fatal": list(died.fatal), "frames": [],
                       "tail": _tail(self.log_file)}  # fmt: skip
        self.inexact.append({"i": out["i"], "died": True, "shifted": self._moved})
        self._hot.stop()
        self._hot = None

    # The comparison with a cold answer

    def _compare(self, member, body):
        response, cold = member["response"], self._ask_cold(member["request"])
        if cold is None:
            return
        found = answers.compare(response["tokens"], body, cold)
        if not found["equal"]:
            self._start_cold()                  # rule out state left in the cold server
            fresh = self._ask_cold(member["request"])
            found = {**answers.compare(response["tokens"], body, fresh or cold), "confirmed_fresh_process": True}
        member["cold"] = found
        if answers.is_tie(found, self.rounding):
            found["tie"], found["tie_margin"] = True, found.pop("cold_margin")
        elif inexact(found, self.rounding):
            kept = {name: found[name] for name in ("equal", "first_diff", "max_dlogprob") if name in found}
            self.inexact.append({"i": member["i"], "shifted": self._moved, **kept})
        held = response["tokens_cached"] - response["tokens_evaluated"]
        if "draft_n" in response and not response["truncated"] and held >= len(response["tokens"]):
            longer = self._ask_cold({**member["request"], "n_predict": held})
            response |= {"tokens_incomplete": True, "tokens_in_slot": answers.cold_tokens(longer)}

    def _ask_cold(self, request):
        if self._cold is None:
            self._start_cold()
        body = {name: request[name] for name in COLD if name in request}
        try:
            if self.lists:
                other = {"prompt": [FIRST + (request["prompt"][:1] == [FIRST])], "n_predict": 1}
                self._cold.client.complete({**other, "cache_prompt": False, "id_slot": 0})
            reply = self._cold.client.complete({**body, "cache_prompt": self.lists, "id_slot": 0})
        except ConnectionLost:
            self._start_cold()
            return None
        return reply.body if reply.status == 200 else None

    # The recording

    def trace(self, name=""):
        """Return header and steps so far in the format of a recording."""
        start = self.start
        return {
            "engine": "ik_llama.cpp", "commit": start.commit, "model": f"{name_of(start.gguf)}.gguf", "name": name,
            "workload": name, "seed": 0, "note": None, "flags": list(start.flags),
            "base_flags": list(start.base_flags), "env": {}, "server": self.server, "inexact": self.inexact,
            "steps": self.steps,
        }  # fmt: skip


def _tail(log):
    """Return the last lines of a log, without those of the server's own rounds."""
    lines = [line for line in log.read_text("utf-8", "replace").split("\n") if not line.startswith(("VERB", "INFO"))]
    return [line[:200] for line in lines[-40:]]


def _renumbered(entry, asked):
    """Return the entry with a task number that excludes the recorder's own tasks."""
    if entry.text != "task error":
        return entry
    return entry._replace(tail=_TASK.sub(lambda found: f"id_task={int(found[1]) - asked}", entry.tail))


def _with_tasks(events):
    """Return the events; a verified draft, whose line names its slot, gets the task of the slot."""
    at_work = {}
    for event, entry in events:
        if event is not None and event["ev"] == "launch":
            at_work[event["slot"]] = event["task"]
        if event is not None and event["ev"] == "spec_step":
            event["task"] = at_work.get(event["slot"])
        yield event, entry


def _decodes(events):
    """Return every decoded batch: events of this step before it, and its tokens."""
    before = 0
    for event, entry in events:
        before += event is not None
        if entry.text == DECODE:
            yield [before, entry.fields["n_tokens"]]


__all__ = ["LAUNCHED", "BadInput", "Recorder"]
