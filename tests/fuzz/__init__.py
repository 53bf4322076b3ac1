"""Tests of the search: known defects that it must find, and properties that hold. Most are marked slow."""
