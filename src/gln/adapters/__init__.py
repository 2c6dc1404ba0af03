"""gln in the terms of other libraries."""
