"""Scenarios with embeddings and infills on a real server: tasks that recordings do not contain."""

from __future__ import annotations

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.flags import write_flags
from cachesim.engines.shared.vocab import PIECES
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart
from cachesim.tools.live.token_map import MappedText, TokenMap
from tests.live.verify_all import models_of

FIM = [f"tokenizer.ggml.fim_{name}_token_id=int:{token}" for name, token in (("pre", 97), ("suf", 98), ("mid", 99))]
FLAGS = {"embedding": ("--embeddings", "--pooling", "mean"), "infill": ("--override-kv", ",".join(FIM))}
"""Server flags that a task needs, without further effect. Ordinary tokens serve as those of infills."""


def record_tasks(scenario, server, commit, models):
    """Return the recording of a scenario in which tasks other than completions have only a status. Raise BadInput for
    other tasks, or concurrent requests."""
    kinds = {step.request.kind for step in scenario.steps} - {"completion"}
    if not kinds <= FLAGS.keys() or any(step.together or step.action for step in scenario.steps):
        raise BadInput(f"tasks that are not sent: {', '.join(sorted(kinds))}")
    words = TokenMap(MappedText((*step.request.prompt, *(step.request.forced or ()))) for step in scenario.steps)
    flags = (*(word for kind in sorted(kinds) for word in FLAGS[kind]), *write_flags(scenario.server))
    steps = []
    with Recorder(ServerStart(server, models_of(scenario, models), flags, commit)) as recorder:
        for step in scenario.steps:
            prompt = list(words.prompt(MappedText(step.request.prompt)))
            if step.request.kind == "completion":
                request = {"n_predict": step.request.n_predict, "prompt": prompt}
                steps.append(recorder.play({"op": "completion", "request": request}))
            else:
                path, body = _task(step.request.kind, prompt)
                reply = recorder.post(path, body)
                steps.append({"op": "task", "task": step.request.kind, "response": {"status": reply.status}})
        return {**recorder.trace(scenario.id), "steps": steps}


def _task(kind, prompt):
    if kind == "embedding":
        return "/embedding", {"content": prompt}
    text = "".join(PIECES[token] for token in prompt)
    return "/infill", {"input_prefix": text, "input_suffix": "", "n_predict": 1}
