"""What the tasks on text share: documents in three splits, token streams and rows, labels, and what counting knows."""
