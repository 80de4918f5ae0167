"""The parent of every error that a user can cause and mend; the command line prints its message and exits with its code."""


class UserError(Exception):
    """A mistake of the user: one sentence that says what is wrong, where, and what to type instead."""

    exit_code = 2
