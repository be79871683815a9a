"""Whether a door can be reached by this machine alone: only then it may go without a token."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Of an address to bind, as people write it: a name, IPv4, or IPv6 with brackets or without."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    # Python 3.13 looks into ::ffff:127.0.0.1, earlier ones do not.
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
