"""The base of every error that a user can cause and fix; the command line prints its message and exits with its code."""


class UserError(Exception):
    """A user's mistake: one sentence with what is wrong, where, and what to type instead."""

    exit_code = 2


class RunFolderError(UserError):
    """A run folder that cannot be used as requested."""


class DamagedRunError(RunFolderError):
    """A run folder with a file that is damaged or unknown to this version."""

    exit_code = 3
