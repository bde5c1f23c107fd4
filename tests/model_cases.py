"""Schemas, made-up tables and paid fits that the tests of declared models share."""

import jax
import numpy as np
import pandas as pd

import twinify_lite as tw
from twinify_lite.models import resolve
from twinify_lite.models.program import prepare
from twinify_lite.schema import Column, Schema

NUMBER = {"kind": "number", "nullable": False, "dtype": "double", "min": 0.0, "max": 100.0}


def number(name, **changes):
    return Column(name=name, **{**NUMBER, **changes})


def integer(name, **changes):
    return Column(name=name, **{**NUMBER, "kind": "integer", "dtype": "int64", "min": 0, **changes})


def category(name, levels=("f", "m"), **changes):
    return Column(name=name, **{"kind": "category", "levels": levels, "nullable": False, "dtype": "string", **changes})


def boolean(name, **changes):
    return Column(name=name, **{"kind": "boolean", "nullable": False, "dtype": "bool", **changes})


def schema_of(*columns):
    return Schema(tuple(columns))


SMALL = schema_of(number("age"), category("sex"))


def made_by(model, schema, latents, rows, **options):
    """A table that the model itself draws, with these values of its latents."""
    program = prepare(resolve(model, schema).source, schema, options)
    sites = jax.jit(program.draw, static_argnums=2)(latents, jax.random.key(5), rows)
    return tw.decode(schema, program.decode({name: np.asarray(site) for name, site in sites.items()}))


def fit(model, schema, table, *, noise=0.5, checkpoint=None, progress=None, epsilon=None, **options):
    """A fit with little noise, the same in every run; with `epsilon`, one that is private."""
    family = resolve(model, schema)
    rows = len(table)
    plan = family.plan(schema, rows, options)
    if epsilon is None:
        ledger = tw.Ledger(1e6, 1e-5, insecure_seed=0)
        mechanism = tw.PoissonGaussian(
            noise_multiplier=noise, sampling_rate=plan.mechanism.sampling_rate, steps=plan.mechanism.steps
        )
    else:
        ledger = tw.Ledger(epsilon, 1e-6)
        mechanism = ledger.calibrate(plan.mechanism)
    plan = plan.with_mechanism(mechanism)
    receipt = ledger.spend(mechanism, "DPSVI")
    return family.fit(plan, schema, tw.read_table(table), receipt, progress=progress, checkpoint=checkpoint)


def sample(posterior, rows=4000, dataset=0, seed=1) -> pd.DataFrame:
    return posterior.generate(rows, dataset=dataset, rng=np.random.default_rng(seed)).to_pandas()


def mean(posterior, name):
    return posterior.draws[name].mean(axis=0)
