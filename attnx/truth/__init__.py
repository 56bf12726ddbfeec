"""Suites with a known answer: does a method put first what is known to decide?"""
