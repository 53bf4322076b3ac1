"""Quick test of the search for planted faults: three faults that are detected soon, so that it can run with all other
tests."""

import pytest

from tests.meta.faults import FAULTS
from tests.meta.plant import Field

pytestmark = pytest.mark.long

EXAMPLES = 30
SOON = {
    "seq_rm spares the first position": "warm-equals-cold",
    "freed cells are not counted as free": "memory-sound",
    "a hit lends the stored layers": "stored-equals-cold",
}


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    return Field(tmp_path_factory.mktemp("planted"))


@pytest.mark.parametrize("name", SOON)
def test_a_fault_is_found_soon_by_its_property(field, name):
    (fault,) = (one for one in FAULTS if one.name == name)
    profile = field.profiles(fault)[0]
    field.note(profile, EXAMPLES)
    (found,) = field.ask(fault, (profile,), EXAMPLES)
    assert (found.by, found.how) == (SOON[name], "clean")
