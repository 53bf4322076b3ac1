"""The pictures in the repository are current."""

import xml.etree.ElementTree as ET

import pytest

from tests.docs.pictures import FOLDER, drawn, names, picture
from tests.scenarios.whole import corpus


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.long] * bool(number % 4)) for number, name in enumerate(names())
])
def test_a_picture_is_up_to_date(name):
    assert (FOLDER / f"{name}.svg").read_text("utf-8") == picture(name), "make docs renews it"


@pytest.mark.long
def test_a_scenario_of_every_model_can_be_drawn():
    """Model names belong to engines; drawing once failed for every scenario whose model has a name."""
    cases = sorted(corpus(), key=lambda one: -len(one.steps))
    some = {one.model: one.file for one in cases if "slow" not in one.file}
    assert {"llama", "gemma3", "mamba2", "deepseek4", "GGGA"} <= some.keys()
    for file in some.values():
        assert ET.fromstring(drawn(file, 1)).tag.endswith("svg"), file
