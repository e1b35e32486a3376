# Made by tools/unasync.py of ../_async/__init__.py: change that one.
"""The client that blocks."""
