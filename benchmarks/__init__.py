"""How fast the lab is, what each arm costs and how cost grows."""
