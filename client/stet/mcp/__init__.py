"""``stet mcp``: the tools over the Model Context Protocol, on standard input and output.

    catalogue    the tools and what is said of them; the definitions are the daemon's (tools.json)
    opening      answers to a client's first requests, before the SDK is loaded; no I/O
    stdio        one JSON message a line, in and out, whatever comes in
    json_rpc     JSON-RPC messages as lines; no I/O
    starting     the life of the process: the opening, then the SDK
    serving      the SDK's server connected to lines. This module and the next are the only ones
    tool_server  that know the SDK, which takes over a second to load
    options      what the command line says
    tool_calls   a tool call as a call of stet; no I/O
    callers      whose call it is: the client's conversation, the product's name
    sessions     the connections to the daemon, and carrying out calls on them
    answers      results and errors as text for a model and as structured content; no I/O

Both eras of the protocol are spoken, as the SDK has them: with ``initialize`` (2024-11-05 to
2025-11-25) and the one of 2026-07-28, in which each request says who asks. docs/mcp.md says
what a client may rely on.
"""
