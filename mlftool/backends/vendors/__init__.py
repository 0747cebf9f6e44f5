"""The backends that mlftool has, a file for each, with its record as BACKEND."""
