"""How fast the lab is beside what a user would otherwise write, what each arm costs, and how cost grows."""
