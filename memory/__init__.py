"""Lessons across runs."""
