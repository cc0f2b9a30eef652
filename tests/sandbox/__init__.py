"""Tests of the sandboxes: the contract that all keep, and attacks on the real one."""
