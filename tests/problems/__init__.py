"""Tests of the nouns, the library and the loaders."""
