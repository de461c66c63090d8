"""What the tools take: one class a tool, one module a dialect.

From these models requests are validated (``validating``) and the JSON Schemas for language
models are made (``tool_schemas``); field descriptions are written for those models.

*common* parameters (``message``, ``preview``, ``if_match``, ``request_id``) are no part of the
models: they are taken out of a request before a tool sees it.
"""
