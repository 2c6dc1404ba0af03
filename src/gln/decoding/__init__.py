"""From probabilities to an answer: which nodes belong together."""
