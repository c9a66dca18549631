"""The page of a run: curves, measures, predictions and settings in one HTML file."""
