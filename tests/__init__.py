"""Tests mirror the folders that they test."""
