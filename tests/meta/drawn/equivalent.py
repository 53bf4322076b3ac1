"""Faults that change nothing that a caller can notice, each with a proof that another person can check."""

EQUIVALENT: dict[str, str] = {
    'engines/shared/command_line.py, CommandLine.drafts_by_model: argument `"none"` dropped at 81 of return any('
    'kind.startswith("draft-") for kind in str(self.op':
        "without spec_type the text is then None instead of none; neither begins with draft-",
    "tools/server_logs/line_ties.py, LineTies._adopt: `<` -> `<=` at 56 of before = [line for line in request.lines if "
    "line.number < pr":
        "the prefix is a line of another group, so that no line of the request has its number",
    'tools/server_logs/line_prefixes.py, _message_after: `1` -> `2` at 55 of if (found := _FIELDS.search(line, 0, '
    'line.rfind("|") + 1)) i':
        "the pattern ends at its first bar after the bracket, which is never after the last bar of the line",
    "tools/server_logs/tied_requests.py, PossibleBuilds.__init__: `0` -> `1` at 27 of self._since, self._until = 0, 0":
        "it is only compared with the number of a build that ended a spelling, and these are greater than 1",
}
"""Name of the fault -> proof."""
