"""Recorder: runs steps on a real llama-server and writes a recording.

An input step has the format of a recording (FORMAT.md) without results; the output adds `i`, `response`, `events`,
`cold`, and `racy`, `died` or `stuck` where they apply. Operations: `completion`, `slot`, `parallel` with members in
`steps`, `lora` (the scales of the server's adapters), and `restart`:

    {"op": "restart"}                                  stop and start the server with its current flags
    {"op": "restart", "flags": ["-c", "512", ...]}     start the same binary and model with other flags

A restart loses the slots and the RAM prompt cache and keeps the slot files. Its result has `events: []` and `server`,
the startup values of the new process. `trace()["flags"]` and `["server"]` are those of the first start. After a step
with `died`, or with `stuck`: true (the server decodes empty batches forever), only a restart can follow. Unanswered
requests then have no `response`, and the events end with the second empty batch.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Mapping

from cachesim.base.errors import BadInput
from cachesim.base.files import write_whole
from cachesim.base.http_client import ConnectionLost, HttpReply
from cachesim.engines.llama_cpp.log_events import Entry, read_event, task_numbers
from cachesim.replay.trace_format import ROUNDING
from cachesim.tools.live.llama_server.answers import hung_up, read_completion, read_slot, undelivered
from cachesim.tools.live.llama_server.client import at_once
from cachesim.tools.live.llama_server.cold_server import ask_cold, cold_flags, compare, inexact
from cachesim.tools.live.llama_server.images import Images
from cachesim.tools.live.llama_server.process import ProcessEnd, ServerEnded, StoppedAtEnd, events_of
from cachesim.tools.live.llama_server.server import BASE, LAUNCHED, LlamaServer, ServerStart, ServerStuck, run_server
from cachesim.tools.live.llama_server.tasks import assign, details, lost_tokens, read_tasks, refused_tasks, sent_task

__all__ = ["BASE", "Recorder", "ServerStart", "write_trace"]

MOVED = ("ctx_shift", "reuse_chunk")
BEGUN = (LAUNCHED, "failed to launch slot with")
Step = dict[str, Any]


class Recorder(StoppedAtEnd):
    """A real server and, with ``cold``, a second server without any caching. A context manager, which ends both.

    ``rounding``: largest difference of log-probabilities that is not inexact; ``server``: QuietServer for a build whose
    log is not read. Raise BadInput if the binary cannot be started or does not become healthy; no process is left
    running then."""

    def __init__(self, start: ServerStart, cold: bool = True, rounding: float = ROUNDING,
                 server: type[LlamaServer] = LlamaServer) -> None:  # fmt: skip
        self.start, self.rounding, self._kind = start, rounding, server
        self._with_cold = cold
        self._folder = TemporaryDirectory(prefix="cachesim-live-")
        self._hot: LlamaServer | None = None
        self._cold: LlamaServer | None = None
        self._scales: list[Any] = []                    # last change of the server's adapters, for the cold server
        self._begin()

    def stop(self) -> None:
        """End both servers and remove their files. May be called again."""
        for server in (self._hot, self._cold):
            if server is not None:
                server.stop()
        self._hot = self._cold = None
        self._folder.cleanup()

    def reset(self) -> None:
        """Begin another recording with equal options: restart the server, remove slot files and steps."""
        for file in self.folder.iterdir():
            file.unlink()
        self._begin()

    def _begin(self) -> None:
        self.steps: list[Step] = []
        self.inexact: list[dict[str, Any]] = []
        self._moved, self._flags = False, self.start.flags
        self.images = Images(self.start.flags)
        changed, self._scales = bool(self._scales), []
        self.folder.mkdir(exist_ok=True)
        try:
            self._start_hot()
            self.server = dict(self._running().facts)
            if self._with_cold and (self._cold is None or changed):
                self._start_cold()
        except BaseException:
            self.stop()
            raise

    @property
    def folder(self) -> Path:
        """Folder of the slot files."""
        return Path(self._folder.name, "slots")

    @property
    def log_file(self) -> Path:
        """Log of the recorded server since its last start."""
        return Path(self._folder.name, "hot.log")

    def groups(self) -> list[int]:
        """Return the process groups of the running servers."""
        return [server.process.group for server in (self._hot, self._cold) if server is not None]

    def _start_hot(self) -> None:
        if self._hot is not None:
            self._hot.stop()
            self._hot = None
        start = replace(self.start, flags=self._flags, temporary=Path(self._folder.name))
        self._hot = run_server(start, self.folder, self.log_file, kind=self._kind)
        self._fixed = self._hot.client.fixed

    def _start_cold(self) -> None:
        if self._cold is not None:
            self._cold.stop()
            self._cold = None
        start = replace(self.start, flags=cold_flags(self._flags), temporary=Path(self._folder.name))
        self._cold = run_server(start, self.folder, Path(self._folder.name, "cold.log"), listen=False, kind=self._kind)
        self._cold.client.fixed = self._fixed           # its log is too short to name them
        for scales in self._scales:
            self._cold.client.set_adapters(scales)

    def _running(self) -> LlamaServer:
        if self._hot is None:
            raise BadInput("the server has ended: only a restart can follow")
        return self._hot

    # Steps

    def play(self, step: Step) -> Step:
        """Run a step; return it with its number and results. Raise BadInput for an unsupported step."""
        out: Step = {"i": len(self.steps), **self.images.placed(step)}
        if step["op"] == "restart":
            self._restart(out)
        else:
            self._work(out)
        self.steps.append(self.images.named(out))
        return out

    def post(self, path: str, body: Mapping[str, Any]) -> HttpReply:
        """Send a request that is not a step and wait until the server is idle; return the reply."""
        server = self._running()
        reply = server.client.post(path, dict(body))
        server.settled()
        return reply

    def _restart(self, out: Step) -> None:
        before, self._flags = self._flags, tuple(out.get("flags", self._flags))
        changed, self._scales = bool(self._scales), []
        self._start_hot()
        if self._with_cold and (changed or self._flags != before):
            self._start_cold()
        out["events"], out["server"] = [], dict(self._running().facts)

    def _work(self, out: Step) -> None:
        server, members = self._running(), self._members(out)
        replies: list[Any] = [None] * len(members)

        def send(n: int) -> None:
            replies[n] = self._send(members[n])

        if out["op"] == "parallel" or any("cancel_after" in member["request"] for member in members):
            out["racy"] = True
        try:
            at_once([partial(send, n) for n in range(len(members))], server.await_answers)
            said = server.settled()
        except (ConnectionLost, ServerEnded) as error:
            self._ended(out, members, error)
            return
        except ServerStuck:
            said, out["stuck"] = server.taken(), True
        out["events"] = events_of(said, server.one_slot)
        self._moved |= any(event["ev"] in MOVED for event in out["events"])
        tasks = self._name_tasks(members, replies, said) if server.is_logged else [None for _ in members]
        for member, reply, task in zip(members, replies, tasks, strict=True):
            if reply is not None:
                self._answer(member, reply, said, task)
        if "stuck" in out:
            self._gone()

    def _members(self, out: Step) -> list[Step]:
        """Return the steps that are sent together: the step itself, or its numbered members."""
        if out["op"] == "parallel":
            out["steps"] = [{"i": f"{out['i']}.{n}", **one} for n, one in enumerate(out["steps"])]
            return list(out["steps"])
        if out["op"] not in ("completion", "slot", "lora"):
            raise BadInput(f"operation '{out['op']}' cannot be run on a real server")
        return [out]

    def _send(self, member: Step) -> Any:
        """Send a request; return an HttpReply, or the tokens received before a disconnect."""
        server, body = self._running(), member["request"]
        if member["op"] == "slot":
            return server.client.slot(body["action"], body["id_slot"], body.get("filename", ""))
        if member["op"] == "lora":
            return server.client.set_adapters(body["set"])
        sent = {name: value for name, value in body.items() if name != "cancel_after"}
        sent["prompt"] = self.images.wire(body["prompt"])
        if "cancel_after" in body:
            return server.client.hang_up(sent, body["cancel_after"], server.ear(BEGUN))
        return server.client.complete(sent)

    def _name_tasks(self, members: list[Step], replies: list[Any], said: list[Entry],
                    ended: bool = False) -> list[int | None]:  # fmt: skip
        """Return the log task of each member; add the details that only the log contains to the member. ``ended``: the
        process ended and may not have logged the last launches."""
        tasks = read_tasks(said)
        events = [event for event in map(read_event, said) if event is not None]
        sent = [sent_task(member, reply) for member, reply in zip(members, replies, strict=True)]
        numbers, known, refused = task_numbers(events), assign(sent, tasks), refused_tasks(said, sent)
        for member, reply, task in zip(members, replies, known, strict=True):
            if task is None and "cancel_after" in member["request"] and len(members) > 1 and not ended:
                refused -= 1                    # a refused task left the queue
                if refused < 0:
                    member["launched"] = False
            elif task is not None:
                answered = reply is not None and not lost_tokens(member, reply, tasks[task])
                member.update(details(tasks[task], numbers.get(task) if len(numbers) > 1 else None, answered))
        return known

    def _answer(self, member: Step, reply: Any, said: list[Entry], task: int | None) -> None:
        if member["op"] in ("slot", "lora"):
            member["response"] = read_slot(reply)
            if member["op"] == "lora":
                self._scales = [member["request"]["set"]]
                if self._cold is not None:
                    self._cold.client.set_adapters(*self._scales)
        elif not isinstance(reply, HttpReply):
            member["response"] = hung_up(reply, member["request"], said, task)
        else:
            member["response"] = read_completion(reply)
            if reply.status == 200 and self._cold is not None:
                self._compare(member, reply)

    def _ended(self, out: Step, members: list[Step], error: ConnectionLost | ServerEnded) -> None:
        """Record that the process ended in this step: without answers, and with the events up to its end."""
        server = self._running()
        died: ProcessEnd = error.died if isinstance(error, ServerEnded) else server.died()
        said = server.taken()
        out["events"] = events_of(said, server.one_slot)
        self._name_tasks(members, [None] * len(members), said, ended=True)
        out["died"] = {"error": str(error), "returncode": died.returncode, "fatal": list(died.fatal), "frames": []}
        self.inexact.append({"i": out["i"], "died": True, "shifted": self._moved})
        self._gone()

    def _gone(self) -> None:
        """Stop the recorded server, which can no longer be used."""
        self._running().stop()
        self._hot = None

    # The comparison with a cold answer

    def _compare(self, member: Step, reply: HttpReply) -> None:
        bodies = reply.body if isinstance(reply.body, list) else [reply.body]
        cold = self._ask_cold(member["request"])
        if cold is None:
            return
        member["cold"] = self._judge(member, bodies[0], cold, {})
        member["response"].update(undelivered(bodies[0], member["request"], self._ask_cold))
        for child, body in zip(member["response"].get("completions", ()), bodies[1:], strict=True):
            child["cold"] = self._judge(member, body, cold, {"child": child["index"]})

    def _judge(self, member: Step, body: Mapping[str, Any], cold: dict[str, Any], which: Step) -> Step:
        found = compare(body, cold)
        if not found["equal"]:
            self._start_cold()                  # rule out state left in the cold server
            fresh = self._ask_cold(member["request"])
            found = {**compare(body, fresh or cold), "confirmed_fresh_process": fresh is not None}
        if inexact(found, self.rounding):
            kept: Step = {name: found[name] for name in ("equal", "first_diff", "max_dlogprob") if name in found}
            self.inexact.append({"i": member["i"], **which, "shifted": self._moved, **kept})
        return found

    def _ask_cold(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        assert self._cold is not None
        try:
            return ask_cold(self._cold.client, {**request, "prompt": self.images.wire(request["prompt"])})
        except ConnectionLost:
            self._start_cold()
            return None

    # The recording

    def trace(self, name: str = "", **more: Any) -> dict[str, Any]:
        """Return header and steps so far in the format of a recording; ``more``: further header fields."""
        start = self.start
        return {"engine": "llama.cpp", "commit": start.commit, "model": start.gguf.name, "name": name,
                "workload": name, "seed": 0, "note": None, "flags": list(start.flags),
                "base_flags": list(start.base_flags), "env": {}, **({} if self._kind.is_logged else {"log": False}),
                **self.images.header(), **more, "server": self.server,
                "inexact": self.inexact, "steps": self.steps}  # fmt: skip


def write_trace(trace: dict[str, Any], path: Path) -> None:
    """Write a recording: the header on the first line, then a line per step."""
    head = {name: value for name, value in trace.items() if name != "steps"}
    steps = ",\n".join(json.dumps(step, separators=(",", ":")) for step in trace["steps"])
    text = f'{json.dumps(head, separators=(",", ":"))[:-1]},"steps":[\n{steps}\n]}}\n'
    write_whole(path, text.encode("utf-8"))
