"""Tests of the loop, its policies and what they conclude."""
