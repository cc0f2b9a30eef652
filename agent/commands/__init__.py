"""The command groups of `kagent`."""
