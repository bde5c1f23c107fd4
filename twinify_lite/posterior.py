"""What a fit of a declared model leaves behind: draws of its global latents, and the model to generate rows with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jaxtyping import Array
from numpyro import handlers

from twinify_lite.dpsvi.starting import jit_once
from twinify_lite.encode import decode
from twinify_lite.errors import ArtifactError, ModelError
from twinify_lite.models.processing import finish_table
from twinify_lite.models.program import Program, prepare, sketch
from twinify_lite.models.trust import source_of
from twinify_lite.schema import Schema

if TYPE_CHECKING:
    from twinify_lite.schema.enforcing import Enforcer

# A posterior is kept as this many draws at most, and fewer of a model with more numbers than these.
_DRAWS, _FEWEST, _NUMBERS = 100, 10, 2_000_000
#: Rows are generated in batches of one size, so that one compiled program makes any number of them.
BATCH = 8192
# How many batches are drawn at most to take the place of rows that lie far out of a range.
_ROUNDS = 8
# Below so many rows of a step over its noise, a model is told mostly by the noise.
_CLEAR = 30.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """A fitted model. All of it is public: it was computed from what DPSVI released.

    `draws` are values of the global latents, one in each place of the first axis; `params` those of `numpyro.param`.
    """

    kind: ClassVar[str] = "declared"
    #: All data sets are draws.
    first_draw: ClassVar[int] = 0
    #: By column, values that it cannot tell apart: it tells all of them.
    pooled: ClassVar[Mapping[str, np.ndarray]] = {}

    program: Program
    draws: dict[str, np.ndarray]
    params: dict[str, np.ndarray]
    datasets: int
    settings: dict[str, Any]

    @classmethod
    def draw(
        cls,
        program: Program,
        guide: Callable,
        params: Mapping[str, Array],
        latents: frozenset[str],
        *,
        settings: Mapping[str, Any],
    ) -> Posterior:
        """Draw the global latents from the fitted guide, in the spaces where the model has them."""

        def once(key: Array) -> dict[str, Array]:
            seeded = handlers.substitute(handlers.seed(guide, key), data=dict(params))
            trace = handlers.trace(seeded).get_trace(program.made_up, 1)
            return {name: trace[name]["value"] for name in sorted(latents) if name in trace}

        size = sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(once, jax.random.key(0))))
        number = int(np.clip(_NUMBERS // max(1, size), _FEWEST, _DRAWS))
        drawn = jit_once(jax.vmap(once))(jax.random.split(jax.random.key(1), number))
        needed = _model_params(program, params)
        return cls(
            program=dataclasses.replace(program, scales={}),
            draws={name: program.scales.get(name, 1.0) * np.asarray(value) for name, value in drawn.items()},
            params={name: np.asarray(params[name]) for name in needed},
            datasets=number,
            settings=dict(settings),
        )

    def generate(
        self,
        rows: int,
        *,
        dataset: int,
        rng: np.random.Generator,
        enforcer: Enforcer | None = None,
        first: int = 0,
        total: int = 0,
        dictionaries: bool = False,
    ) -> pa.Table:
        """`rows` rows from posterior draw number `dataset`, decoded. The first of them do not depend on `rows`.

        Their program is compiled, however many rows are wanted in `total`.
        """
        if not 0 <= dataset < self.datasets:
            raise ModelError(f"There are {self.datasets} datasets, 0 to {self.datasets - 1}. Choose one of them.")
        key = jax.random.wrap_key_data(jnp.asarray(rng.integers(0, 2**32, 2, np.uint32)), impl="threefry2x32")
        values = {name: value[dataset] for name, value in self.draws.items()} | self.params
        batches = [self._within(values, jax.random.fold_in(key, i)) for i in range(max(1, -(-rows // BATCH)))]
        sites = {name: np.concatenate([batch[name] for batch in batches])[:rows] for name in batches[0]}
        arrays = self.program.decode(sites)
        source = self.program.source
        told = {"first": first, "enforcer": enforcer, "dictionaries": dictionaries and source.postprocess is None}
        return finish_table(source, decode(self.program.schema, arrays, rng=rng, rows=rows, **told))

    def _within(self, values: dict[str, np.ndarray], key: Array) -> dict[str, np.ndarray]:
        """A batch in which rows with a number far out of its range are drawn again, a few times.

        At the ends of a range should stand who was there, not whatever the model puts far beyond: noise makes
        components of a mixture that nobody belongs to, and they wander off.
        """
        first, *again = jax.random.split(key, 1 + _ROUNDS)
        rows = {name: np.array(value) for name, value in self._batch(values, first).items()}
        lost = np.flatnonzero(self.program.beyond(rows))
        # In random order, so that those who stay lost are not the last ones.
        lost = np.random.default_rng(np.asarray(jax.random.key_data(key))).permutation(lost)
        for another in again:
            if not len(lost):
                break
            more = self._batch(values, another)
            more = {name: np.asarray(value) for name, value in more.items()}
            found = np.flatnonzero(~self.program.beyond(more))[: len(lost)]
            for name, value in rows.items():
                value[lost[: len(found)]] = more[name][found]
            lost = lost[len(found) :]
        return rows

    @property
    def is_postprocessed(self) -> bool:
        """Whether rows have the columns that the model file's `postprocess` makes, and not those of the schema."""
        return self.program.source.postprocess is not None

    @property
    def _batch(self) -> Callable[[dict[str, np.ndarray], Array], dict[str, Array]]:
        if "_compiled" not in self.__dict__:
            run = jax.jit(partial(self.program.draw, rows=BATCH))
            object.__setattr__(self, "_compiled", run)
        return self.__dict__["_compiled"]

    def notes(self) -> tuple[str, ...]:
        """What the user should know of this fit, in sentences."""
        if self.settings.get("clearness", math.inf) >= _CLEAR:
            return ()
        return (
            "So few rows tell this model little at this epsilon: means and shares may be far off. Use the automatic "
            "model, which needs far fewer, a model of fewer parameters, or a larger epsilon.",
        )

    def describe(self) -> dict[str, Any]:
        """Public facts for people."""
        source = self.program.source
        return {
            "model": source.name,
            "origin": source.origin,
            "sha256": source.sha256,
            "latents": {name: list(value.shape[1:]) for name, value in self.draws.items()},
            "parameters": {name: list(value.shape) for name, value in self.params.items()},
            "datasets": self.datasets,
            **self.settings,
        }

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, str]]:
        """Plain data, arrays and texts, from which `from_parts` makes it again."""
        source = self.program.source
        meta = {
            "model": {"name": source.name, "origin": source.origin, "sha256": source.sha256},
            "options": dict(self.program.options),
            "settings": self.settings,
            "datasets": self.datasets,
            "latents": list(self.draws),
            "params": list(self.params),
        }
        arrays = {f"latent_{i}": value for i, value in enumerate(self.draws.values())}
        arrays |= {f"param_{i}": value for i, value in enumerate(self.params.values())}
        return meta, arrays, {"model.py": source.text} if source.text else {}

    @classmethod
    def from_parts(
        cls,
        meta: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        texts: Mapping[str, str],
        schema: Schema,
        *,
        model_file: Any = None,
        trust_model: bool = False,
    ) -> Posterior:
        """The posterior that `parts` came from.

        Formal guarantee: no code of `texts` is run unless `trust_model` is true. The model is that of `model_file` (a
        path or a function) or the installed template, and only if it has the hash that the fit had.
        """
        source = source_of(meta["model"], texts, schema, model_file=model_file, trust_model=trust_model)
        program = prepare(source, schema, meta["options"])
        # The code of these is not in the twin, so no hash tells whether it is that of the fit.
        if source.origin == "lines" and program.latents != set(meta["latents"]):
            raise ModelError(
                "This twin was fitted with another version of this package, in which the model of `distribution` lines "
                "had other latents. Sample it with that version, or fit it again."
            )
        made = cls(
            program=program,
            draws={name: arrays[f"latent_{i}"] for i, name in enumerate(meta["latents"])},
            params={name: arrays[f"param_{i}"] for i, name in enumerate(meta["params"])},
            datasets=int(meta["datasets"]),
            settings=dict(meta["settings"]),
        )
        made._require_whole()
        return made

    def _require_whole(self) -> None:
        """Refuse arrays that the model cannot draw with: a file may come from anywhere."""
        sites = sketch(partial(self.program._generate, 1))
        shapes = {name: np.shape(site["value"]) for name, site in sites.items() if site["type"] in ("sample", "param")}
        expected = [(array, (self.datasets, *shapes.get(name, array.shape[1:]))) for name, array in self.draws.items()]
        expected += [(array, shapes.get(name, array.shape)) for name, array in self.params.items()]
        sound = 1 <= self.datasets <= _DRAWS and all(
            array.dtype.kind == "f" and array.shape == shape and np.isfinite(array).all() for array, shape in expected
        )
        if not sound:
            raise ArtifactError("The twin's numbers do not fit its model, or are none. Fit the twin again.")


def _model_params(program: Program, params: Mapping[str, Array]) -> list[str]:
    """The parameters that the model itself has, not its guide."""
    trace = sketch(partial(program._generate, 1))
    return sorted(name for name, site in trace.items() if site["type"] == "param" and name in params)
