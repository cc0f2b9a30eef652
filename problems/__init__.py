"""The nouns: what is to be solved, what solves it, how it scored; and the library of problems."""
