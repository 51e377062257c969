"""Measurements of this repository; each folder is one benchmark with one command."""
