"""What each part of a fit contributes, on people who do not exist: noisy tables, DPSVI, and the latent-space gradient.

    python examples/ablation.py

All fits have the same budget and the same public schema. "tables" are noisy counts, "DPSVI" are noisy gradients; the
chain and the mixture are models. The last table clips one logistic regression's gradients in latent space, as DPSVI
here does, and in the guide's space, as the papers do.
"""

import argparse
import itertools
import time

import latent_gradient
import numpy as np
import pandas as pd

import twinify_lite as tw
from twinify_lite.models.catalogue import template_path

LEVELS = {"age": 6, "region": 5, "school": 4, "work": 5, "income": 4, "smoker": 2, "health": 3, "visits": 4}


def make_people(rows, seed=0):
    """Columns that follow from one another: each level's log-odds move with the columns before it."""
    generator = np.random.default_rng(seed)
    effects = np.random.default_rng(1)
    drawn = {}
    for name, size in LEVELS.items():
        logits = np.broadcast_to(effects.normal(0, 0.5, size), (rows, size)).copy()
        for parent, levels in drawn.items():
            if effects.uniform() < 0.5:
                logits += effects.normal(0, 0.8, (LEVELS[parent], size))[levels]
        drawn[name] = (logits + generator.gumbel(size=logits.shape)).argmax(1)
    return pd.DataFrame({name: [f"{name}{level}" for level in levels] for name, levels in drawn.items()})


def schema():
    """All levels are public here, so that the whole budget goes to the fit."""
    columns = (
        tw.Column(name=name, kind="category", levels=[f"{name}{i}" for i in range(size)], nullable=False)
        for name, size in LEVELS.items()
    )
    return tw.Schema(columns=tuple(columns))


def distance(people, twin, ways):
    """Mean total variation distance of all marginals of so many columns."""
    found = []
    for names in itertools.combinations(people.columns, ways):
        one, other = (frame.value_counts(list(names), normalize=True) for frame in (people, twin))
        found.append(one.subtract(other, fill_value=0).abs().sum() / 2)
    return float(np.mean(found))


def fits():
    """What is compared: how to say it to `tw.fit`."""
    return {
        "tables of single columns": {"model": "auto", "options": {"single": 1.0}},
        "tables, chain (auto)": {"model": "auto"},
        "DPSVI, mixture": {"model": "mixture"},
        "DPSVI, chain": {"model": str(template_path("auto"))},
    }


def main(rows=20_000, epsilon=1.0, runs=8, only=None):
    """Print both tables, and return the first."""
    people = make_people(rows)
    print(f"{rows} people, {len(LEVELS)} columns, epsilon {epsilon:g}: total variation distance of marginals")
    print(f"{'':28s}{'1-way':>8s}{'2-way':>8s}{'3-way':>8s}{'CPU s':>8s}")
    table = {}
    for name, how in fits().items():
        if only is not None and name not in only:
            continue
        begun = time.process_time()
        twin = tw.fit(people, epsilon=epsilon, schema=schema(), **how).sample(rows)
        table[name] = [distance(people, twin, ways) for ways in (1, 2, 3)]
        print(f"{name:28s}" + "".join(f"{x:8.4f}" for x in table[name]) + f"{time.process_time() - begun:8.1f}")
    again = make_people(rows, seed=2)
    table["other people"] = [distance(people, again, ways) for ways in (1, 2, 3)]
    print(f"{'other people of this kind':28s}" + "".join(f"{x:8.4f}" for x in table["other people"]))
    if runs:
        print()
        latent_gradient.main(runs=runs)
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=8, help="of the last table; 0 leaves it out")
    main(**vars(parser.parse_args()))
