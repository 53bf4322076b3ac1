"""Table of adapters: their packages and the models to run them with.

``packages`` are pinned if their version matters; only the requirements of a server's caches are installed.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

MLX = ("mlx[cpu]", "mlx-lm==0.31.3")


class Adapter(NamedTuple):
    """A module of this folder. ``alone`` is installed without its dependencies, ``packages`` with theirs."""

    module: str
    environment: str
    kinds: Sequence[str]
    packages: Sequence[str]
    alone: Sequence[str] = ()


TRANSFORMERS = ("torch==2.13.0", "transformers==5.23.0")
VLLM = (
    "torch==2.13.0", "transformers>=5.16.1,<5.21", "aiohttp", "anthropic", "blake3", "cachetools", "cbor2",
    "cloudpickle", "compressed-tensors==0.17.0", "depyf==0.20.0", "einops", "fastapi", "ijson", "jsonschema",
    "lark==1.2.2", "llguidance>=1.7,<1.8", "mcp>=2.2,<3", "msgspec", "openai", "orjson", "oss-harmony",
    "partial-json-parser", "pillow", "prometheus_client", "protobuf", "psutil", "py-cpuinfo", "pybase64",
    "pydantic", "python-json-logger", "pyyaml", "pyzmq", "regex", "requests", "sentencepiece", "setproctitle",
    "tiktoken", "tqdm", "uvloop", "watchfiles", "xgrammar==0.2.8",
)  # fmt: skip
ADAPTERS = (
    Adapter("transformers_append", "transformers", ("Llama", "Mistral", "Bamba", "Mamba", "RecurrentGemma"),
            TRANSFORMERS),
    Adapter("transformers_crop", "transformers", ("Llama", "Mistral"), TRANSFORMERS),
    Adapter("mlx_lm_lru", "mlx_lm", ("llama", "qwen3_next", "gemma3", "mamba2"), ("mlx[cpu]", "mlx-lm==0.32.2")),
    Adapter("mlx_omni_server_pool", "mlx_omni_server", ("llama", "qwen3_next"),
            ("mlx[cpu]==0.31.2", "mlx-lm==0.31.3", "transformers>=5.5,<5.9", "pydantic", "rich"),
            ("mlx-omni-server==0.5.3",)),
    Adapter("vllm_mlx_memory", "vllm_mlx", ("llama", "qwen3_next", "gemma3"), (*MLX, "psutil"), ("vllm-mlx==0.6.0",)),
    Adapter("rapid_mlx_memory", "rapid_mlx", ("llama", "gemma3"), (*MLX, "psutil", "requests"),
            ("rapid-mlx==0.16.10",)),
    Adapter("sglang_radix", "sglang", ("1", "4"), ("numpy", "msgspec"), ("sglang==0.5.23",)),
    Adapter("nano_vllm", "nano_vllm", ("4", "16"), ("numpy", "xxhash"), ("nano-vllm-voxcpm==2.0.5",)),
    Adapter("vllm_blocks", "vllm", ("full", "window"), VLLM, ("vllm==0.33.0",)),
)  # fmt: skip
