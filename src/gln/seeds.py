TEST_SEED = 1_000_003  # of graphs that training never uses
