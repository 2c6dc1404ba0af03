"""What is kept: tensors, saved models, run folders, and where a number comes from. Reading a file never runs code."""
