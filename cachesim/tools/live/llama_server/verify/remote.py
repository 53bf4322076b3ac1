"""A case on a server that runs already: requests over HTTP, without its log and without starting or stopping it.

The whole history is played warm; then every prompt is asked cold of the same server, which empties a slot.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Mapping

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.answers import read_completion, read_slot
from cachesim.tools.live.llama_server.client import Client, ConnectionLost, at_once
from cachesim.tools.live.llama_server.cold_server import ask_cold, compare, inexact
from cachesim.tools.live.llama_server.process import StoppedAtEnd

Step = dict[str, Any]
NOT_HERE = "the server is not ours to stop and start"


class Remote(StoppedAtEnd):
    """Plays steps like a ``Recorder``. ``rounding``: differences of log-probabilities up to this are not inexact."""

    def __init__(self, url: str, rounding: float) -> None:
        """Raises BadInput where nothing answers, or no llama-server."""
        if not url.startswith("http://"):
            raise BadInput("the address of a server begins with http://", file=url)
        self.client, self.rounding = Client(url.rstrip("/")), rounding
        self.steps: list[Step] = []
        self.inexact: list[Step] = []
        self.props = self._get("/props")
        self.models = self._get("/v1/models")
        if not isinstance(self.props.get("total_slots"), int):
            raise BadInput("no llama-server: /props does not say how many slots it has", file=url)

    def stop(self) -> None:
        """Close all connections."""
        self.client.close()

    @property
    def slots(self) -> int:
        """How many slots the server has."""
        return int(self.props["total_slots"])

    @property
    def context(self) -> int:
        """Tokens that a slot takes."""
        return int((self.props.get("default_generation_settings") or {}).get("n_ctx") or 0)

    @property
    def build(self) -> str:
        """The build that it says it is, such as b11549; "" = it does not say."""
        said = str(self.props.get("build_info") or "").partition("-")[0]
        return said if said.startswith("b") and said[1:].isdigit() and int(said[1:]) else ""

    def seed(self) -> int:
        """A number that is another one after every play: of tokens that nobody sent before nothing is cached."""
        found = self.client.get("/slots").body
        slots = found if isinstance(found, list) else []
        return sum(int(one.get("id_task") or 0) for one in slots if isinstance(one, Mapping)) + len(slots)

    def clear(self) -> list[str]:
        """Empty all slots; what is to be said where the server does not do that."""
        replies = [self.client.slot("erase", slot) for slot in range(self.slots)]
        if all(reply.status == 200 for reply in replies):
            return []
        return ["the server does not erase slots (it does with --slot-save-path): what they hold may decide"]

    def play(self, step: Step) -> Step:
        """Do one step; returns it with its number and results. Raises BadInput for one that cannot be done."""
        out: Step = {"i": len(self.steps), **step, "events": []}
        if step["op"] == "restart":
            raise BadInput(NOT_HERE, hint="--server BIN --model GGUF starts one")
        members = [out]
        if step["op"] == "parallel":
            out["steps"] = members = [{"i": f"{out['i']}.{n}", **one} for n, one in enumerate(step["steps"])]
        if step["op"] == "parallel" or any("cancel_after" in one["request"] for one in members):
            out["racy"] = True
        try:
            at_once([partial(self._send, one) for one in members], lambda: None)
        except ConnectionLost as lost:
            out["died"] = {"error": str(lost), "returncode": 0, "fatal": ["the connection broke"], "frames": []}
        self.steps.append(out)
        return out

    def _send(self, member: Step) -> None:
        body = member["request"]
        if member["op"] == "slot":
            reply = self.client.slot(body["action"], body["id_slot"], body.get("filename", ""))
            member["response"] = read_slot(reply)
        elif "cancel_after" in body:
            sent = {name: value for name, value in body.items() if name != "cancel_after"}
            seen = self.client.hang_up(sent, max(1, body["cancel_after"]), lambda: None)
            member["response"] = {"cancelled": True, "tokens": seen}
        else:
            reply = self.client.complete(body)
            try:
                member["response"] = read_completion(reply)
            except (KeyError, TypeError, AttributeError, IndexError):
                raise BadInput("an answer without the fields of a llama-server's", file=self.client.url) from None
            member["body"] = reply.body

    def compare_all(self, told: Callable[[Step], None] = lambda member: None) -> None:
        """Ask every prompt cold, and write beside each answer how it differs."""
        for step in self.steps:
            for member in step.get("steps", [step]):
                body = member.pop("body", None)
                if body is not None and (member["response"].get("status") == 200):
                    self._compare(member, body if isinstance(body, list) else [body])
                    told(member)

    def _compare(self, member: Step, bodies: list[Mapping[str, Any]]) -> None:
        try:
            cold = ask_cold(self.client, member["request"])
        except ConnectionLost:
            raise BadInput("the connection broke when a prompt was asked cold", file=self.client.url) from None
        if cold is None:
            return
        found = [compare(body, cold) for body in bodies]
        member["cold"] = found[0]
        for child, other in zip(member["response"].get("completions", ()), found[1:], strict=False):
            child["cold"] = other
        # Another token whose rival is as likely is rounding.
        ties = [not one["equal"] and one.get("max_dlogprob", 99.0) <= self.rounding for one in found]
        if any(not tie and inexact(one, self.rounding) for tie, one in zip(ties, found, strict=True)):
            self.inexact.append({"i": member["i"]})

    def _get(self, path: str) -> Mapping[str, Any]:
        try:
            reply = self.client.get(path)
        except ConnectionLost:
            raise BadInput("no server answers", file=self.client.url) from None
        if reply.status in (401, 403):
            raise BadInput(f"the server wants a key (HTTP {reply.status})", file=self.client.url)
        return reply.body if isinstance(reply.body, Mapping) else {}
