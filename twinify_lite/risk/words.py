"""A risk in sentences that need no mathematics, and one small picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinify_lite.accountant import Relation

if TYPE_CHECKING:
    from twinify_lite.risk import Risk
    from twinify_lite.risk.odds import Odds

_WIDTH = 40
# What floating point adds to a figure may not move it to the next one.
_FUZZ = 1e-9

#: What an attacker wants and knows; who is wrongly accused; who is rightly; and what is suspected.
_ASKED = {
    Relation.ADD_REMOVE: (
        "wants to know whether you are in the table, and knows your row and everybody else's",
        "people who are not in it",
        "who are",
        "that you are in the table",
    ),
    Relation.SUBSTITUTE: (
        "wants to know which of two rows is yours, and knows both of them and everybody else's",
        "people whose row is the other one",
        "whose row it is",
        "that a certain one of the two rows is yours",
    ),
}


def sentences(risk: Risk) -> list[str]:
    """What `risk` means, for a person in the table."""
    warned = [] if risk.warning is None else [f"{risk.warning} What follows says nothing of that."]
    if not risk.private:
        return [
            *warned,
            f"NOT PRIVATE: {risk.why_not}.",
            "There is no bound on what somebody can find out about you: with the means to do so, all of your row.",
        ]
    return [*warned, *_promises(risk)]


def _promises(risk: Risk) -> Iterator[str]:
    wanted, others, yours, suspected = _ASKED[risk.relation]
    yield (
        f"Suppose that somebody {wanted}. From this release nobody can do better, whatever else they know and compute:"
    )
    yield (
        "- By tossing a coin they would be right 50 times out of 100. With what was released they are right at most "
        f"{_of_hundred((1 + risk.advantage) / 2)} times."
    )
    yield f"- {_caught(risk, others, yours)}"
    yield f"- {_moved(risk, suspected)}"
    yield _by_epsilon_alone(risk)
    if risk.supposed:
        yield (
            "No twin was given, so this is for one release with Gaussian noise, as much as this epsilon asks for. A "
            "twin's own figures are close to these: `twin explain TWIN`."
        )
    yield (
        "All of this is about what your own row adds. What the table as a whole teaches, say that smokers fall ill "
        "more often, can be said of you also if you are not in it. Other releases of the same table add to what can be "
        "found out (`twin ledger`)."
    )


def _caught(risk: Risk, others: str, yours: str) -> str:
    percents, thousandths = risk.true_positives[0.01], risk.true_positives[0.001]
    return (
        f"If they wrongly accuse no more than 1 in 100 {others}, they find at most {_counted(100 * percents)} in 100 "
        f"{yours}; with no more than 1 in 1,000, at most {_counted(1000 * thousandths)} in 1,000. By chance they would "
        "find 1."
    )


def _moved(risk: Risk, suspected: str) -> str:
    even, faint = risk.suspicion[0.5], risk.suspicion[0.01]
    # Both directions between neighbours have the same bound, so doubt grows no faster than suspicion.
    return (
        f"If they held it for 50 % likely {suspected}, they come to hold it for at most {percent(even)} likely, and at "
        f"least {percent_down(1 - even)}: on average over the 1 in 100 cases that give away most. From 1 % they come "
        f"to at most {percent(faint)}."
    )


def _by_epsilon_alone(risk: Risk) -> str:
    alone: Odds = risk.alone
    right = _of_hundred((1 + alone.advantage) / 2)
    return (
        f"If epsilon {risk.epsilon:g} and delta {risk.delta:g} were all that is known, and not the noise itself, one "
        f"could promise only this: right at most {right} times out of 100, from 50 % to at most "
        f"{percent(alone.suspicion[0.5])}, from 1 % to at most {percent(alone.suspicion[0.01])}."
    )


def picture(risk: Risk) -> str:
    """Bars for what is suspected before, afterwards, and what (epsilon, delta) alone would allow."""
    suspected = _ASKED[risk.relation][3]
    lines = [f"How sure can they become {suspected}?", f"{'':<21}0 %{'50 %':>{_WIDTH // 2}}{'100 %':>{_WIDTH // 2}}"]
    for prior in risk.suspicion:
        lines += [
            _bar("before", prior),
            _bar("afterwards, at most", risk.suspicion[prior]),
            _bar("by epsilon alone", risk.alone.suspicion[prior]),
            "",
        ]
    return "\n".join([*lines, "(afterwards: on average over the 1 in 100 cases that give away most)"])


def _bar(label: str, share: float) -> str:
    filled = min(_WIDTH, math.ceil(share * _WIDTH - _FUZZ))
    return f"{label:<20} |{'#' * filled:<{_WIDTH}}| {percent(share)}"


def percent(share: float) -> str:
    """A share as a percentage with two digits, rounded up.

    >>> percent(0.0731), percent(0.7301), percent(0.5), percent(0.00181)
    ('7.4 %', '74 %', '50 %', '0.19 %')
    """
    return f"{_counted(100 * share)} %"


def percent_down(share: float) -> str:
    """A share as a percentage with two digits, rounded down."""
    digits = _digits(100 * share)
    return f"{math.floor(100 * share * 10**digits + _FUZZ) / 10**digits:g} %"


def _counted(number: float) -> str:
    """Two digits of a number, rounded up."""
    digits = _digits(number)
    return f"{math.ceil(number * 10**digits - _FUZZ) / 10**digits:,g}"


def _of_hundred(share: float) -> str:
    return f"{min(100, math.ceil(100 * share - _FUZZ))}"


def _digits(number: float) -> int:
    """How many decimals leave two digits of it; none of what is 10 or more."""
    return max(0, 1 - math.floor(math.log10(number))) if number > 0 else 0
