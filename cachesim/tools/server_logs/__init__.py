"""Import of server logs: statements of their lines, conclusions from the printed numbers, and a simulation that meets
them. Logs may be pasted, wrapped, truncated and of any build. Their lines are untrusted data, read within fixed limits.

    logical_lines -> log_reader (session) -> line_ties -> derivations -> conclusions -> statement_report
                                          -> reconstruct (printed_numbers) -> log_scenario -> cures -> report
"""
