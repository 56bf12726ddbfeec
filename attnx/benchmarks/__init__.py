"""Suites with a known answer."""
