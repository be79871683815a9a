"""Is anything lost or doubled? All topics against each other, for `halfhitch verify`."""
