"""The one error that a user can cause."""


class GLNError(ValueError):
    """A user's mistake, told in one sentence: what we got, what we expected, what to do.

    The command line prints it without a traceback; everything else that escapes is a bug of ours.
    """
