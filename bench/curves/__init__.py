"""How cost grows with what is asked for: `make bench-curves`, and the tables of docs/sizing.md.

Not collected by pytest. Nothing here is imported by the product.
"""
