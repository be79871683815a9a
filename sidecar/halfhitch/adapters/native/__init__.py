"""Native threads for the hot path, where the package halfhitch-native is installed."""
