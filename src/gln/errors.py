"""The error for a user's mistakes, and words for the system's errors."""


class GLNError(ValueError):
    """A user's mistake, explained in one sentence: what we got, what we expected, what to do.

    The command line prints it without a traceback; any other exception that escapes is a bug.
    """


def in_words(error: OSError) -> str:
    """Which file, and what is wrong with it."""
    return f"{error.filename or 'a file'}: {error.strerror or error}."
