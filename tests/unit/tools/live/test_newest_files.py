"""Files of the recorded tiny models of the newest memories beside a real server: layers, flags and rounding."""

from pathlib import Path

import pytest

from cachesim.tools.live.llama_server.verify.model_of import RECORDED_NEWEST, base_flags, from_file


@pytest.mark.parametrize("name", RECORDED_NEWEST)
def test_a_recorded_tiny_model_is_known_by_its_name(name):
    found = from_file(Path(f"/nowhere/tiny-{name}.gguf"))
    assert (found.layers, found.is_tiny) == (name, True)


def test_blocks_are_chosen_only_with_flash_attention():
    flags = {name: base_flags(name) for name in RECORDED_NEWEST}
    with_flash = [name for name, words in flags.items() if words[words.index("-fa") + 1] == "on"]
    assert with_flash == ["minimax-m3"]
