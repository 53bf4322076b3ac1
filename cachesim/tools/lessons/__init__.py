"""Lessons: Markdown files with pictures, shown in a terminal, on an HTML page, and on a code host."""
