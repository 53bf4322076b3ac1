"""Bytes of a server's caches with each value of an option, for a real model."""

from __future__ import annotations

from argparse import ArgumentTypeError
from bisect import bisect_right
from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.shared.capacity import CapacitySize
from cachesim.engines.shared.memory_use import MemoryForms, MemoryQuestion
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import ModelSizes, real_model
from cachesim.scenarios.option_checks import in_force
from cachesim.tools.run.work_arguments import GIB, memory_size
from cachesim.tools.workload.cell_jobs import model_of
from cachesim.tools.workload.simulated_servers import context_for, filled_options


class ServerMemory(NamedTuple):
    """Memory of a server with a model. ``model``: None for layers without real sizes; ``forms``: None if the sizes of
    its caches are not known; ``longest``: tokens of the longest request; ``token_bytes``: of a token's rows, 0 =
    unknown."""

    profile: str
    given: Mapping[str, Option]
    model: RealModel | None
    forms: MemoryForms | None
    longest: int
    token_bytes: int

    def total(self, option: str, value: Option) -> int | None:
        """Return the bytes of the caches with a value of an option, None if they are not known: also if they depend on
        a size that the server derives from its device."""
        found = self._total({option: value})
        for name in filled_options(engine_of(self.profile)) - {option, *self.given}:
            default = in_force(self.given, self.profile)[name]
            if isinstance(default, int) and found != self._total({option: value, name: 2 * default}):
                return None
        return found

    def _total(self, changed: Mapping[str, Option]) -> int | None:
        """Return the bytes of the caches with these options, None if they are not known."""
        if self.model is None or self.forms is None:
            return None
        defaults = {flag.name: flag.default for flag in self.forms.flags}
        given = {**context_for(engine_of(self.profile), self.given, self.longest), **self.given, **changed}
        options = {**defaults, **in_force(given, self.profile)}
        try:
            use = self.forms.use(MemoryQuestion(self.model, options, rules_of(self.profile), tokens=self.longest))
        except BadInput:
            return None
        return None if use.unlimited else use.total

    def values(self, size: CapacitySize, words: Sequence[str]) -> Iterator[int]:
        """Yield the largest value of an option that fits into each memory, such as 8GiB. Raise BadInput."""
        for word in words:
            try:
                room = memory_size(word)
            except ArgumentTypeError as error:
                raise BadInput(f"--curve memory: {error}") from None
            yield self.largest(size, room, word)

    def largest(self, size: CapacitySize, room: int, word: str) -> int:
        """Return the largest value that fits into so many bytes, which messages call ``word``. Raise BadInput if none
        does."""
        flag = engine_of(self.profile).manual.flag(size.option)
        first = max(0, flag.least) if flag else 0
        least = self.total(size.option, first)
        if least is None:
            raise BadInput("--curve memory: the sizes of this model's caches are not known",
                           hint=f"--curve {size.option}=N,N")  # fmt: skip
        values = range(first, room)
        fitting = bisect_right(values, False, key=lambda value: not self._fits(size.option, value, room))
        if not fitting:
            raise BadInput(f"--curve memory: {word} is less than {least / GIB:.1f} GiB, which the caches take with "
                           f"{size.option} {first}")  # fmt: skip
        return values[fitting - 1]

    def _fits(self, option: str, value: int, room: int) -> bool:
        """True if a value of an option fits into so many bytes."""
        total = self.total(option, value)
        return total is not None and total <= room


def server_memory(profile: str, model: str, given: Mapping[str, Option], longest: int) -> ServerMemory:
    """Return the memory of a server. ``model``: as ``workload`` takes it. Raise BadInput for an unknown model."""
    forms = engine_of(profile).memory()
    sizes = model_of(model)
    if not isinstance(sizes, ModelSizes):
        return ServerMemory(profile, given, None, forms, longest, 0)
    return ServerMemory(profile, given, real_model(model), forms, longest, sizes.token_bytes)
