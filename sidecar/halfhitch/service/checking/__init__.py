"""The check-back: who is asked, through which way, how many at once, and what the answers mean."""
