"""How many files this process may have open; a connection is one of them.

Most systems start a process with 1,024 and let it have many more if it asks. Who does not ask finds
out under load: connections are taken and closed without a word, probes among them.
"""

import resource


def have_descriptors(wanted_count: int) -> int:
    """Ask for so many, if there are fewer; how many there are now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted_count:
        return wanted_count
    within = wanted_count if hard == resource.RLIM_INFINITY else min(wanted_count, hard)
    if within > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (within, hard))
        except (OSError, ValueError):  # macOS has a lower bound that it does not tell
            return soft
    return max(soft, within)
