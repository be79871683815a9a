"""`halfhitch top`: the admin door in a terminal, again and again.

`numbers.py` and `pages.py` are pure: what the door's metrics come to, what a page shows.
`looking.py` asks the door, on a thread of its own; `app.py` and `screens.py` are what textual
draws. Invariants: whatever a door answers is text and nothing else, to the terminal and to textual;
every request is bounded; what messages say is asked for on a key of its own, never before.
"""
