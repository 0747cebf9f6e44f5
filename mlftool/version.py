"""The one place that says which mlftool this is."""

VERSION = "0.1.0"
