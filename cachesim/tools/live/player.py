"""Running a scenario on a real server: converts its steps into requests, step by step, as answers arrive.

A step has the format of ``recorder.py``. Requests that are sent together form a single step. Each has the number of
iterations (``after``) by which it follows the request before; a client cannot count a real server's iterations, so that
is only an approximate delay.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.media_items import is_item
from cachesim.base.tokens import Tokens
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.runner import groups
from cachesim.scenarios.schema import Action, Scenario, Step
from cachesim.tools.live.token_map import TINY, MappedText, TokenMap, Vocabulary

Body = dict[str, Any]
Play = Callable[[Body], Body]

BEHIND = 64
"""Additional tokens requested if the client disconnects: otherwise the answer could end before the server notices."""
OVER = {"died": "ended", "stuck": "got stuck"}
"""Step results after which only a restart can follow, and the words for them."""
UNLESS = {"cache_prompt": True, "id_slot": -1, "n_keep": None, "n_discard": 0, "n_cache_reuse": None, "n_cmpl": 1}
"""Request fields that are sent unless they have this value."""


class Player:
    """Runs a scenario on a real server. ``notes``: requests that had to be changed.

    ``prefix`` distinguishes the slot files from those of other scenarios on a shared server. Raise BadInput for a
    scenario that a real server cannot run."""

    def __init__(self, scenario: Scenario, seed: int = 0, prefix: str = "", vocabulary: Vocabulary = TINY) -> None:
        self._write = _check(scenario)
        self.scenario = scenario
        self.prefix = prefix
        self.options = dict(scenario.server)
        self.map = TokenMap(map(_text, scenario.steps), seed, vocabulary)
        self._notes: list[str] = [note for step in scenario.steps for note in _changed(step)]

    @property
    def notes(self) -> list[str]:
        """Requests that had to be changed, without repetition."""
        return list(dict.fromkeys((*self._notes, *self.map.notes)))

    def write(self, options: Mapping[str, Option]) -> list[str]:
        """Return the server's command line for options, with invocation tokens in the real vocabulary."""
        return self._write(real_options(options, self.map))

    def run(self, play: Play) -> Iterator[tuple[int, Body]]:
        """Run every step; yield the number of its first request or action in the scenario, and the result. Stops where
        the server ended or got stuck."""
        for number, group in groups(self.scenario.steps):
            done = play(self._asked(group))
            yield number, done
            over = next((what for key, what in OVER.items() if key in done), "")
            following = self.scenario.steps[number + len(group) : number + len(group) + 1]
            if over and not any(step.action is not None and step.action.do == "restart" for step in following):
                self._notes.append(f"the server {over} at step {number}")
                return
            self._hear(group, done)

    def _asked(self, group: Sequence[Step]) -> Body:
        action = group[0].action
        if action is not None:
            return self._action(action)
        members: list[Body] = [{"op": "completion", "request": self._request(step)} for step in group]
        if len(members) == 1:
            return members[0]
        for member, step in zip(members, group, strict=True):
            if step.after:
                member["after"] = step.after
        return {"op": "parallel", "steps": members}

    def _action(self, action: Action) -> Body:
        if action.do == "restart":
            self.options |= dict(action.server)
            changed = {"flags": self.write(self.options)} if action.server else {}
            return {"op": "restart", **changed}
        if action.do == "lora":
            return {"op": "lora", "request": {"set": scales_body(action.scales)}}
        request: Body = {"action": action.do, "id_slot": action.id_slot}
        if action.file:
            request["filename"] = f"{self.prefix}{action.file}.bin"
        return {"op": "slot", "request": request}

    def _request(self, step: Step) -> Body:
        request, text = step.request, _text(step)
        body: Body = {"n_predict": request.n_predict}
        body |= {name: value for name, unless in UNLESS.items() if (value := getattr(request, name)) != unless}
        if request.extra.get("lora"):
            body["lora"] = scales_body(str(request.extra["lora"]))
        if request.cancel_at is not None:
            body["cancel_after"] = max(0, request.cancel_at - len(request.prompt) + 1)
            body["n_predict"] = body["cancel_after"] + BEHIND
        if request.user_starts:
            marks = self.map.delimiters(MappedText(request.prompt, request.user_starts))
            body |= {"message_delimiters": marks} if marks else {}
        body["prompt"] = list(self.map.prompt(text._replace(tokens=request.prompt)))
        return body

    def _hear(self, group: Sequence[Step], done: Mapping[str, Any]) -> None:
        """Map the words of the answers to the generated tokens."""
        for step, member in zip(group, done.get("steps", [done]), strict=True):
            response = member.get("response") or {}
            answers = [response, *response.get("completions", ())]
            words = [step.request.forced or (), *step.request.children_forced]
            for answer, reply in zip(words, answers, strict=False):
                self.map.heard(answer, _generated(reply)[: len(answer)])


def real_options(options: Mapping[str, Option], tmap: TokenMap) -> dict[str, Option]:
    """Return server options with invocation tokens in the real vocabulary."""
    def real(found: re.Match[str]) -> str:
        return "@" + ".".join(map(str, tmap.prompt(MappedText(tuple(map(int, found[1].split(".")))))))

    return {name: re.sub(r"@([\d.]+)", real, value) if isinstance(value, str) else value
            for name, value in options.items()}  # fmt: skip


def scales_body(text: str) -> list[Body]:
    """Return scales of adapters, as in 0:1,2:0.5, as a server reads them."""
    pairs = [part.split(":") for part in text.split(",") if part.strip()]
    return [{"id": int(number), "scale": float(scale)} for number, scale in pairs]


def _text(step: Step) -> MappedText:
    request = step.request
    return MappedText((*request.prompt, *(request.forced or ())), request.user_starts)


def _generated(reply: Mapping[str, Any]) -> Tokens:
    """Return the tokens that an answer leaves: those that the client received, or those in the slot if there are
    more."""
    seen, held = tuple(reply.get("tokens") or ()), tuple(reply.get("tokens_in_slot") or ())
    return held if len(held) > len(seen) else seen


def _check(scenario: Scenario) -> Callable[[Mapping[str, Any]], list[str]]:
    """Return the function that writes the server's command line. Raise BadInput for an unsupported scenario."""
    write = ENGINES[scenario.engine].recorded.write
    if write is None:
        raise BadInput(f"scenarios of {scenario.engine} cannot be run on a llama-server", file=scenario.file)
    for number, step in enumerate(scenario.steps):
        if step.action is not None and step.action.percent < 100:
            raise BadInput(f"step {number}: slot files of a real server are not truncated", file=scenario.file)
        if step.request.kind != "completion":
            raise BadInput(f"request {number}: only completions can be run on a real server, found {step.request.kind}",
                           file=scenario.file)  # fmt: skip
        if min(step.request.prompt, default=0) < 0 and is_item(max(step.request.prompt)):
            raise BadInput(f"request {number}: with an image a prompt is sent as text, which cannot have the token -1",
                           file=scenario.file)  # fmt: skip
    return write


def check_images(scenario: Scenario) -> None:
    """Raise BadInput for a scenario with images."""
    for number, step in enumerate(scenario.steps):
        if any(map(is_item, step.request.prompt)):
            raise BadInput(f"request {number}: an image of a scenario is a size without pixels, which a server needs",
                           file=scenario.file, hint="cachesim record --server draws images")  # fmt: skip


def _changed(step: Step) -> Iterator[str]:
    """Yield a note for each property of a step that a real server cannot reproduce."""
    if step.drafts or step.request.draft_else:
        yield "drafts come from the server's own drafter"
    if step.request.user_starts:
        yield "user messages are marked by message_delimiters, which b11549 reads in chats only"
    if step.after:
        yield "iterations before an arrival are not counted: requests are sent at once or after a delay"
    if step.request.cancel_at is not None:
        yield "the time at which the server notices a disconnect is not controlled"
