"""``stet mcp``: the tools over the Model Context Protocol, on standard input and output.

docs/mcp.md says what a client may rely on.
"""
