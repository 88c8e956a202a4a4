"""The seeds' experiments, each with the paper's figures beside ours."""
