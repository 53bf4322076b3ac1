"""Servers that answer without a model: none of them may pass a check.

``python -m tests.unit.tools.conformance.http_check.broken_servers`` prints the verdict of each.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

from cachesim.cli.main import main
from cachesim.model.hash_mixing import mix_int
from tests.unit.tools.conformance.http_check.in_process import Toy
from tests.unit.tools.conformance.http_check.stand_in import serving


def constant(toy):
    return lambda body: (200, {**toy(body)[1], "tokens": [7] * body["n_predict"], "completion_probabilities": []})


def counted_only(toy):
    """The reply has counts and a constant text."""
    return lambda body: (200, {"content": "same", "timings": toy(body)[1]["timings"]})


def previous(toy):
    kept = [(200, {"tokens": [1]})]

    def complete(body):
        kept.append(toy(body))
        return kept[-2]

    return complete


def random(toy):
    numbers = iter(range(10**9))
    return lambda body: (200, {**toy(body)[1], "tokens": [mix_int(next(numbers)) % 4_000] * body["n_predict"],
                               "completion_probabilities": []})  # fmt: skip


def every_second(toy):
    asked = []

    def complete(body):
        asked.append(1)
        return (500, {"error": {"message": "busy"}}) if len(asked) % 2 else toy(body)

    return complete


def refusing(_):
    return lambda body: (400, {"error": {"message": "no"}})


def silent_later(toy):
    """Replies are empty after the first twenty."""
    return lambda body: toy(body) if toy.requests < 20 else (200, {})


BROKEN = {
    "an empty text": lambda toy: lambda body: (200, {"content": ""}),
    "an empty object": lambda toy: lambda body: (200, {}),
    "a constant answer": constant,
    "a constant text": counted_only,
    "the answer to the previous request": previous,
    "a random answer": random,
    "an error for every second request": every_second,
    "a refusal of every request": refusing,
    "wrong types": lambda toy: lambda body: (200, {"tokens": "x", "content": 5, "timings": [1]}),
    "empty objects after 20 answers": silent_later,
}
"""Completions of every server, made from those of a sound one."""


def checked(name, *options):
    """Return exit code, stdout and stderr of a check."""
    out, err = io.StringIO(), io.StringIO()
    with serving(BROKEN[name](Toy())) as url, redirect_stdout(out), redirect_stderr(err):
        code = main(["check", url, "--yes", "--requests", "400", "--examples", "5", *options])
    return code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    for name in BROKEN:
        code, out, err = checked(name)
        verdict = next((line for line in out.splitlines() if line[0] not in "f "), "")
        print(f"{name:<36} exit {code}  {verdict or err.splitlines()[-1]}")
