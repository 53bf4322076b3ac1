"""Selection of recorded traces for tests/data: choose files from the full set and copy them byte for byte.

Greedy set cover by bytes per new element; whether this build can replay a file does not matter. To be covered: every
model, every workload, every kind of event per rule set, every file of commit 3f545be with a wrong answer that is not a
consequence of a shift, and every workload with other wrong answers. Each older rule set contributes at most two files,
those with the most kinds of events and wrong answers for their size. The selection is deterministic. Run: python
tests/data/choose.py [../shared/traces]
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Callable, Iterable

HERE = Path(__file__).resolve().parent
FOLDERS = ("llama_cpp", *(f"llama_cpp_history/{p}" for p in ("head", "pr24143-on-head", "base-24143", "base-24035")))
OLDER = tuple(f"llama_cpp_history/{p}" for p in (
    "user-turns", "minus-one", "spring-2026", "before-min0", "before-20671", "two-ends", "every-8192", "mtmd-broken",
    "late-2025", "hybrid-first", "swa-first",
))  # fmt: skip
OURS = ("llama_cpp_drafts", "vllm_offload", *(f"vllm_releases/{release}" for release in (
    "0.24.0", "0.25.1", "0.26.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0")))  # fmt: skip
"""Not chosen: ``python -m tests.peers.vllm_compare --record`` wrote them."""
ODD = ("llama_cpp_odd",)     # every workload, every field of its requests, and every kind of event
OTHERS = ("ik_llama", "llama_cpp_b11549", "llama_cpp_new_memories")
"""Models, kinds of events and wrong answers, but not every workload."""
NAMED = {
    "ik_llama_odd": (
        "llama-context_shift-7009", "llama-context_shift-50009", "gemma3l6-context_shift-7009",
        "llama-inject_early-50005", "llama-no_cache_prompt-50011",
    ),
    "ik_llama_parallel": (
        "gemma3l6-cancel_group-5013", "gemma3l6-slot_files-5017", "llama-shortage-5049", "qwen35d64-interleave-5011",
        "qwen35d64-multi-5055", "qwen35d64-shortage-5059", "qwen35d64mtp-burst-5010", "qwen35d64mtp-slot_files-5007",
    ),
    "vllm": (
        "full_mamba_ckpt-236", "full_mamba_ckpt-5024", "full_mamba_ckpt-5240", "full_mamba_part-4290",
        "full_mamba_part-5318", "full_mamba_part16-32", "full_mamba_part16-177", "swa-3772", "swa_wide-3006",
        "full-4303", "full_mamba_part-4184", "chunked-105", "full2-76", "full4_mamba8-285", "full4_swa8-35",
        "full8_swa4-253", "full_chunked-187", "full_dcp2-46", "full_mamba-99", "full_mamba8-168",
        "full_mamba_dcp2-166", "full_mamba_mamba-3179", "full_mamba_none-108", "full_nocache-254", "full_swa-113",
        "full_swa2w-157", "full_swa9-194", "full_swa_mamba-133", "full_swa_nocache-211", "full_swa_swa-241",
        "mamba-270", "mamba_none-262",
    ),
    "sglang": (
        "full-44", "full-76", "full_mamba-126", "full_mamba-133", "full_swa-113", "full_swa-161", "full_swa-249",
        "full_swa_mamba-31", "full_swa_mamba-285",
    ),
}
"""Small recordings that an earlier version did not reproduce: context shifts with and without kept leading tokens,
two in a row, prompts longer than the context. With several slots: answers that are not numbers, slot actions within a
group, lack of room, a failed load, uninitialised numbers, and wrong answers of each cause. Of a scheduler's classes:
every wrong answer, two ends of the process, two wrong drafters, and the smallest of every other kind of model; of a
tree, few files with every model, policy, kind of event and verdict, and a retraction of each model."""
MOST = 2                 # files of an older rule set, at most
LIMIT = (2 << 20) + (1560 << 10)

Thing = tuple[str, ...]


def things(trace: dict[str, Any], folder: str) -> set[Thing]:
    """Return the elements that a trace covers."""
    model = trace["model"].removeprefix("tiny-").removesuffix(".gguf")
    workload = re.sub(r"-\d{3,}$", "", trace["name"].removeprefix(model + "-"))
    kinds = {event["ev"] for step in trace["steps"] for event in step["events"]}
    found: set[Thing] = {("model", model), ("workload", workload), ("folder", folder)}
    found |= {("event", folder, kind) for kind in kinds}
    for entry in trace["inexact"]:
        consequence = entry.get("shifted") or folder != "llama_cpp"
        found.add(("inexact", folder, workload) if consequence else ("inexact", trace["name"]))
    return found


def asked(trace: dict[str, Any], folder: str) -> set[Thing]:
    """Return the elements that a trace of an odd workload covers: request fields, refusals, kinds of events."""
    found = {thing for thing in things(trace, folder) if thing[0] != "model"}
    workload = next(thing[1] for thing in found if thing[0] == "workload")
    for step in trace["steps"]:
        for part in step.get("steps") or [step]:
            found |= {("field", workload, name) for name in part["request"]}
            if part["request"].get("id_slot", -1) >= (trace["server"].get("n_slots") or 99):
                found.add(("no slot's number",))
            found.add(("status", workload, str((part.get("response") or {}).get("status"))))
    return found


def cover(shown: dict[Path, set[Thing]]) -> list[Path]:
    """Return files that together cover everything that any file covers, without redundant files."""
    left = set().union(*shown.values())
    size = {path: path.stat().st_size for path in shown}
    chosen: list[Path] = []
    while left:
        best = min(shown, key=lambda path: (-len(shown[path] & left) / size[path], str(path)))
        chosen.append(best)
        left -= shown[best]
    for path in sorted(chosen, key=lambda path: (-size[path], str(path))):
        others = [shown[file] for file in chosen if file != path]
        if shown[path] <= set().union(*others):
            chosen.remove(path)
    return chosen


def few(shown: dict[Path, set[Thing]], most: int) -> list[Path]:
    """Return at most ``most`` files that cover many elements other than the name of their workload."""
    left = {thing for found in shown.values() for thing in found if thing[0] != "workload"}
    size = {path: path.stat().st_size for path in shown}
    chosen: list[Path] = []
    while left and len(chosen) < most:
        best = min(shown, key=lambda path: (-len(shown[path] & left) / size[path] ** 0.7, str(path)))
        chosen.append(best)
        left -= shown[best]
    return chosen


def shown_in(
    traces: Path, folder: str, show: Callable[[dict[str, Any], str], set[Thing]] = things
) -> dict[Path, set[Thing]]:
    """Return the elements covered by each file of a folder."""
    return {path: show(json.loads(path.read_text()), folder) for path in sorted((traces / folder).glob("*.json"))}


def bare(shown: dict[Path, set[Thing]]) -> dict[Path, set[Thing]]:
    """Return the elements without workload names."""
    return {path: {thing for thing in found if thing[0] != "workload"} for path, found in shown.items()}


def choose(traces: Path) -> list[Path]:
    """Return the chosen files of a folder of recorded traces."""
    whole: dict[Path, set[Thing]] = {}
    for folder in FOLDERS:
        whole |= shown_in(traces, folder)
    others = [path for folder in OTHERS for path in cover(bare(shown_in(traces, folder)))]
    others += [path for folder in ODD for path in cover(shown_in(traces, folder, asked))]
    others += [traces / folder / f"{name}.json" for folder, names in NAMED.items() for name in names]
    return [*cover(whole), *others, *(path for folder in OLDER for path in few(shown_in(traces, folder), MOST))]


def copy(chosen: Iterable[Path], traces: Path, here: Path = HERE) -> int:
    """Replace the recordings in all source folders by the chosen files; return their total size [bytes]. Other folders,
    recorded elsewhere, are unchanged. Raise FileNotFoundError before removing anything."""
    chosen = list(chosen)
    for path in chosen:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such recording; nothing was changed")
    for folder in (*FOLDERS, *OLDER, *ODD, *OTHERS, *NAMED):
        for old in (here / folder).glob("*.json"):
            old.unlink()
    total = 0
    for path in chosen:
        target = here / path.relative_to(traces)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        total += path.stat().st_size
    return total


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[2] / "shared" / "traces"
    if not any((source / folder).is_dir() for folder in FOLDERS):
        sys.exit(f"{source}: no recorded traces here; nothing was changed")
    files = choose(source)
    size = copy(files, source)
    sys.stdout.write(f"{len(files)} files, {size} bytes\n")
    sys.exit(size > LIMIT)
