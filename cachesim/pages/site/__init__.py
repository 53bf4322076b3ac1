"""The site: the pages of the documentation, and pages that are written from rules, flags, log lines and scenarios.

    make site                            # build/site/index.html, which needs neither a server nor the network

Sphinx builds it (the extra ``site``): it writes static pages, searches without a server, makes the reference of the
Python interface from docstrings, and reads Markdown with MyST. Furo is the theme: it fits phones and both colour
schemes. `site_sources` writes the Markdown files, ``conf.py`` configures Sphinx, `check_links` reads the result.
"""
