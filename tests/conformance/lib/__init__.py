"""The conformance runner: rows are data, this package carries them out."""
