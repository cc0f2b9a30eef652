"""Run code that nobody trusts."""
