"""What several selectors need: targets, responses, the refit on selected features."""
