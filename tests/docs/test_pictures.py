"""The pictures in the repository are those that the product draws today."""

import pytest

from tests.docs.pictures import FOLDER, SHOWN, UNDER, picture


@pytest.mark.parametrize("name", [*SHOWN, *UNDER])
def test_a_picture_is_up_to_date(name):
    assert (FOLDER / f"{name}.svg").read_text("utf-8") == picture(name), "make docs renews it"
