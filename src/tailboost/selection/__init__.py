"""Selection of decision rules on confusion counts, for any linear rate or a CVaR."""
