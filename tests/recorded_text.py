"""``python -m tests.recorded_text [TEXT]``: write the recorded text and numbers of the unit tests anew.

With TEXT, only those whose program or file contains it. Each program is listed once, with the files that it writes.
After an intended change read the difference (``git diff``). ``make docs`` writes the outputs in the documents.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "tests/unit"
WRITERS = {
    "engines.decision_sentences": "engines/*/decision_sentences.txt",
    "engines.ik_llama.feature_conversations": "engines/ik_llama/feature_numbers.txt",
    "engines.llama_cpp.feature_conversations": "engines/llama_cpp/feature_numbers.txt",
    "engines.mlx_lm.feature_conversations": "engines/mlx_lm/feature_numbers.txt",
    "engines.sglang.conversations": "engines/sglang/conversation_numbers.txt",
    "engines.vllm.conversations": "engines/vllm/conversation_numbers.txt",
    "tools.lessons.made_page": "tools/lessons/page.txt",
    "tools.picture.whole_pages": "tools/picture/pages/*.txt",
    "tools.picture.whole_pictures": "tools/picture/*.svg tools/picture/trace.json",
    "tools.printed_outputs": "tools/*/outputs.txt",
    "tools.request_bodies.reports": "tools/request_bodies/reports.txt",
    "tools.run.reports": "tools/run/reports.txt",
    "tools.search.drawn_conversations": "tools/search/drawn_conversations.txt",
    "tools.server_logs.report_sentences": "tools/server_logs/report_sentences.txt",
}
"""File patterns by program, both below tests/unit."""


def chosen(text: str = "") -> list[str]:
    """Return the programs whose name, or the name of one of whose files, contains a text."""
    return [name for name, patterns in WRITERS.items()
            if text in name or any(text in file for file in files(patterns))]  # fmt: skip


def files(patterns: str) -> list[str]:
    """Return the recorded files of some patterns, from the root of the checkout."""
    return sorted(file.relative_to(ROOT).as_posix() for one in patterns.split() for file in UNIT.glob(one))


def main(words: list[str]) -> int:
    """Run the programs, each in its own process, and print what it wrote."""
    names = chosen(*words[:1])
    for name in names:
        subprocess.run([sys.executable, "-m", f"tests.unit.{name}"], cwd=ROOT, check=True)
        print(f"{name}: {' '.join(files(WRITERS[name]))}", flush=True)
    return 0 if names else 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
