"""Command lines whose JSON shows every key of a command at least once."""

from __future__ import annotations

from typing import Mapping, Sequence

LOGS, BODIES = "tests/unit/tools/server_logs", "tests/unit/tools/request_bodies"
SAMPLES: Mapping[str, Sequence[str]] = {
    "run": ("run A4/A -p vllm --model qwen3.5",
            "run S40>20/A20>20{together}/B30>2{together} -p vllm --model A --set num_gpu_blocks=6 --steps",
            "run llama-24143-entry-removed-dense llama-lesson-hybrid",
            "run ik-checkpoint-n-tokens-uninitialised",
    "run llama-one-token-checkpoint-hybrid", "run S40.A30/S.B30",
            "run S200.A30/S.B30/X9000 -p b8152 -p b10587 -c 512", "run S30.A8/S.B8 -p mlx_lm@d78bf58e -p mlx_lm@m1072"),
    "why": ("why A40/A 1 -p vllm --model qwen3.5", "why S40.A30/S.B30 1",
            "why llama-24143-entry-removed-dense 3", "why llama-one-token-checkpoint-hybrid 2",
            "why llama-25213-batch-cut-at-messages-dense 1 -p llama_cpp@b9518",
            "why S40.A30/S.B30 1 -p mlx_lm@d78bf58e"),
    "advise": ("advise llama-24143-entry-removed-hybrid", "advise llama-21831-reasoning-removed-hybrid",
    "advise llama-24055-spacing-without-effect-hybrid",
               "advise llama-24143-entry-removed-hybrid --sizes qwen3-next", f"advise {LOGS}/default_verbosity.log",
               f"advise {LOGS}/verbosity_4.log", f"advise {LOGS}/excerpt.log"),
    "advise-agents": (
        "advise --for agents --model qwen3-next --memory 4 --weights 1.5 --clients 2 tests/workloads/data/chat.jsonl",
        "advise --for agents --model qwen3 --memory 8 tests/unit/tools/request_bodies/agent.jsonl",
    ),
    "memory": ("memory qwen3-next", "memory qwen3-next --memory 8GiB -c 65536 -np 2 -kvu -ctk q8_0 --cache-ram -1",
               "memory llama-3 -c 8192 --memory 20GiB", "memory gpt-oss -p vllm --memory 20GiB",
               "memory qwen3 -p mlx_lm --memory 20GiB", "memory --models"),
    "diff": ("diff S100.A40/S.B40 -p b9518 -p b10587", "diff A60/A -p llama_cpp -p vllm",
    "diff llama-24143-entry-removed-dense -p b9518 -p llama_cpp@pr24143-on-b9518"),
    "diff-folder": ("diff scenarios/llama_cpp/lessons -p b9518 -p b10587 --provenance",),
    "explain": (
        "explain LC-CKPT-PICK", "explain LC-CKPT-SPACING.CR10", "explain pos_min", "explain 'swa full'",
        "explain 'invalidated context'", "explain 'selected slot by LRU, t_last = -1'",
        "explain 'srv log_server_r: done request: POST /v1/chat/completions 127.0.0.1 200'",
        f"explain {LOGS}/verbosity_4.log",
    ),
    "playground": (),
    "profiles-list": ("profiles list",),
    "profiles-diff": ("profiles diff llama_cpp@b10809 llama_cpp@b11063",),
    "profiles-show": ("profiles show llama_cpp@b10587", "profiles show mlx_lm@d78bf58e"),
    "options": ("options", "options mlx_lm@d78bf58e", "options ik_llama parallel"),
    "bisect": ("bisect S100.A40/S.B40", "bisect llama-24035-diverge-at-newest-checkpoint-hybrid"),
    "fuzz": ("fuzz -p llama_cpp@b10587 --examples 30 --model H",
             "fuzz -p b10587 --against b9518 --examples 40 --model H --no-shrink",
             "fuzz -p b10587 --examples 1 --corpus scenarios/llama_cpp/crash"),
    "fuzz-real": (),
    "shrink": ("shrink mlx-1006-key-of-another-state-hybrid", "shrink A20/A"),
    "merge": (),
    "repair": (),
    "scenarios": ("scenarios lesson", "scenarios --symptom crash llama_cpp@b10587"),
    "replay": ("replay tests/data/ik_llama --mode provenance",),
    "workload": ("workload tests/workloads/data --scale 16 -np 2 -p llama_cpp@latest -p ik_llama@main",
                 "workload tests/workloads/data/agents.json --sessions 2 --detail counts"),
    "import-events": (f"import {LOGS}/kv_events/events.jsonl", f"import {LOGS}/kv_events/events.jsonl "
                      f"{LOGS}/kv_events/bodies.jsonl", f"import {LOGS}/kv_events/unnumbered.jsonl"),
    "import": (f"import {LOGS}/default_verbosity.log", f"import {LOGS}/verbosity_4.log",
               f"import {LOGS}/parallel_slots.log", f"import {LOGS}/prompt_cache.log",
               f"import {BODIES}/agent.jsonl",
               f"import {BODIES}/captures/restart.jsonl", f"import {BODIES}/captures/nothing.jsonl",
               f"import {LOGS}/dated_turns.log", f"import {LOGS}/sglang.log"),
    "watch": (),
    "watch-request": (),
    "watch-totals": (),
    "verify": (),
    "verify-real": (),
    "real": (),
    "real-serve": (),
    "check": (),
    "export": ("export S40.A30/S.B30 --to curl",),
    "record": (),
    "lesson": ("lesson 1", "lesson --quiz"),
    "completion": ("completion bash",),
    "error": ("run S4 --set ctx_sise=3", "why nowhere.toml 0", "xyzzy"),
}  # fmt: skip
"""Schema -> command lines, without ``--json``. Those that need a real server are not played."""

MORE: Mapping[str, Sequence[str]] = {
    "run": ("run scenarios/llama_cpp -p llama_cpp@b10587 --provenance",
            "run scenarios/mlx_lm scenarios/ik_llama --provenance"),
    "repair": ("repair llama_cpp@b10587 llama-24143-entry-removed-dense llama-one-token-checkpoint-hybrid",),
    "fuzz": ("fuzz -p ik_llama@pr1888 --examples 60 --no-shrink", "fuzz -p b9518 --examples 100 --model W"),
    "replay": ("replay tests/data/llama_cpp_odd --mode provenance",),
    "why": ("why mlx-1006-key-of-another-state-hybrid 3", "why ik-checkpoint-n-tokens-uninitialised 5"),
}  # fmt: skip
"""What takes longer, and shows more: played when the schemas are made, not when they are tested."""
