"""What a command does, as functions: train from files, predict files, judge a run.

Readers and writers know no models, and models know no files; this room connects them.
"""
