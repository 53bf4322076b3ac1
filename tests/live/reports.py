"""``python -m tests.live.reports``: the worked reports in scenarios/reports, made with the real servers.

Each folder holds the output of ``cachesim export ID --to issue --server BIN --gguf GGUF`` (issue.md), and the output of
the exported program and of ``cachesim verify`` on b11549 and on b11549 with the repaired rules (proof.txt). The
programs themselves are not stored: issue.md names the command that writes one, and programs.sha256 has their digests.
``--digests`` renews these only, without a server. models.txt lists the models and servers on which the programs show
the fault.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256

from cachesim.cli.main import main as cachesim
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.gguf_models import find_model, write_model
from tests.live import build
from tests.live.export_all import run
from tests.shared import MODELS

REPORTS = {
    "stale-checkpoint": "llama-one-token-checkpoint-default-qwen35",
    "stale-neighbour-checkpoint": "llama-adjacent-checkpoint-default-qwen35",
    "window-at-its-edge": "llama-first-window-default-gemma3",
    "eroded-window-checkpoint": "llama-window-checkpoint-erosion",
}
"""Report -> its scenario."""
IK_REPORTS = {"ik-rows-out-of-sight": "ik-cells-above-gap-unread-dense"}
"""Reports about ik_llama.cpp, whose issues are written by hand."""
CLASS_REPORTS = (
    "vllm-lookahead-without-hash", "vllm-copy-before-write", "vllm-checkpoint-column", "vllm-key-before-state",
    "vllm-steps-of-nothing", "vllm-offload-gap", "vllm-key-of-later-tokens", "vllm-load-inside-state",
    "sglang-tracked-states-in-one-slot", "sglang-windows-only-free-slots-in-tree",
)
"""Reports with a program, written by hand, that drives the released classes of a server, without a server."""
EXPORTED_REPORTS = {
    "sglang-stripped-after-retraction": ("sglang-stripped-after-retraction", "sglang-stripped-slots-of-the-tree"),
    "sglang-shortest-prefill-first": ("sglang-shortest-prefill-first-out-of-slots",),
    "sglang-declined-load-has-no-state": ("sglang-declined-load-has-no-state",),
    "sglang-two-prompts-cut-in-one-step": ("sglang-two-prompts-cut-in-one-step",),
}
"""Reports whose programs are tests on the released classes -> their scenarios."""

ORDER_REPORTS = {"index-ties": ("tiny-qwen4exp.gguf", "b11549-index-ordered")}
"""Reports, written by hand, about an order that the simulator does not have -> the recorded model that their programs
need, and the build with their change."""

KEYED_REPORTS = {
    "plain-adapters": ("llama-lora-request-without-list", "b11549-lora-tried"),
    "activated-adapters": ("llama-alora-second-activation", "b11549-lora-tried"),
    "requests-that-end-the-server": ("", "b11549-media-repaired"),
}
"""Reports about adapters and images, written by hand -> a scenario of theirs, and the build with their changes."""
WORDS = {0: "right", 1: "WRONG", 2: "did not run"}
HISTORIES = tuple(f"llama-{name}-default-" for name in ("one-token-checkpoint", "adjacent-checkpoint", "first-window"))
SERVERS = {"b11549": "llama_cpp@b11549", "b11549-repaired": "llama_cpp@b11549-repaired"}
PROGRAMS = {
    **{f"{name}/case.sh": ("export", scenario, "--to", "script", "-p", "llama_cpp@b11549")
       for name, scenario in REPORTS.items()},
    **{f"{name}/case.sh": ("export", scenario, "--to", "script", "-p", "ik_llama@main")
       for name, scenario in IK_REPORTS.items()},
    **{f"{name}/test_{one.replace('-', '_')}.py": ("export", one, "--to", "pytest", "-p", "sglang@0.5.23-repaired")
       for name, scenarios in EXPORTED_REPORTS.items() for one in scenarios},
}  # fmt: skip
"""File of a report -> the words of the command that writes it."""
SCRIPT_BLOCK = re.compile(r"(?<=```sh\n)#!/bin/sh\n.*?(?=```\n)", re.DOTALL)


def command_of(file):
    """Return the command that writes a program, as README and issue.md name it."""
    return " ".join(["cachesim", *PROGRAMS[file], ">", file.rpartition("/")[2]])


def program_digest(program):
    """Return the SHA-256 of a program without its comment lines: the header names the version of cachesim."""
    lines = [line for line in program.splitlines(keepends=True) if not line.startswith("#")]
    return sha256("".join(lines).encode()).hexdigest()


def digests():
    """Return the text of programs.sha256: a digest and a report on each line, in the form of sha256sum."""
    return "".join(f"{program_digest(said(*words)[0])}  {file}\n" for file, words in PROGRAMS.items())


def said(*words):
    """Run a command; return its output and exit code."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = cachesim([str(word) for word in words])
    return out.getvalue(), code


def report(folder, scenario, models):
    """Write a report."""
    folder.mkdir(parents=True, exist_ok=True)
    model = find_model(load(corpus_files()[scenario]).model)
    gguf = models / model.file
    if not gguf.exists():
        write_model(model.name, gguf)
    binaries = {commit: build.binary(commit) for commit in SERVERS}
    issue, _ = said("export", scenario, "--to", "issue", "--server", binaries["b11549"], "--gguf", gguf)
    (folder / "issue.md").write_text(SCRIPT_BLOCK.sub(f"{command_of(f'{folder.name}/case.sh')}\n", issue), "utf-8")
    script, _ = said(*PROGRAMS[f"{folder.name}/case.sh"])
    lines = []
    for commit, profile in SERVERS.items():
        code, text = run(script, binaries[commit], models)
        lines += [f"$ LLAMA_SERVER={commit}/llama-server sh case.sh", text.rstrip(), f"exit status {code}", ""]
        text, code = said("verify", scenario, "--server", binaries[commit], "--model", gguf, "-p", profile)
        lines += [f"$ cachesim verify {scenario} --server {commit}/llama-server --model {model.file} -p {profile}",
                  text.rstrip(), f"exit status {code}", ""]  # fmt: skip
    (folder / "proof.txt").write_text("\n".join(lines), "utf-8")


def keyed_proof(folder, binaries, model=""):
    """Write the output of a report's program with each server. ``model``: file of the recorded model that it needs."""
    lines, given = [], f"MODEL={model} " if model else ""
    for commit, binary in binaries.items():
        more = {"LLAMA_SERVER": str(binary), **({"MODEL": str(MODELS / model)} if model else {})}
        done = subprocess.run([sys.executable, folder / "case.py"], env={**os.environ, **more},
                              capture_output=True, text=True, timeout=600)  # fmt: skip
        lines += [f"$ LLAMA_SERVER={commit}/llama-server {given}python3 case.py", (done.stdout + done.stderr).rstrip(),
                  f"exit status {done.returncode}", ""]  # fmt: skip
    (folder / "proof.txt").write_text("\n".join(lines), "utf-8")


def of_models(models):
    """Yield, for every kind of model and each of three histories, the servers on which its script shows the fault."""
    binaries = {commit: build.binary(commit) for commit in (*SERVERS, "b11549-one-character")}
    yield f"{'scenario':32}" + "".join(f"{commit:22}" for commit in binaries)
    for name, file in sorted(corpus_files().items()):
        if name.startswith(HISTORIES):
            text, _ = said("export", file, "--to", "script")
            codes = [run(text, binary, models)[0] for binary in binaries.values()]
            yield f"{name:32}" + "".join(f"{WORDS[code]:22}" for code in codes)


def main(words=()):
    (corpus_root() / "reports" / "programs.sha256").write_text(digests(), "utf-8")
    if "--digests" in words:
        return 0
    models = build.cache() / "models"
    models.mkdir(parents=True, exist_ok=True)
    for name, scenario in REPORTS.items():
        report(corpus_root() / "reports" / name, scenario, models)
        print(name)
    for name, (_, changed) in KEYED_REPORTS.items():
        keyed_proof(corpus_root() / "reports" / name, {one: build.binary(one) for one in ("b11549", changed)})
        print(name)
    for name, (model, changed) in ORDER_REPORTS.items() if MODELS.is_dir() else ():
        keyed_proof(corpus_root() / "reports" / name, {one: build.binary(one) for one in ("b11549", changed)}, model)
        print(name)
    (corpus_root() / "reports" / "models.txt").write_text("\n".join([*of_models(models), ""]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
