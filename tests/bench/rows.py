"""Rows of the bench: a fixed list of what is measured.

A row is a whole command as people type it, from the start of Python to the last byte of its output. A row whose name
begins with ``loop:`` is a program of ``drivers`` instead, which calls the simulator without a command line: it has one
kind of work only, at a size that a command does not reach in this time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.spellings import Sign, Words

LIMIT = 60                    # CPU seconds of a process
MEMORY = 8 << 30              # bytes of address space of a process
CORRECT = (0, 3)              # exit codes: correct, undecided
FOUND = (0, 1, 3)             # also: failures were found
VLLM, SGLANG = Sign("cachesim/engines/vllm/__init__.py"), Sign("cachesim/engines/sglang/__init__.py")
AGENTS = Sign("cachesim/**/*.py", '"--for"')
BEFORE_START = Sign("cachesim/**/advise/start_command.py")


@dataclass(frozen=True)
class Row:
    """A row: a command or a driver, measured in a process of its own. Sizes are chosen so that all rows take at most 12
    minutes beside another commit (``__main__.PAIRS``)."""

    name: str
    words: Words = ()                    # after ``python -m cachesim``; words in braces are spelled for each commit
    driver: str = ""                     # name of a driver instead
    size: int = 0                        # argument of the driver
    needs: Sign | None = None            # sign of a commit that has a counterpart, None = every commit
    codes: tuple[int, ...] = CORRECT     # exit codes of a run that did its work
    limit: int = LIMIT                   # CPU seconds
    first_line: bool = False             # also a row of the CPU seconds until the first line of output
    instead: Row | None = None           # smaller row, measured where this one does not end


def _long_request(name: str, profile: str, words: Words, needs: Sign | None = None) -> Row:
    """Return the row of a request of 1,000,000 tokens, with its smaller one."""

    def row(tokens: int) -> Row:
        command = ("{line}", f"A{tokens}", "-p", profile, "--provenance", "{many-tokens}", *words)
        smaller = row(100_000) if tokens > 100_000 else None
        return Row(f"{tokens:,} tokens, {name}", command, needs=needs, instead=smaller)

    return row(1_000_000)


def _search(name: str, profile: str, needs: Sign | None = None) -> Row:
    command = ("fuzz", "-p", profile, "--examples", "300", "--seed", "1", "-j", "1", "--no-shrink")
    return Row(f"search of 300, {name}", command, needs=needs, codes=FOUND)


def _replay(mode: str, n: int, files: str) -> Row:
    return Row(f"replay of {n}, {mode}", ("replay", "--mode", mode, files), codes=FOUND)


def _driver(name: str, driver: str, size: int, needs: Sign | None = None) -> Row:
    return Row(f"loop: {name}", driver=driver, size=size, needs=needs)


def _turns(name: str, engine: str, needs: Sign | None = None) -> Row:
    words = ("run", f"{{turns-{engine}}}", "--provenance", "{many-tokens}")
    return Row(f"run, 1,000 turns, {name}", words, needs=needs, codes=FOUND)


_ALTERNATING = "A40/B40" + "/A/B" * 499
"""1,000 requests of two conversations in a single slot: each request loses what the one before it evaluated."""
_LOSSES = ("{line}", _ALTERNATING, "-p", "llama_cpp@b11549", "--model", "A", "--set", "parallel=1", "--set",
           "cache_ram=0", "--provenance", "{many-tokens}")  # fmt: skip
_CASE = ("{scenario}", "-p", "llama_cpp@b11549")
_SERVER = "vllm serve Qwen/Qwen3-8B --max-model-len 32768"
_SETUP = ("--model", "llama-3", "--memory", "16GiB", "--clients", "1")
_SGLANG_SLOTS = ("--set", "max_total_tokens=1100000", "--set", "max_mamba_cache_size=1000")
ROWS = (
    Row("--version (start-up)", ("--version",)),
    Row("--help", ("--help",)),
    Row("explain", ("explain", "pos_min")),
    Row("options", ("options", "llama_cpp")),
    Row("scenarios", ("scenarios",)),
    Row("lesson", ("lesson", "3")),
    Row("run of a scenario", ("run", *_CASE), codes=FOUND),
    Row("a picture", ("run", *_CASE, "--html", "{out}/page.html"), codes=FOUND),
    Row("why", ("why", "{scenario}", "2", "-p", "llama_cpp@b11549"), codes=FOUND, first_line=True),
    Row("bisect", ("bisect", "{scenario}"), codes=FOUND),
    Row("advise", ("advise", *_CASE), codes=FOUND, first_line=True),
    Row("advise of a log", ("{advise-log}",), codes=FOUND, first_line=True),
    Row("advise --for agents", ("advise", "--for", "agents", *_SETUP), needs=AGENTS),
    Row("advise --server, vLLM", ("advise", "--server", _SERVER), codes=FOUND, needs=BEFORE_START),
    Row("export", ("export", *_CASE, "--to", "curl"), first_line=True),
    Row("import, llama.cpp's log", ("import", "{llama-log}"), codes=FOUND),
    Row("import, ik_llama.cpp's log", ("import", "{ik-log}"), codes=FOUND),
    Row("import of 1,000 bodies", ("import", "{bodies}"), codes=FOUND),
    Row("run, 1,000 words, --json", ("run", "{words}", "--json"), codes=FOUND),
    _turns("llama.cpp", "llama_cpp"),
    _turns("vLLM", "vllm", VLLM),
    _turns("SGLang", "sglang", SGLANG),
    Row("1,000 requests with losses", _LOSSES, codes=FOUND),
    _replay("none", 60, "{recordings}"),
    _replay("provenance", 60, "{recordings}"),
    _replay("exact", 20, "{third-of-recordings}"),
    _search("llama.cpp", "llama_cpp@b11549"),
    _search("ik_llama.cpp", "ik_llama@2491"),
    _search("mlx-lm", "mlx_lm@0.32.2"),
    _search("vLLM", "vllm@0.33.0", VLLM),
    _search("SGLang", "sglang@0.5.23", SGLANG),
    _long_request("llama.cpp", "llama_cpp@b11549", ("--set", "ctx_size=1048576")),
    _long_request("ik_llama", "ik_llama@2491", ("--set", "ctx_size=1048576")),
    _long_request("mlx-lm", "mlx_lm@0.32.2", ()),
    _long_request("vLLM", "vllm@0.33.0", ("--set", "num_gpu_blocks=70000"), VLLM),
    _long_request("SGLang", "sglang@0.5.23", _SGLANG_SLOTS, SGLANG),
    _driver("2,000 judged requests", "judge_short", 2000),
    _driver("1,000 judged, vLLM", "judge_vllm", 1000, VLLM),
    _driver("1,000 judged, SGLang", "judge_sglang", 1000, SGLANG),
    _driver("prompt cache, 400 talks", "judge_conversations", 400),
    _driver("vLLM, 100,000 blocks", "fill_blocks", 100_000, VLLM),
    _driver("SGLang, 10,000 nodes", "fill_tree", 10_000, SGLANG),
    _driver("answer of 16,000 tokens", "judge_answer", 16_000),
    _driver("60 requests of 100,000", "judge_session", 60),
    _driver("exact prompt of 16,000", "prefill_exactly", 16_000),
)  # fmt: skip
