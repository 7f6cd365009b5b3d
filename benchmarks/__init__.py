"""How fast the lab is beside what a user would otherwise write: `make bench`, or `python -m benchmarks`."""
