"""The historian as another process: killed, stopped, and asked all the same."""
