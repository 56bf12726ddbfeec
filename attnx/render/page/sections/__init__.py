"""The sections of the page, a folder each: data and plain text in Python, a script, a style and a template."""
