"""Which engines come with cachesim? Each is imported when somebody asks for it: a third of the time in which a command
starts is the import of engines."""

from __future__ import annotations

from typing import Callable, Iterator, Mapping

from cachesim.engines.contract import Engine


def _llama_cpp() -> Engine:
    from cachesim.engines.llama_cpp import ENGINE

    return ENGINE


def _ik_llama() -> Engine:
    from cachesim.engines.ik_llama import ENGINE

    return ENGINE


def _mlx_lm() -> Engine:
    from cachesim.engines.mlx_lm import ENGINE

    return ENGINE


class Shipped(Mapping[str, Engine]):
    """Engines by name, imported one by one."""

    def __init__(self, load: Mapping[str, Callable[[], Engine]]) -> None:
        self._load = load

    def __getitem__(self, name: str) -> Engine:
        return self._load[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._load)

    def __len__(self) -> int:
        return len(self._load)


SHIPPED = Shipped({"llama_cpp": _llama_cpp, "ik_llama": _ik_llama, "mlx_lm": _mlx_lm})
"""The engines that come with cachesim, by name; the first is meant where none is named."""
