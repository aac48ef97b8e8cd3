"""What is trained: loss, link, decisions and moments of a kind of label."""
