"""Running a scenario on a running server: requests over HTTP, without its log and without starting or stopping it.

The whole history is run warm; then every prompt is sent cold to the server, which empties a slot.
"""

from __future__ import annotations

import re
from functools import partial
from math import inf
from typing import Any, Callable, Mapping

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost, HttpFailure, HttpReply
from cachesim.base.json_shapes import INT32, check
from cachesim.tools.live.llama_server.answers import read_completion, read_slot
from cachesim.tools.live.llama_server.client import ANSWER_WITHIN, Client, at_once
from cachesim.tools.live.llama_server.cold_server import ask_cold, compare, inexact
from cachesim.tools.live.llama_server.process import StoppedAtEnd
from cachesim.tools.live.llama_server.reply_shapes import MODELS, PROPS

Step = dict[str, Any]
NOT_HERE = "a server given by --url cannot be restarted"


class Remote(StoppedAtEnd):
    """Runs steps like a ``Recorder``. ``rounding``: largest difference of log-probabilities that is not inexact;
    ``within``: seconds for a reply."""

    def __init__(self, url: str, rounding: float, within: float = ANSWER_WITHIN) -> None:
        """Connect to the server. Raise BadInput unless a llama-server answers."""
        if not url.startswith("http://"):
            raise BadInput("expected a server URL that begins with http://", file=url)
        self.client, self.rounding = Client(url.rstrip("/"), within), rounding
        self.steps: list[Step] = []
        self.inexact: list[Step] = []
        self.scales: list[float] | None = None       # of the adapters before the first change, None = unchanged
        self.set: list[Step] | None = None           # scales that a step set, None = those before
        try:
            self.props = self._get("/props")
            self.models = self._get("/v1/models")
            if self.props.get("total_slots") is None:
                raise BadInput("not a llama-server: /props does not report the number of slots", file=url)
            check(self.props, PROPS, f"{url}/props")
            check(self.models, MODELS, f"{url}/v1/models")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Close all connections."""
        self.client.close()

    @property
    def slots(self) -> int:
        """Number of slots of the server."""
        return int(self.props["total_slots"])

    @property
    def context(self) -> int:
        """Context size of a slot in tokens."""
        return int((self.props.get("default_generation_settings") or {}).get("n_ctx") or 0)

    @property
    def build(self) -> str:
        """Build that the server reports, such as b11549; "" if it does not."""
        said = str(self.props.get("build_info") or "").partition("-")[0]
        return said if re.fullmatch(r"b0*[1-9][0-9]{0,8}", said) else ""

    def adapter_scales(self) -> list[float]:
        """Return the scales of the server's adapters, in order of their numbers."""
        listed = self.client.get("/lora-adapters").body
        found = {}
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, Mapping) and type(one.get("id")) is int and isinstance(one.get("scale"), int | float):
                found[one["id"]] = float(one["scale"])
        return [found[number] for number in sorted(found)]

    def seed(self) -> int:
        """Return a seed that differs after every run: tokens that were never sent before cannot be cached."""
        found = self.client.get("/slots").body
        slots = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
        tasks = [task for one in slots if type(task := one.get("id_task")) is int and 0 < task <= INT32]
        return sum(tasks) + len(slots)

    def clear(self) -> list[str]:
        """Empty all slots; return a note if the server does not support it."""
        replies = [self.client.slot("erase", slot) for slot in range(self.slots)]
        if all(reply.status == 200 for reply in replies):
            return []
        return ["the server cannot erase slots (needs --slot-save-path): their content may affect the result"]

    def play(self, step: Step) -> Step:
        """Run a step; return it with its number and results. Raise BadInput for an unsupported step."""
        out: Step = {"i": len(self.steps), **step, "events": []}
        if step["op"] == "restart":
            raise BadInput(NOT_HERE, hint="use --server BIN --model GGUF")
        members = [out]
        if step["op"] == "parallel":
            out["steps"] = members = [{"i": f"{out['i']}.{n}", **one} for n, one in enumerate(step["steps"])]
        if step["op"] == "parallel" or any("cancel_after" in one["request"] for one in members):
            out["racy"] = True
        try:
            at_once([partial(self._send, one) for one in members], lambda: None)
        except ConnectionLost as lost:
            if self._answers():
                raise
            out["died"] = {"error": str(lost), "returncode": 0, "fatal": ["the connection broke"], "frames": []}
        self.steps.append(out)
        return out

    def _send(self, member: Step) -> None:
        body = member["request"]
        if member["op"] == "slot":
            reply = self.client.slot(body["action"], body["id_slot"], body.get("filename", ""))
            member["response"] = read_slot(reply)
        elif member["op"] == "lora":
            member["response"] = read_slot(self._set_adapters(body["set"]))
        elif "cancel_after" in body:
            sent = {name: value for name, value in body.items() if name != "cancel_after"}
            seen = self.client.hang_up(sent, max(1, body["cancel_after"]), lambda: None)
            member["response"] = {"cancelled": True, "tokens": seen}
        else:
            reply = self.client.complete(body)
            member["response"], member["body"] = read_completion(reply), reply.body
            member["lora"] = self.set                # in force for requests without a list

    def _set_adapters(self, scales: list[Step]) -> HttpReply:
        """Set the scales of the server's adapters until ``restore_adapters``."""
        if self.scales is None:
            self.scales = self.adapter_scales()
        self.set = scales
        return self.client.set_adapters(scales)

    def restore_adapters(self) -> None:
        """Set the scales of the server's adapters as they were before the first step that changed them."""
        if self.scales is not None:
            self.client.set_adapters([{"id": number, "scale": scale} for number, scale in enumerate(self.scales)])
            self.scales = None

    def _answers(self) -> bool:
        """True if the server still accepts connections."""
        try:
            self.client.get("/props")
        except ConnectionLost:
            return False
        except HttpFailure:
            pass
        return True

    def compare_all(self, told: Callable[[Step], None] = lambda member: None) -> None:
        """Send every prompt cold, and add the comparison to each response."""
        for step in self.steps:
            for member in step.get("steps", [step]):
                body, scales = member.pop("body", None), member.pop("lora", None)
                if body is not None and (member["response"].get("status") == 200):
                    self._compare(member, body if isinstance(body, list) else [body], scales)
                    told(member)

    def _compare(self, member: Step, bodies: list[Mapping[str, Any]], scales: list[Step] | None) -> None:
        cold = ask_cold(self.client, {**({"lora": scales} if scales else {}), **member["request"]})
        if cold is None:
            return
        found = [compare(body, cold) for body in bodies]
        member["cold"] = found[0]
        for child, other in zip(member["response"].get("completions", ()), found[1:], strict=False):
            child["cold"] = other
        # A different token counts as rounding if its rival is about equally likely.
        ties = [not one["equal"] and one.get("max_dlogprob", inf) <= self.rounding for one in found]
        if any(not tie and inexact(one, self.rounding) for tie, one in zip(ties, found, strict=True)):
            self.inexact.append({"i": member["i"]})

    def _get(self, path: str) -> Mapping[str, Any]:
        reply = self.client.get(path)
        if reply.status in (401, 403):
            raise BadInput(f"the server requires a key (HTTP {reply.status})", file=self.client.url)
        return reply.body if isinstance(reply.body, Mapping) else {}
