"""Client of an exported program for llama-server, and the comparison of answers with cold runs and of their reuse.

Standard library only. Exported programs contain the code of this module (``program_text``); names that it imports from
cachesim become literals there.
"""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from typing import Any, Callable, NamedTuple

from cachesim.tools.live.llama_server.client import GREEDY
from cachesim.tools.live.llama_server.cold_server import KEPT


class ServerTalk:
    """Requests sent to a server and their responses, by request number."""

    def __init__(self, url: str, within: float = 60, delay: float = 0.05) -> None:
        """``within``: time limit of a request; ``delay``: duration of a server iteration [both in seconds]."""
        self.url, self.within, self.delay = url, within, delay
        self.sent: dict[int, dict[str, Any]] = {}
        self.came: dict[int, tuple[int, Any]] = {}
        self.disconnected: set[int] = set()
        self.scales: dict[str, Any] = {}                       # of the server's adapters, if they were changed

    def connect(self) -> http.client.HTTPConnection:
        """Return a new connection to the server."""
        return http.client.HTTPConnection(self.url.partition("//")[2].rstrip("/"), timeout=self.within)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the HTTP status, 0 without an answer, and the decoded body, None if it is not JSON."""
        connection = self.connect()
        try:
            connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()
        try:
            return response.status, json.loads(data)
        except ValueError:
            return response.status, None

    def ask(self, number: int, prompt: list[int], hang_up: int | None = None, **fields: Any) -> None:
        """Send a request; ``hang_up``: disconnect after so many tokens."""
        body = {"prompt": list(prompt), **fields, **GREEDY}
        self.sent[number] = {**self.scales, **body}            # for a server without these changes
        if hang_up is None:
            self.came[number] = self.request("POST", "/completion", body)
        else:
            self.came[number] = 0, {"tokens": self.disconnect(body, hang_up)}
            self.disconnected.add(number)

    def adapters(self, scales: list[dict[str, Any]]) -> None:
        """Set the scales of the server's adapters."""
        self.request("POST", "/lora-adapters", scales)
        self.scales = {"lora": scales}

    def disconnect(self, body: Any, tokens: int) -> list[int]:
        """Request a stream and disconnect after so many tokens; return the received tokens."""
        connection, seen = self.connect(), list[int]()
        try:
            data = json.dumps({**body, "stream": True})
            connection.request("POST", "/completion", data, {"Content-Type": "application/json"})
            time.sleep(0 if tokens else self.delay)
            for line in connection.getresponse() if tokens else ():
                if line.startswith(b"data: {"):
                    seen += json.loads(line[6:]).get("tokens", [])
                if len(seen) >= tokens:
                    break
        except (OSError, http.client.HTTPException):
            pass
        connection.close()
        time.sleep(0.3)
        return seen

    def together(self, *calls: tuple[int, Callable[[], None]]) -> None:
        """Send concurrent requests; each follows the request before by some iterations of the server."""
        threads = []
        for after, call in calls:
            time.sleep(after * self.delay)
            threads.append(threading.Thread(target=call))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def slot(self, id_slot: int, action: str, **body: str) -> None:
        """Save, restore or erase a slot."""
        status, _ = self.request("POST", f"/slots/{id_slot}?action={action}", body)
        if status != 200:
            print(f"slot {id_slot}, {action}: HTTP {status} (the server needs --slot-save-path)")

    def hear(self, number: int, completion: int, at: int, word: list[int], start: int, stop: int) -> None:
        """Write generated tokens of a completion, from ``at`` on, over ``start`` to ``stop`` of a word."""
        bodies = answers(self.came[number][1])
        said = (bodies[completion].get("tokens") or []) if completion < len(bodies) else []
        said = said[at : at + stop - start]
        word[start : start + len(said)] = said

    def cold(self, number: int, server: ServerTalk) -> tuple[int, Any]:
        """Send a request again to a server without cached tokens; return status and body."""
        kept = {name: value for name, value in self.sent[number].items() if name in KEPT}
        return server.request("POST", "/completion", {**kept, "cache_prompt": False, "id_slot": 0, **GREEDY})

    def verdict(self, number: int, cold: tuple[int, Any], tolerance: float) -> str:
        """Describe the comparison of an answer with the cold run's; contains DIFFERS if they are not equal."""
        (status, body), (cold_status, cold_body) = self.came[number], cold
        if cold_status != 200:
            return f"cold: HTTP {cold_status:03}, warm: {status:03}"
        if status == 0:
            return "DIFFERS from a cold run: NO ANSWER"
        if status != 200:
            message = body.get("error", {}).get("message", "") if isinstance(body, dict) else ""
            return f"DIFFERS from a cold run: HTTP {status} {message}"
        if not all("tokens" in one or "content" in one for one in [*answers(body), *answers(cold_body)]):
            return "an answer that cannot be read"
        said = [difference(one, cold_body, tolerance) for one in answers(body)]
        return next((one for one in said if "DIFFERS" in one), said[0])

    def reuse(self, number: int, tokens: tuple[int, int, int], reference: str, mark: str) -> ReuseVerdict:
        """Judge the reuse of a request by what its answer reports (``judge_reuse``)."""
        status, body = self.came[number]
        timings = answers(body)[0].get("timings", {}) if status == 200 else {}
        return judge_reuse(number, timings, tokens, reference, mark)


class ReuseVerdict(NamedTuple):
    """Verdict on the reuse of a request. ``shows``: True if the loss shows, None = undecided; ``text``: the verdict in
    a sentence; ``cost``: seconds that a loss takes, "" = unknown."""

    shows: bool | None
    text: str
    cost: str = ""


def judge_reuse(
    number: int, timings: Any, tokens: tuple[int, int, int], reference: str, mark: str
) -> ReuseVerdict:
    """Judge the reuse of a request. ``timings``: as its answer reports them; ``tokens``: those that a server with the
    loss reuses, those that the reference reuses, and those that were evaluated before. ``reference``: its name;
    ``mark``: what stands after its number."""
    lossy, kept, reusable = tokens
    reused = timings.get("cache_n")
    if reused is None:
        return ReuseVerdict(None, f"UNDECIDED: request {number} does not report how many tokens it reused")
    count = f"{reused} of {reusable} tokens reused in request {number}"
    if reused == lossy:
        cost = seconds_of(timings, kept - reused)
        return ReuseVerdict(True, f"THE LOSS SHOWS: {count}; with {reference} {kept}{mark}", cost)
    if reused > kept:
        return ReuseVerdict(False, f"the loss does not show: {count}; with {reference} {kept}{mark}")
    if reused == kept:
        return ReuseVerdict(False, f"the loss does not show: {count}, as with {reference}{mark}")
    return ReuseVerdict(None, f"UNDECIDED: {count}; {lossy} with the loss, with {reference} {kept}{mark}")


def seconds_of(timings: Any, tokens: int) -> str:
    """Describe the time that so many tokens of a prompt take at the rate of this prompt, "" without its time."""
    evaluated, took = timings.get("prompt_n"), timings.get("prompt_ms")
    if not evaluated or not took:
        return ""
    return f"{tokens} tokens evaluated again: about {tokens / evaluated * took / 1000:.3g} s, at the " \
           f"{evaluated / took * 1000:.0f} tokens/s of this prompt"  # fmt: skip


def answers(body: Any) -> list[Any]:
    """Return the completions of an answer."""
    return body if isinstance(body, list) and body else [body or {}]


def tokens_of(body: Any) -> list[Any]:
    """Return the generated tokens, or their texts if the server does not send ids (ik_llama.cpp)."""
    return body.get("tokens") or [place.get("content") for place in body.get("completion_probabilities") or []]


def places(body: Any) -> list[Any]:
    """Return the log-probabilities of the likeliest tokens per generated token; -inf for probability 0."""
    found = body.get("completion_probabilities") or []
    if found and "probs" in found[0]:                        # ik_llama.cpp
        return [{one["tok_str"]: math.log(one["prob"]) if one["prob"] else -math.inf for one in place["probs"]}
                for place in found]  # fmt: skip
    top = [place.get("top_logprobs") or place.get("top_probs") or [] for place in found]
    return [{one["id"]: one["logprob"] for one in place if "logprob" in one} for place in top]


def difference(warm: Any, cold: Any, tolerance: float) -> str:
    """Compare two completions: tokens, and the log-probabilities up to the first different token."""
    ours, theirs, near, far = tokens_of(warm), tokens_of(cold), places(warm), places(cold)
    at = next((i for i in range(min(len(ours), len(theirs))) if ours[i] != theirs[i]), None)
    n = min(len(near), len(far), 10**6 if at is None else at + 1)
    gaps = [abs(near[i][token] - far[i][token]) for i in range(n) for token in near[i].keys() & far[i].keys()]
    tied = at is not None and at < n and bool(near[at].keys() & far[at].keys())
    token = "" if at is None else f"token {at} is {ours[at]}, not {theirs[at]}"
    if gaps and max(gaps) > tolerance:
        return f"DIFFERS from a cold run: log-probabilities by {max(gaps)}" + (token and f", {token}")
    if token and not tied:
        return f"DIFFERS from a cold run: {token}"
    if len(ours) != len(theirs):
        return f"DIFFERS from a cold run: {len(ours)} tokens, not {len(theirs)}"
    return "same as cold"
