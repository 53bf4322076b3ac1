"""Names of a package that are imported on first use."""

import json

import pytest

from cachesim.engines.shared.package_names import names_on_demand


def test_a_listed_name_is_that_of_the_module_and_another_one_is_unknown():
    found = names_on_demand("json.decoder", ("JSONDecoder",))
    assert found("JSONDecoder") is json.JSONDecoder
    with pytest.raises(AttributeError, match="module 'json' has no attribute 'scanstring'"):
        found("scanstring")
