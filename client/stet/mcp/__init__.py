"""``stet mcp``: the tools over the Model Context Protocol, on standard input and output.

    server       the life of the process; answers tool calls
    stdio        one JSON message a line, in and out, whatever comes in
    protocol     JSON-RPC, the handshake and the list of tools; no I/O
    catalogue    the tools and what is said of them; the definitions are the daemon's (tools.json)
    tool_calls   a tool call as a call of stet; whose call it is
    sessions     the connections to the daemon, and carrying out calls on them
    answers      results and errors as text for a model and as structured content; no I/O

docs/mcp.md says what a client may rely on.
"""
