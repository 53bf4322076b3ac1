"""Tests of drawn servers for real builds."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.real.drawn_servers import ALSO, option_set


def test_models_without_a_file_are_left_out_and_refused_if_none_is_left():
    drawn = {option_set(0, number, ("I8", "AA", "ctx_size=512")).world.model for number in range(8)}
    assert drawn == {"AA"} and "I8" not in ALSO
    with pytest.raises(BadInput, match="--real: no model file is written for layers I8, W8 I8") as bad:
        option_set(0, 0, ("I8", "W8 I8", "ctx_size=512"))
    assert "--gguf FILE" in bad.value.hint
