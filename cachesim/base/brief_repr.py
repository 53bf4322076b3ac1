"""Short texts of records, for ``repr``: a record of a long prompt still fits a terminal."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from reprlib import Repr
from typing import Any

ITEMS = 4                    # items of a list that are shown
_brief = Repr()
_brief.maxtuple = _brief.maxlist = _brief.maxdict = ITEMS
_brief.maxstring = _brief.maxother = 40


def brief_repr(record: Any) -> str:
    """Return the class of a dataclass instance with the fields that differ from their defaults. Long values are cut:
    ``Request(prompt=(1000, 1001, 1002, 1003, ... 100 items), n_predict=8)``."""
    values = [(declared, getattr(record, declared.name)) for declared in fields(record)]
    shown = [f"{declared.name}={_shown(value)}" for declared, value in values if not _is_default(declared, value)]
    return f"{type(record).__qualname__}({', '.join(shown)})"


def _shown(value: object) -> str:
    """Return the text of a value, with the number of items of a list that is cut."""
    text = _brief.repr(value)
    if isinstance(value, tuple | list) and len(value) > ITEMS:
        return f"{text[:-1]} {len(value)} items{text[-1]}"
    return text


def _is_default(declared: Field[Any], value: object) -> bool:
    """True if a field has its default. A value of another type, such as an array, is not compared with it."""
    default = declared.default if declared.default_factory is MISSING else declared.default_factory()
    return default is not MISSING and type(value) is type(default) and value == default
