"""The wire format: messages, results, failures and framing, without any I/O.

Shared by the client and the daemon; imports the standard library and msgspec only.
"""
