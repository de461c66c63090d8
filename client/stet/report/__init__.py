"""``stet report``: edits as one page for a pull request or an auditor.

gathering  what the page is made of, asked of the daemon
page       the page: pure, from values to HTML
"""
