"""How many bytes do rows and states weigh, where a model is given the sizes of a real one?

``GGGA@24576/26345472`` is the model GGGA, of which a K row plus a V row of one attention layer weighs 24,576 bytes and
the state of one recurrent layer 26,345,472: limits in bytes then bind where they would with the real model. Without
``@`` a model has the sizes of the recorded tiny ones. ``W32 A@24576/0/64``: an attention head is 64 numbers wide, not
16 as in the recorded models; some kernels of real servers work on wide heads only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cachesim.base.errors import BadInput, quoted

HEAD = 16
"""Width of a head in the recorded models, and in ours."""

_SIZES = re.compile(r"(\d{1,15})/(\d{1,15})(?:/(\d{1,4}))?")


class Declared(NamedTuple):
    """Bytes of one token's K and V rows in one attention layer, and of the state of one recurrent layer; ``head``: the
    width of an attention head in numbers, that of the recorded models without one."""

    row: int
    state: int
    head: int = HEAD


def with_sizes(model: str, sizes: Declared) -> str:
    """The name of a model with these sizes."""
    head = f"/{sizes.head}" if sizes.head != HEAD else ""
    return f"{model}@{sizes.row}/{sizes.state}{head}"


def split(name: str) -> tuple[str, Declared | None]:
    """The model that a name means, and the sizes that it declares (None = none). Raises BadInput."""
    model, at, text = name.partition("@")
    if not at:
        return name, None
    found = _SIZES.fullmatch(text)
    if found is None:
        raise BadInput(f"model {quoted(name)}: sizes are two numbers of bytes", hint="for example GGGA@24576/26345472")
    return model, Declared(int(found[1]), int(found[2]), int(found[3] or HEAD))
