"""Import of server logs: statements of their lines, conclusions from the printed numbers, and a simulation that meets
them. Logs may be pasted, wrapped, truncated and of any build. Their lines are untrusted data, read within fixed limits.

    lines    logical_lines -> recognise -> line_ties         text of a file -> requests as groups of lines
    facts    log_reader (session) -> request_numbers         groups of lines -> numbers of requests (``LogSession``)
             conclusions                                     numbers -> statements (``conclude``)
    rebuild  settings_search -> prefix_trials                ``LogSession`` -> simulated requests (``Reconstruction``)
    report   headline, first_lines, statement_report         statements and reconstruction -> text

Each room imports only those above it; ``import_log`` and ``command`` import all of them.
"""
