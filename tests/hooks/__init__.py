"""Edits that agents make with their own tools."""
