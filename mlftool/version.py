"""The one place that says which mlftool this is, and which versions of the format it writes."""

VERSION = "0.1.0"
FORMATS = (1, 2, 3, 4, 5, 6, 7)  # of Model Library Format
