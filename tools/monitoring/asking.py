"""How panels ask: rates, quantiles, one line for each."""

from __future__ import annotations

from typing import Final

from grafana import Query

WINDOW: Final = "[$__rate_interval]"


def rate(metric: str, by: str = "") -> str:
    """Of a counter, a second; summed, by labels if there are any."""
    return f"sum by ({by}) (rate({metric}{WINDOW}))" if by else f"sum(rate({metric}{WINDOW}))"


def quantiles(histogram: str, by: str = "") -> tuple[Query, ...]:
    """The middle, and what one in a hundred exceeds; by a label that one alone."""
    named = f" {{{{{by}}}}}" if by else ""
    labels = f"le, {by}" if by else "le"
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by ({labels}) (rate({histogram}_bucket{WINDOW})))",
            f"p{round(share * 100)}{named}",
        )
        for share in ((0.99,) if by else (0.5, 0.99))
    )


def per(metric: str, by: str, how: str = "max") -> Query:
    """Of a gauge, a line for each value of these labels."""
    return Query(f"{how} by ({by}) ({metric})", " ".join(f"{{{{{b}}}}}" for b in by.split(", ")))
