"""``stet report``: edits as one page, for a pull request or an auditor."""
