"""What the scenarios are made of: the stage, applications, faults, readers, the checker."""
