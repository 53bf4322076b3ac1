"""Lessons: Markdown files beside their pictures, the same text in a terminal, on a page, and on a code host."""
