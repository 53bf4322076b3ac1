"""Reader of the cache-related files of a llama.cpp tree, from a folder or from an sdist with llama.cpp in
``thirdparty`` or ``vendor``. The contents are untrusted data: read within limits, never executed, never unpacked to
disk."""

from __future__ import annotations

import re
import tarfile
from fnmatch import fnmatch
from pathlib import Path

from cachesim.base.errors import BadInput

ROOT_FILE = "tools/server/server-context.cpp"
OLD_ROOT_FILE = "tools/server/server.cpp"
WATCHED = (
    "tools/server/server-context.*", "tools/server/server-task.*", "tools/server/server-common.*",
    "tools/server/server-queue.*", "tools/server/server-schema.*", "tools/server/server.cpp",
    "src/llama-kv-cache.*", "src/llama-kv-cache-iswa.*", "src/llama-kv-cells.h", "src/llama-memory.*",
    "src/llama-memory-hybrid.*", "src/llama-memory-hybrid-iswa.*", "src/llama-memory-recurrent.*",
    "src/llama-context.*", "src/llama-batch.*", "src/llama-io.*", "src/llama-hparams.*", "src/llama-model.cpp",
    "src/llama-arch.cpp", "common/common.*", "common/speculative.*", "common/sampling.cpp", "include/llama.h",
)  # fmt: skip
"""Files that may contain places."""

CACHE = (
    ("tools/server/server-context.*", r"(?!.*(?:mtmd|send_|metric|print_|json|routes|get_res_|render|set_embd))"),
    ("tools/server/server-task.*", r".*(?:prompt|checkpoint|slot|child|shared)"),
    ("tools/server/server-queue.*", r".*(?:defer|post|start_loop|pop)"),
    ("src/llama-kv-c*", r"(?!.*(?:build_|set_input|cpy_|_bytes|breakdown|llama_kv_cache_context))"),
    ("src/llama-memory*", r"(?!.*(?:_bytes|breakdown|total_size|_context::))"),
    ("src/llama-context.*", r".*(?:state_|memory|::decode|n_ctx|io_(?:read|write))"),
    ("src/llama-batch.*", r".*(?:split_|ubatch_add|allocr::init)"),
    ("src/llama-io.*", r""),
    ("src/llama-hparams.*", r".*(?:n_embd_[rs]|swa|recr)"),
    ("src/llama-model.cpp", r".*create_memory"),
    ("src/llama-arch.cpp", r"llm_arch_(?:is|supports)"),
    ("common/common.*", r"common_(?:prompt_checkpoint|memory|context_(?:can_)?seq_rm|params$)"),
    ("common/speculative.*", r"common_speculative(?:_(?!impl)|_impl(?:::|$|_draft_simple|_draft_mtp|_ngram_simple))"),
    ("common/sampling.cpp", r".*accept"),
    ("include/llama.h", r"LLAMA_(?:STATE|SESSION)"),
)
"""Cache logic: files, and names of symbols in them. Changes here matter even if no rule was read from them."""
MAX_FILE = 8 << 20

Tree = dict[str, str]
"""Path below llama.cpp's root -> text."""


def read_tree(path: Path) -> Tree:
    """Return the watched files of a tree. Raise BadInput if there are no such files."""
    tree = _from_folder(path) if path.is_dir() else _from_sdist(path)
    if not tree:
        raise BadInput("contains no llama.cpp tree (tools/server with its sources)", file=str(path))
    return tree


def build_of(path: Path) -> int:
    """Return the build in the name of a tree: xllamacpp's version ends with it (0 = unknown)."""
    found = re.search(r"(?:20\d\d\.\d+\.|\bb)(\d{4,6})(?:\.tar\.gz)?$", path.name)
    return int(found[1]) if found else 0


def in_cache(file: str, symbol: str) -> bool:
    """True if a symbol belongs to the cache logic."""
    return any(fnmatch(file, pattern) and re.match(name, symbol) for pattern, name in CACHE)


def _watched(path: str) -> bool:
    return any(fnmatch(path, pattern) for pattern in WATCHED)


def _from_folder(path: Path) -> Tree:
    places = [path, *path.glob("thirdparty/llama.cpp"), *path.glob("vendor/llama.cpp"), *path.glob("llama.cpp")]
    root = next((p for p in places if (p / ROOT_FILE).is_file() or (p / OLD_ROOT_FILE).is_file()), None)
    if root is None:
        return {}
    files = sorted(file for pattern in WATCHED for file in root.glob(pattern) if file.stat().st_size < MAX_FILE)
    return {str(file.relative_to(root)): file.read_text("utf-8", "replace") for file in files}


def _from_sdist(path: Path) -> Tree:
    tree: Tree = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                _, inside, name = member.name.rpartition("llama.cpp/")
                if member.isfile() and inside and _watched(name) and member.size < MAX_FILE:
                    file = archive.extractfile(member)
                    tree[name] = file.read().decode("utf-8", "replace") if file else ""
    except (OSError, tarfile.TarError) as error:
        raise BadInput(f"neither a folder nor an sdist: {error}", file=str(path)) from None
    return tree
