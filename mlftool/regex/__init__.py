"""A compiler of its own: regular expressions to tables that C walks through byte by byte."""
