"""Results as text, plots and pages."""
