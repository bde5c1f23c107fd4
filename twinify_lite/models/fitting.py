"""Fitting a declared model: the plan, from public numbers only, and DPSVI by that plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam

from twinify_lite.accountant import PoissonGaussian
from twinify_lite.dpsvi import DPSVI
from twinify_lite.dpsvi.rows import Structure
from twinify_lite.encode import encode
from twinify_lite.errors import ModelError
from twinify_lite.models.checking import Report
from twinify_lite.models.guessing import made_up_schema, without_levels
from twinify_lite.models.processing import postprocess_problems, prepare_table
from twinify_lite.models.program import Look, Program, look, prepare
from twinify_lite.models.source import GUIDES, Source
from twinify_lite.models.trial import Trial, try_model
from twinify_lite.posterior import Posterior
from twinify_lite.receipt import Receipt
from twinify_lite.schema import Schema
from twinify_lite.table import PrivateTable

#: What a user may set of the fit itself, beside the options of the model.
OPTIONS = {
    "sampling_rate": "the chance of each row to be in a step",
    "steps": "how many steps",
    "learning_rate": "Adam's step size at the start",
    "clip_norm": 'the clip norm of a row\'s gradient, a number or "auto"',
    "guide": f"one of {', '.join(GUIDES)}",
    "particles": "draws of the guide in each step",
}
_CHUNKS = 50
# Measured on regressions of 25 latents at epsilon 1, with 2,000 to 20,000 rows: half or twice of any is as good.
_BATCH, _STEPS, _RATE = 1000, 600, 0.05
# Rows of a step over its noise, from which on that rate is right. With fewer, Adam's steps follow the noise: at 200
# rows and epsilon 1 (7 columns, `independent`) 1-way distances are 0.61 with the full rate, and 0.44 with 0.007.
SHARP = 150.0


class Checkpoint(Protocol):
    """Where a fit leaves what it needs to go on: values from after the noise, and no key."""

    def load(self) -> dict[str, np.ndarray] | None:
        """What was saved last, None at the start."""

    def save(self, values: dict[str, np.ndarray]) -> None:
        """Keep these in place of what was saved before."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """All that a fit needs to know, fixed before the table is looked at. `rows` is the noisy number of rows."""

    mechanism: PoissonGaussian
    rows: int
    settings: dict[str, Any]
    options: dict[str, Any]

    def with_mechanism(self, mechanism: PoissonGaussian) -> Plan:
        """The same plan with the noise that was paid for, and a learning rate that suits it."""
        clearness = mechanism.sampling_rate * self.rows / mechanism.noise_multiplier
        settings = {**self.settings, "noise_multiplier": mechanism.noise_multiplier, "clearness": round(clearness, 2)}
        if "learning_rate" not in self.options:
            settings["learning_rate"] = float(f"{_RATE * min(1.0, math.sqrt(clearness / SHARP)):.3g}")
        return dataclasses.replace(self, mechanism=mechanism, settings=settings)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Declared:
    """A model family: a NumPyro model that the user declared or picked by name."""

    source: Source
    #: The last trial, for the fit that follows it.
    _tried: dict[str, Trial] = dataclasses.field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        """The template, file or function."""
        return self.source.name

    @property
    def notes(self) -> tuple[str, ...]:
        """What the guarantee rests on beside the noise, for the statement to say."""
        if self.source.preprocess is None:
            return ()
        return (f"that preprocess of {self.name} keeps nothing outside its own file from row to row",)

    def prepare(self, table: PrivateTable) -> PrivateTable:
        """The table that is fitted: what `preprocess` makes of each row of `table` alone, or `table` itself."""
        return prepare_table(self.source, table)

    def plan(self, schema: Schema, rows: int, options: Mapping[str, Any] | None = None) -> Plan:
        """Sampling rate, steps and learning rate by rules that read only public things and the noisy row count.

        The model is run once on made-up rows, and what that shows to be wrong is told; `check` finds the rest.
        """
        options = {**self.source.options, **(options or {})}
        source, unknown = _guided(self.source, options), without_levels(schema)
        seen = look(source, made_up_schema(schema), _model_options(options), unknown=unknown)
        _refuse(seen, options)
        settings = settings_for(max(1, int(rows)), len(schema.modelled), options)
        mechanism = PoissonGaussian(
            noise_multiplier=1.0, sampling_rate=settings["sampling_rate"], steps=settings["steps"]
        )
        guide = options.get("guide", self.source.guide)
        settings |= {"guide": guide if isinstance(guide, str) else "guide(rows)", "model": self.name}
        settings |= {name: options.get(name, default) for name, default in seen.options.items()} | seen.pinned
        return Plan(mechanism=mechanism, rows=max(1, int(rows)), settings=settings, options={**options, **seen.pinned})

    def check(self, schema: Schema, plan: Plan) -> None:
        """Refuse all that `check_model` would, before anything is spent. What it compiles, the fit does not again."""
        source = _guided(self.source, plan.options)
        trial = try_model(source, schema, _model_options(plan.options), scaled=True)
        problems = [*postprocess_problems(source, schema), *trial.problems]
        Report(model=self.name, problems=tuple(dict.fromkeys(problems))).require()
        self._tried["last"] = trial

    def fit(
        self,
        plan: Plan,
        schema: Schema,
        table: PrivateTable,
        receipt: Receipt,
        *,
        progress: Callable[[str, int, int], None] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Posterior:
        """Fit the model to `table` by the plan, with the noise that `receipt` paid for; what returns is public."""
        program, guide, structure = self._program(schema, plan)
        columns = {name: jnp.asarray(array) for name, array in program.encode(encode(schema, table)).items()}
        dpsvi = DPSVI(
            program.model,
            guide,
            Adam(decaying(plan.settings["learning_rate"], plan.mechanism.steps)),
            Trace_ELBO(num_particles=plan.settings["particles"]),
            receipt,
            plan.rows,
            clip_norm=plan.settings["clip_norm"],
            plate="rows",
            structure=structure,
            public="all",  # the number of rows is noisy here, and an array that happens to have as many is none of them
        )
        state = _run(dpsvi, columns, plan, progress or (lambda *_: None), checkpoint)
        params = dpsvi.get_params(state)
        latents = dpsvi._ready().split.structure.latents
        return Posterior.draw(program, guide, params, latents, settings=plan.settings)

    def _program(self, schema: Schema, plan: Plan) -> tuple[Program, Callable, Structure | None]:
        """The program that was tried; or, if discovery has changed the schema since, another one."""
        source, options = _guided(self.source, plan.options), _model_options(plan.options)
        trial = self._tried.pop("last", None)
        if trial is not None and trial.is_of(source, schema, options):
            return trial.program, trial.guide, trial.structure
        program = prepare(source, schema, options).scaled()
        return program, program.guide(), None


def settings_for(rows: int, columns: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """The fit's settings: a public rule for each, unless the user set it."""
    batch = min(rows, max(_BATCH, 8 * math.isqrt(rows)))
    chosen: dict[str, Any] = {
        "sampling_rate": round(batch / rows, 6) if batch < rows else 1.0,
        # More rows, less noise: there is more to find.
        "steps": round(_STEPS * min(3.0, max(1.0, (rows / 20_000) ** 0.3))),
        "learning_rate": _RATE,
        "clip_norm": "auto",
        "particles": 1,
    }
    chosen |= {key: value for key, value in options.items() if key in chosen}
    return {**chosen, "steps": _number("steps", chosen["steps"], int)} | {
        key: _number(key, chosen[key], kind)
        for key, kind in (("sampling_rate", float), ("learning_rate", float), ("particles", int))
    }


def _number(key: str, value: Any, kind: type) -> Any:
    try:
        number = kind(value)
    except (TypeError, ValueError):
        number = 0
    if not number > 0 or (key == "sampling_rate" and number > 1):
        raise ModelError(f"The option {key} must be a positive number{' up to 1' if key == 'sampling_rate' else ''}.")
    return number


def decaying(rate: float, steps: int) -> Callable[[Array], Array]:
    """A step size that stays for a third of the steps and then falls to nearly nothing, so that noise averages out."""

    def at(step: Array) -> Array:
        late = jnp.clip((step / steps - 1 / 3) / (2 / 3), 0, 1)
        return rate * (0.01 + 0.99 * 0.5 * (1 + jnp.cos(jnp.pi * late)))

    return at


def _model_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key not in OPTIONS}


def _guided(source: Source, options: Mapping[str, Any]) -> Source:
    guide = options.get("guide")
    if guide is None:
        return source
    if guide not in GUIDES:
        raise ModelError(f"There is no guide {guide!r}. Use one of {', '.join(GUIDES)}.")
    return dataclasses.replace(source, guide=guide)


def _refuse(seen: Look, options: Mapping[str, Any]) -> None:
    problems = list(seen.problems)
    known = {*OPTIONS, *seen.options}
    for name in options:
        if name not in known:
            problems.append(f"There is no option {name!r}. The options are {', '.join(sorted(known))}.")
    if problems:
        raise ModelError("\n".join(problems))


# -- running ----------------------------------------------------------------------------------------------------------


def _run(
    dpsvi: DPSVI,
    columns: dict[str, Array],
    plan: Plan,
    progress: Callable[[str, int, int], None],
    checkpoint: Checkpoint | None,
) -> Any:
    """All steps that are left, chunk by chunk. The key seeds initial values and the guide's draws: both public."""
    steps = plan.mechanism.steps
    progress("compiling", 0, steps)
    state = dpsvi.init(jax.random.key(0), columns)
    saved = checkpoint.load() if checkpoint is not None else None
    if saved is not None:
        state = restore(state, saved)
    chunk = math.ceil(steps / _CHUNKS)
    while int(state.step) < steps:
        number = min(chunk, steps - int(state.step))
        result = dpsvi.run(None, number, columns, progress_bar=False, init_state=state, chunk_steps=chunk)
        state = result.state
        if checkpoint is not None:
            checkpoint.save(keep(state))
        progress("fitting", int(state.step), steps)
    return state


def keep(state: Any) -> dict[str, np.ndarray]:
    """What a checkpoint holds of a DPSVI state: the step, the clip norm and the optimiser's numbers."""
    leaves = {f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state.optim_state))}
    return {"step": np.asarray(state.step), "clip_norm": np.asarray(state.clip_norm), **leaves}


def restore(state: Any, saved: Mapping[str, np.ndarray]) -> Any:
    """A fresh state of the same fit, at the step that a checkpoint holds."""
    leaves, tree = jax.tree.flatten(state.optim_state)
    found = [saved.get(f"leaf_{i}") for i in range(len(leaves))]
    fits = all(new is not None and np.shape(new) == np.shape(old) for old, new in zip(leaves, found, strict=True))
    if not fits or len(saved) != len(leaves) + 2:
        raise ModelError("The checkpoint is of another model or schema. Start anew, without `resume`.")
    leaves = [jnp.asarray(new, old.dtype) for old, new in zip(leaves, found, strict=True)]
    return dataclasses.replace(
        state,
        optim_state=tree.unflatten(leaves),
        step=jnp.asarray(saved["step"], jnp.int32),
        clip_norm=jnp.asarray(saved["clip_norm"], jnp.float32),
    )
