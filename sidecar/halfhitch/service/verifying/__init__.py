"""Is anything lost or doubled? All topics of an installation against each other, after the fact."""
