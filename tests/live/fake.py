"""A recorder without a server: the simulator answers under a rule set, with tokens of a toy model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from cachesim.engines.llama_cpp.flags import read_flags
from cachesim.engines.registry import commits, engine_of
from cachesim.events import Log
from cachesim.model.hash_mixing import mix_int
from cachesim.replay.event_owners import RequestEvents
from cachesim.replay.recorded_answers import FIELDS
from cachesim.replay.recorded_requests import make_request, scales_text
from cachesim.replay.replay import records
from cachesim.tools.live.llama_server.images import Images
from cachesim.tools.replay.command import checker

COMMIT_OF = {name: commit for commit, name in commits().items()}


def spoken(prompt, count):
    """Return the toy model's answer, which depends on the whole text and uses only words of the tiny vocabulary."""
    said, state = [], 0
    for token in prompt:
        state = mix_int(state ^ token)
    for _ in range(count):
        said.append(state % 320)
        state = mix_int(state)
    return said


class Fake:
    """Has the interface of cachesim.tools.live.llama_server.recorder.Recorder. ``table`` replaces the rules, to plant a
    fault."""

    rounding = 0.0

    def __init__(self, profile, model, flags, table=None):
        self.profile, self.model, self.flags = profile, model, list(flags)
        self.kit = engine_of(profile)
        self.table = table or self.kit.profiles[profile]
        self.folder = TemporaryDirectory(prefix="cachesim-")
        self.resets = -1
        self.reset()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.folder.cleanup()

    def reset(self):
        self.resets += 1
        self.steps, self.inexact, self.images = [], [], Images(self.flags)
        self._start(self.flags)

    def _start(self, flags):
        self.options = read_flags(list(flags)).options
        self.server = self.kit.start(self.table, self.model, self.options, "provenance", Log())
        self.check = checker()

    def play(self, step):
        step = {"i": len(self.steps), **self.images.placed(step)}
        log, first = self.server.log, len(self.server.log.events)
        if step["op"] == "restart":
            self._start(step.get("flags", self.flags))
            self.steps.append(step | {"events": []})
            return self.steps[-1]
        if step["op"] == "slot":
            body = step["request"]
            file = Path(self.folder.name) / body["filename"] if "filename" in body else None
            step["response"] = self.server.slot(body["action"], body["id_slot"], file)
        elif step["op"] == "lora":
            step["response"] = self.server.set_adapters(scales_text(step["request"]["set"]))
        else:
            self._send(step)
        tasks = len({event.task for event in log.events[first:] if getattr(event, "task", None) is not None}) > 1
        one = self.server.core.settings.n_slots == 1
        step["events"] = records(log.events[first:], one, self.table.silent, tasks, self.table.unlogged)
        self.steps.append(self.images.named(step))
        return step

    def _send(self, step):
        members = step.get("steps", [step])
        asked = []
        for number, member in enumerate(members):
            body = member["request"]
            said = spoken(body["prompt"], body["n_predict"])
            request = make_request("completion", body, {"tokens": said}, RequestEvents(()))
            if "cancel_after" in body:
                request = replace(request, cancel_at=max(1, len(body["prompt"]) + body["cancel_after"] - 1))
            for _ in range(member.get("after", 0)):
                self.server.iterate()
            asked.append((f"{step['i']}.{number}", member, request, self.server.submit(request)))
        while self.server.working:
            self.server.take_tasks()
            self.server.update()
        for name, member, request, answer in asked:
            self._answered(step, name, member, request, answer)
        if len(members) > 1:
            step["racy"] = True

    def _answered(self, step, name, member, request, answer):
        member["i"] = member.get("i", name)
        if not (answer.done or answer.died):
            step["stuck"] = True
            return
        reply = {"status": answer.status, "tokens": answer.tokens}
        reply |= {field: getattr(answer, field) for field in FIELDS}
        if answer.status != 200:
            reply = {"error": answer.error, "status": answer.status}
        if answer.cancelled:
            reply = {"cancelled": True, "tokens_in_slot": answer.tokens}
        member["response"] = reply
        if answer.died:
            step["died"] = {"fatal": answer.error}
        equal = self.check(self.server, request, answer)
        if equal is False:
            self.inexact.append({"i": member["i"]})

    def trace(self):
        """Return the recording so far."""
        settings = self.server.core.settings
        return {
            "engine": "llama.cpp", "commit": COMMIT_OF.get(self.profile, ""), "model": f"tiny-{self.model}.gguf",
            "name": "fake", "profile": self.profile.partition("@")[2], "workload": "live", "seed": 0,
            "flags": self.flags, "server": {"n_slots": settings.n_slots}, "inexact": self.inexact,
            "steps": self.steps, **self.images.header(),
        }  # fmt: skip
