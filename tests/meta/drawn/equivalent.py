"""Faults that change nothing that a caller can notice, each with a proof that another person can check."""

EQUIVALENT: dict[str, str] = {
    'engines/shared/command_line.py, CommandLine.drafts_by_model: argument `"none"` dropped at 81 of return any('
    'kind.startswith("draft-") for kind in str(self.op':
        "without spec_type the text is then None instead of none; neither begins with draft-",
}
"""Name of the fault -> proof."""
