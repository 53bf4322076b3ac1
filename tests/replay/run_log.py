"""The logs that llama-server (b11549) and ik_llama.cpp would have written of a simulated run."""

from __future__ import annotations

from typing import Any

from cachesim.events import Launch
from cachesim.judging.judged_run import Run
from cachesim.model.spec import parse
from tests.live.logs_ik_written import write_step
from tests.replay.log_writer import write_log

_FLAGS = ("cache_ram", "ctx_checkpoints", "checkpoint_min_step")
"""Options that a server prints when it starts."""


def log_of(run: Run, verbosity: int) -> list[str]:
    """Return the lines of the log of a run at verbosity 3 (the default) or 4."""
    tasks = {task: task for event in run.log.events if (task := getattr(event, "task", None)) is not None}
    events = [event.record(False, tasks) for event in run.log.events if event.logged]
    options = run.scenario.server
    n_ctx = next(event["n_ctx_slot"] for event in events if event["ev"] == "new_prompt")
    server = {
        "n_slots": options.get("parallel", 1),
        "n_ctx_slot": n_ctx,
        "n_ctx_seq": n_ctx,
        "kv_unified": options.get("kv_unified", False),
        "n_swa": max(layer.window for layer in parse(run.scenario.model).layers),
        "n_batch": options.get("batch_size", 2048),
        "n_ubatch": options.get("ubatch_size", 512),
    }
    flags = [word for name in _FLAGS if name in options for word in (f"--{name.replace('_', '-')}", str(options[name]))]
    step = {"op": "parallel", "events": events, "steps": [{"response": one} for one in _responses(run)]}
    return [*write_log({"server": server, "flags": flags, "steps": [step]}, verbosity)]


def _responses(run: Run) -> list[dict[str, Any]]:
    """Return the responses in the order in which the server launched the requests. A client that hung up got none."""
    launched = dict.fromkeys(launch.request for launch in run.launches)
    answers = [run.requests[number].answer for number in launched]
    return [{"id_slot": answer.id_slot} if answer.cancelled else
            {"id_slot": answer.id_slot, "status": answer.status, "predicted_n": answer.predicted_n,
             "prompt_n": answer.prompt_n} for answer in answers]  # fmt: skip


def ik_log_of(run: Run) -> list[str]:
    """Return the lines of the log of ik_llama.cpp with a single slot, whose requests are sent one after another."""
    lines = list[str]()
    for number, judged in enumerate(run.requests):
        events, answer = run.events(number), judged.answer
        task = next(event.task for event in events if isinstance(event, Launch))
        counts = {} if answer.cancelled else {"prompt_n": answer.prompt_n, "predicted_n": answer.predicted_n}
        records = [event.record(False, {}) for event in events if event.logged]
        lines += write_step({"events": records, "response": counts}, task)
    return lines
