"""The fault kit: real processes, real servers, real faults."""
