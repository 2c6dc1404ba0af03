"""What a trained model is used for: predict the edges of nodes, be scored, generate graphs."""
