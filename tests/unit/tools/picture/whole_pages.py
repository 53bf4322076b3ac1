"""Whole pages of small runs, in the folder ``pages``: text beside the drawings, legends, and data for the script. After
an intended change run python -m tests.unit.tools.picture.whole_pages, and look at the difference."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import zlib
from pathlib import Path

from cachesim.cli.main import main

FOLDER = Path(__file__).parent / "pages"
LLAMA, MLX, VLLM, SGLANG = (("-p", name) for name in (
    "llama_cpp@b10587", "mlx_lm@0.32.2", "vllm@0.33.0", "sglang@0.5.23"))  # fmt: skip
PAGES = {
    "wrong": ("run", "S12.A8/S.A>3/B9@0/S.A.C5", "--model", "GA", "-p", "ik_llama@1889-base"),
    "pools": ("run", "S10.A40/B20/S.A.C4", "--model", "A", *VLLM, *SGLANG),
}  # fmt: skip
"""Name of the file -> the command that writes it."""
DRAWING = re.compile(r'<svg class="cs" xmlns.*?</svg>\n?', re.S)       # of a run: pictures of their own show it
TOOLS = re.compile(r'(<section class="tools"[^>]*>).*?</section>', re.S)
PATTERNS = re.compile(r"<defs>.*?</defs>", re.S)
DATA = re.compile(r'(?<=class="walk">)[\w+/=]+(?=</script>)')
BEGINS = re.compile(r"(?=<(?:section|div|details|summary|p|h2|h3|li|tr|tfoot|pre|svg|rect)\b)")


def body(page: str) -> str:
    """Return what a page shows, an element a line, without drawings and buttons; its packed data as lines of JSON."""
    shown = page.partition("<main>")[2].partition("</main>")[0]
    shown = TOOLS.sub(r"\1", shown)
    shown = BEGINS.sub("\n", PATTERNS.sub("", DRAWING.sub("(drawing)", shown)))
    shown = DATA.sub(lambda found: f"\n{_unpacked(found[0])}\n", shown)
    return "".join(f"{line}\n" for line in shown.splitlines() if line.strip())


def _unpacked(data: str) -> str:
    """Return the data of a timeline: the forms of sentences, then a line for each field of a run."""
    found = json.loads(zlib.decompress(base64.b64decode(data)))
    lines = [*found["forms"]]
    for run in found["runs"]:
        lines += [f"{name}: {value if name == 'log' else json.dumps(value)}" for name, value in run.items()]
    return "\n".join(lines)


def written(name: str, folder: Path) -> str:
    """Return the body of a page, written in this folder."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main([*PAGES[name], "--html", str(folder / name)])
    return body((folder / name).read_text("utf-8"))


if __name__ == "__main__":
    for name in PAGES:
        text = written(name, FOLDER)
        (FOLDER / name).unlink()
        (FOLDER / f"{name}.txt").write_text(text, "utf-8")
