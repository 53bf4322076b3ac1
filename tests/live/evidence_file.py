"""Stored output of unchanged real servers, a JSON file per build below ``scenarios/evidence``.

An entry belongs to a scenario: the server's answer to each request, and its answer without any cache. ``requests_of``
reads it from a recording of any server; ``store`` keeps an entry per line, sorted by scenario.
"""

from __future__ import annotations

import json

from cachesim.base.files import write_whole
from tests.evidence.digests import of_case


def entry_of(scenario, profile, recording, as_simulated):
    """Return the entry of a scenario (with its file) from its recording. ``as_simulated``: True if the profile
    reproduces it, None if unknown."""
    return {
        "scenario": of_case(scenario.file), "profile": profile, "model": recording["model"],
        "base_flags": recording["base_flags"], "flags": recording["flags"], "requests": requests_of(recording),
        "as_simulated": as_simulated,
    }  # fmt: skip


def requests_of(recording):
    """Return a dict per request or slot action, numbered as the scenario's steps."""
    wrong = {(one["i"], one.get("child", 0)) for one in recording["inexact"] if not one.get("died")}
    members = [(step, one) for step in recording["steps"] for one in step.get("steps", [step])]
    return [{"n": n, **_outcome(step, one, wrong)} for n, (step, one) in enumerate(members)]


def _outcome(step, member, wrong):
    """Return the outcome of a request: an answer, an error status, a disconnect, or the end of the process."""
    response = member.get("response")
    if member["op"] in ("restart", "task"):
        return {"action": "restart"} if member["op"] == "restart" else {"task": member["task"], **response}
    if response is None and "died" in step:
        return {"died": step["died"]["returncode"], "fatal": step["died"]["fatal"]}
    if response is None or response.get("cancelled"):
        return {"stuck": True} if response is None else {"cancelled": True}
    if member["op"] == "lora":
        return {"action": "lora"}
    action = {"action": member["request"]["action"]} if member["op"] == "slot" else {}
    if response["status"] != 200:
        return {**action, "status": response["status"], "error": response["error"].get("message", "")}
    if action:
        return action
    answers = [_answer(one, cold, (member["i"], index) in wrong)
               for index, (one, cold) in enumerate(_answers(member, response))]  # fmt: skip
    return {**answers[0], **({"children": answers[1:]} if answers[1:] else {})}


def _answers(member, response):
    """Return the answer of a request and of its further completions, each with its comparison with a cold answer."""
    yield response, member.get("cold")
    for child in response.get("completions", ()):
        yield child, child.get("cold")


def _answer(response, cold, differs):
    out = {name: response[name] for name in ("cache_n", "prompt_n")} | {"warm": response["tokens"]}
    if cold is None:                                        # the cold server refused the request
        return out
    gap = {"max_dlogprob": cold["max_dlogprob"]} if "max_dlogprob" in cold else {}
    return {**out, "cold": cold.get("tokens", response["tokens"]), **gap, "differs": differs}


def store(file, build, version, entries):
    """Write entries (a dict by scenario id) into the file of a build; they replace entries with equal ids."""
    kept = json.loads(file.read_text("utf-8"))["scenarios"] if file.exists() else {}
    lines = [f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}"
             for name, one in sorted({**kept, **entries}.items())]  # fmt: skip
    head = json.dumps({"build": build, "version": version}, separators=(",", ":"))[:-1]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, (head + ',"scenarios":{\n' + ",\n".join(lines) + "\n}}\n").encode())
