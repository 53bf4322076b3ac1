"""Beginnings of a prompt that a reconstruction tries."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.assumed_lengths import AssumedLength
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.prompt_choices import SlotTexts
from cachesim.tools.server_logs.slot_contents import SlotText


@pytest.mark.parametrize(("whole", "held", "lcp"), [(False, 2154, 2154), (True, 2154, 0), (False, 2716, 0)])
def test_a_request_whose_beginning_is_cut_off_extends_what_later_lines_show(whole, held, lcp):
    texts = SlotTexts(0, began_empty=False)
    texts.keep(0, SlotText().append_word("A", held))
    first = next(iter(texts.choices(LoggedRequest(0, end=2736, is_whole=whole), [AssumedLength(2716)])))
    assert first.lcp == lcp
