"""The error for a user's mistakes."""


class GLNError(ValueError):
    """A user's mistake, explained in one sentence: what we got, what we expected, what to do.

    The command line prints it without a traceback; any other exception that escapes is a bug.
    """
