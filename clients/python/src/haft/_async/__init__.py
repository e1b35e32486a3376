"""The client that is awaited. The one that blocks is made of it by tools/unasync.py."""
