"""What is said of a classifier: by the rows of its choice, by halves of them, and by rows it never saw."""
