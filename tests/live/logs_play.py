"""A real server with logs as users keep them: at default verbosity, at ``-lv 4``, as JSON lines."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from cachesim.base.http_client import ConnectionLost, HttpReply
from cachesim.tools.live.llama_server.answers import read_completion, read_slot
from cachesim.tools.live.llama_server.client import at_once
from cachesim.tools.live.llama_server.process import ServerEnded, StoppedAtEnd
from cachesim.tools.live.llama_server.server import BASE, CONTROL, run_server

LOGS = {"default": (), "lv4": ("-lv", "4"), "jsonl": ("--log-jsonl",)}
"""Log format -> its flags."""
LAUNCH, RELEASE, MARK = b"processing task, is_child", b"stop processing: n_tokens", b"completion id=cachesim-"
WITHIN, POLL = 60.0, 0.002          # seconds until the log shows that all work is done, and between two polls


def base_flags(log):
    """Return the flags of every server, with another verbosity."""
    return (*BASE[: BASE.index("-lv")], *LOGS[log])


class Quiet(StoppedAtEnd):
    """Runs steps like a Recorder, but keeps only answers, and the log with its length after each step.

    ``logs``: for each server start its log, and the number of lines after the start and after each step."""

    def __init__(self, start, log):
        self.start = replace(start, base_flags=base_flags(log))
        self._folder = TemporaryDirectory(prefix="cachesim-logs-")
        self.slots = Path(self._folder.name, "slots")
        self.slots.mkdir()
        self.logs, self.marks, self.server = [], 0, None
        try:
            self._begin(self.start.flags)
        except BaseException:
            self.stop()
            raise

    def stop(self):
        if self.server is not None:
            self.server.stop()
            self.server = None
        self._folder.cleanup()

    def _begin(self, flags):
        if self.server is not None:
            self.server.stop()
        file = Path(self._folder.name, f"{len(self.logs)}.log")
        self.server = run_server(replace(self.start, flags=tuple(flags)), self.slots, file, listen=False)
        self.logs.append((file, []))
        self.flags = tuple(flags)
        self._settle()
        self._place()

    def _place(self):
        file, places = self.logs[-1]
        places.append(file.read_bytes().count(b"\n"))

    def play(self, step):
        """Run a step; return it with its answers, and ``log`` and ``step``: the position in the logs at its end."""
        out = dict(step)
        if step["op"] == "restart":
            self._begin(out.get("flags", self.flags))
        else:
            members = [dict(one) for one in out["steps"]] if out["op"] == "parallel" else [out]
            if out["op"] == "parallel":
                out["steps"] = members
            replies = [None] * len(members)

            def send(n):
                replies[n] = self._send(members[n])

            try:
                at_once([partial(send, n) for n in range(len(members))], lambda: None)
                self._settle()
            except (ConnectionLost, ServerEnded) as error:
                return {**out, "died": {"error": str(error)}}
            for member, reply in zip(members, replies, strict=True):
                if isinstance(reply, HttpReply):
                    read = read_slot if member["op"] == "slot" else read_completion
                    member["response"] = read(reply)
        if step["op"] != "restart":
            self._place()
        return {**out, "log": len(self.logs) - 1, "place": len(self.logs[-1][1]) - 1}

    def _send(self, member):
        server, body = self.server, member["request"]
        if member["op"] == "slot":
            return server.client.slot(body["action"], body["id_slot"], body.get("filename", ""))
        sent = {name: value for name, value in body.items() if name != "cancel_after"}
        if "cancel_after" not in body:
            return server.client.complete(sent)
        before = self._count(LAUNCH)
        server.client.hang_up(sent, body["cancel_after"], lambda: self._until(lambda: self._count(LAUNCH) > before))
        return None

    def _settle(self):
        """Wait until all requests are done and logged. Raise ConnectionLost."""
        self.marks += 1
        name = f"cachesim-{self.marks}"
        self.server.client.post(CONTROL, {"id": name, "action": "reasoning_end"})
        mark = MARK.removesuffix(b"cachesim-") + name.encode() + b","

        def quiet():
            text = self.logs[-1][0].read_bytes()
            return mark in text and text.count(LAUNCH) <= text.count(RELEASE)

        self._until(quiet)

    def _count(self, what):
        return self.logs[-1][0].read_bytes().count(what)

    def _until(self, done):
        stop = time.monotonic() + WITHIN
        while not done():
            if self.server.process.returncode is not None:
                raise ConnectionLost("the server has ended")
            if time.monotonic() > stop:
                raise ConnectionLost("the log does not say that the work is done")
            time.sleep(POLL)
