"""Decide what to try: the loop, the policies, the report, the command line."""
