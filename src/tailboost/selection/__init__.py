"""Selection of decision rules on confusion counts, for any linear rate."""
