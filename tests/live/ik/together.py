"""Groups of requests that can be sent as a single request, so that they do not depend on time."""

from __future__ import annotations


def as_one(step):
    """Return the step as a request with several prompts, if its members and their lengths allow it."""
    if step["op"] != "parallel" or "one_request" in step:
        return step
    asked = [member["request"] for member in step["steps"]]
    rest = [{name: body[name] for name in body if name not in ("prompt", "n_predict")} for body in asked]
    if sum(len(body["prompt"]) for body in asked) % 3 == 0 or any(body != rest[0] for body in rest):
        return step
    if any("cancel_after" in body for body in rest):
        return step
    n_predict = max(body["n_predict"] for body in asked)
    members = [{**member, "request": {**member["request"], "n_predict": n_predict}} for member in step["steps"]]
    return {**step, "steps": [{name: one[name] for name in one if name != "after"} for one in members],
            "one_request": True}  # fmt: skip
