"""Where early adapters import from."""
