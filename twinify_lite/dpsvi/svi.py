"""`DPSVI`: NumPyro's `SVI` with a privacy guarantee."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.sharding import Mesh
from jaxtyping import Array, Float, PyTree
from numpyro.infer import ELBO, SVI
from numpyro.infer.svi import SVIRunResult
from numpyro.optim import SGD
from tqdm.auto import tqdm

from twinify_lite import accountant, noise, rng
from twinify_lite.accountant import FixedSizeGaussian, Mechanism, NotPrivate, PoissonGaussian
from twinify_lite.dpsvi import batches, clip, elbo, jaxprs, lattice, row_program, rows, sites, starting, step
from twinify_lite.dpsvi.plan import NoiseScale
from twinify_lite.dpsvi.step import DPSVIState, Training
from twinify_lite.errors import BudgetExceeded, ModelError, PrivacyParameterError, ReceiptError
from twinify_lite.receipt import Receipt, Secrets

_CHUNKS = 20
_NO_LANES = (
    "{} cannot run inside vmap, or inside a jit that does not see the state: several runs would share the noise of "
    "one. Spend once for each run, and call run() outside."
)


class DPSVI:
    """Differentially private stochastic variational inference for any NumPyro model with a row plate.

    Formal guarantee: `run`, or `init` and all `update`s together, is the mechanism that `dp_scale`'s receipt paid for:
    each step's only access to the rows is a sum of per-row gradients clipped to the current clip norm, over the
    rows that the receipt's sampler draws, plus Gaussian noise of the receipt's multiplier. Every returned value
    comes after the noise.

    `dp_scale` is a receipt from `ledger.spend(...)`, or what `approximate_sigma` returns. Positional arguments of
    `init`, `update` and `run` are columns of the table; public constants go by keyword, here or there.
    With a `PoissonGaussian` receipt `update` takes the whole table and draws its rows itself; with a
    `FixedSizeGaussian` receipt it takes a batch from `subsample_batchify_data`. `run` takes the whole table either
    way. `num_obs_total` is a public or noisy number of rows; a model that takes `N` or `num_obs_total` is given it.
    With `FixedSizeGaussian` it is the exact number, public under substitution: a batch is paid for as a share of it.
    A `structure` that `find_structure` has found for the same model, guide and kinds of columns is not found again.

    What goes by keyword is public. An array that is as long as `num_obs_total` is likely a column in the wrong place,
    and refused unless `public` names it; so is one that the model reads from outside, unless `public` says "all".
    """

    def __init__(
        self,
        model: Callable,
        guide: Callable,
        optim: Any,
        loss: ELBO,
        dp_scale: Receipt | NoiseScale,
        num_obs_total: int,
        *,
        clip_norm: float | str = "auto",
        plate: str | None = None,
        mesh: Mesh | None = None,
        structure: rows.Structure | None = None,
        public: Collection[str] | Literal["all"] = (),
        **static_kwargs: Any,
    ):
        self.receipt = _receipt(dp_scale)
        self.model, self.guide, self.loss = model, guide, loss
        self.num_obs_total = int(num_obs_total)
        self.static_kwargs = {**_row_count_kwargs(model, self.num_obs_total), **static_kwargs}
        self._term = _term(loss)
        self._rule = clip.clip_rule(clip_norm)
        self._plate, self._mesh, self._known, self._public = plate, mesh, structure, public
        self._svi = SVI(sites.PlatesInOrder(model), guide, optim, loss)
        self._training: Training | None = None
        self._compiled: dict[tuple, tuple[Callable, dict]] = {}
        self._samplers: dict[tuple[int, bool], batches.Sampler] = {}
        if self.receipt.mechanism.__class__ is not NotPrivate:
            accountant.warn_delta(self.receipt._ledger.delta, self.num_obs_total)

    @property
    def optim(self) -> Any:
        """The optimiser, as NumPyro sees it."""
        return self._svi.optim

    @property
    def mechanism(self) -> Mechanism:
        """What was paid for."""
        return self.receipt.mechanism

    def init(self, rng_key: Array, *args: Any, init_params: dict | None = None, **kwargs: Any) -> DPSVIState:
        """The initial state, from made-up rows: of `args` only shapes and types are used. Redeems the receipt.

        `rng_key` seeds initial values and the guide's draws of global latents, which need not be secret. Rows, noise
        and what the guide draws for one person get fresh secret keys, which never leave this object.
        """
        columns = _as_columns(args)
        kwargs = {**self.static_kwargs, **kwargs}
        rows.refuse_columns_by_keyword(kwargs, self.num_obs_total, self._public)
        structure = self._known
        if structure is None or not structure.is_of(self.model, self.guide, columns, self._plate):
            structure = rows.find_structure(self.model, self.guide, columns, kwargs, self._plate)
        rng_key, key_init = jax.random.split(rng_key)
        initial = starting.initial_state(self._svi, key_init, structure.made_up, init_params, kwargs)
        training = self._prepare(structure, kwargs, initial)
        self._refuse_coarse_sampling(training)
        self._secrets = self.receipt.redeem((PoissonGaussian, FixedSizeGaussian, NotPrivate))
        with jax.ensure_compile_time_eval():
            words = np.stack([jax.random.key_data(key) for key in self._secrets])
        self._secret_words = lambda: words  # behind a function, so that no repr shows them
        self._training, self._initial = training, initial.optim_state
        return DPSVIState(
            optim_state=initial.optim_state,
            rng_key=rng_key,
            step=jnp.int32(0),
            clip_norm=self._first_clip_norm(initial.optim_state, rng_key),
            owner=id(self.receipt),
        )

    def get_params(self, svi_state: DPSVIState) -> dict[str, Any]:
        """The constrained values of all `param` sites."""
        return self._ready().constrain(self.optim.get_params(svi_state.optim_state))

    def update(self, svi_state: DPSVIState, *args: Any, **kwargs: Any) -> tuple[DPSVIState, Float[Array, ""]]:
        """One private step. The second value stands where NumPyro's loss does and is always NaN: no loss is released.

        Each paid-for step runs once and in order, also under `jit` and `scan` (where a callback to the host sees to it
        and `run` is faster); anything else is refused, and so is `vmap` over anything that the step depends on.
        """
        columns = _as_columns(args)
        training = self._ready()
        sampler = self._sampler(columns, is_batch=isinstance(self.mechanism, FixedSizeGaussian | NotPrivate))
        traced = starting.traced((svi_state, columns, kwargs))
        secrets = self._take_steps(svi_state, 1, traced)
        last = jnp.int32(2**31 - 1 if training.steps is None else training.steps)
        run = self._compile(step.run_one, sampler, kwargs, columns)
        state = run(secrets, svi_state, columns, last)
        self._refuse_lanes(state, bool(traced))
        return state, jnp.float32(jnp.nan)

    def run(
        self,
        rng_key: Array,
        num_steps: int,
        *args: Any,
        progress_bar: bool = True,
        init_state: DPSVIState | None = None,
        init_params: dict | None = None,
        chunk_steps: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        **kwargs: Any,
    ) -> SVIRunResult:
        """Train for `num_steps` on the whole table. `losses` is NaN throughout: no loss is released.

        The program runs in chunks of about `chunk_steps`; progress is reported between them and changes no bit.
        """
        if starting.traced((rng_key, args, init_state, init_params, kwargs)):
            raise ReceiptError(_NO_LANES.format("run()"))
        state = init_state
        if state is None:
            self._refuse_extra_steps(num_steps)
            state = self.init(rng_key, *args, init_params=init_params, **kwargs)
        columns = _as_columns(args)
        sampler = self._sampler(columns, is_batch=False)
        secrets = self._take_steps(state, num_steps)
        first = int(state.step)
        groups = self._groups(chunk_steps or math.ceil(num_steps / _CHUNKS))
        run = self._compile(step.run_groups, sampler, kwargs, columns, groups)
        with _progress(num_steps, progress_bar) as report:
            while int(state.step) < first + num_steps:
                state = run(secrets, state, columns, jnp.int32(first + num_steps))
                self._refuse_lanes(state, traced=False)
                done = int(state.step) - first
                report(done)
                if on_progress is not None:
                    on_progress(done, num_steps)
        return SVIRunResult(self.get_params(state), state, jnp.full(num_steps, jnp.nan))

    def evaluate(self, svi_state: DPSVIState, *args: Any, rows_are_public: bool = False, **kwargs: Any) -> Array:
        """The loss (negative ELBO) of public rows, such as made-up or synthetic ones.

        The loss of private rows is a fresh look at them that nobody has paid for, so it is refused unless the caller
        says that these rows are public.
        """
        if not rows_are_public:
            raise ReceiptError(
                "evaluate() would release a number computed from the rows without noise. If these rows are public "
                "(synthetic, simulated or published), say so: evaluate(state, ..., rows_are_public=True)."
            )
        kwargs = {**self._ready().split.kwargs, **kwargs}
        key = jax.random.fold_in(svi_state.rng_key, svi_state.step)
        return self.loss.loss(key, self.get_params(svi_state), self.model, self.guide, *args, **kwargs)

    def _ready(self) -> Training:
        if self._training is None:
            raise ModelError("Call init() or run() first.")
        return self._training

    def _with(self, kwargs: dict[str, Any]) -> Training:
        training = self._ready()
        if not kwargs:
            return training
        rows.refuse_columns_by_keyword(kwargs, self.num_obs_total, self._public)
        split = dataclasses.replace(training.split, kwargs={**training.split.kwargs, **kwargs})
        params = self.optim.get_params(self._initial)
        return self._settled(dataclasses.replace(training, split=split), params, self._width(training))

    def _prepare(self, structure: rows.Structure, kwargs: dict[str, Any], initial: Any) -> Training:
        private = not isinstance(self.mechanism, NotPrivate)
        rate = self.mechanism.sampling_rate if private else 1.0
        params = self.optim.get_params(initial.optim_state)
        training = dataclasses.replace(
            _about_persons(self._svi, self._term, structure, kwargs, params),
            rule=self._rule if private else dataclasses.replace(self._rule, share=0.0),
            expected_batch=rate * self.num_obs_total,
            steps=self.mechanism.steps if private else None,
            mesh=self._mesh,
        )
        return self._settled(training, params)

    def _settled(self, training: Training, params: PyTree, width: int | None = None) -> Training:
        """With the checked program of one person, which alone sees rows from here on, and what was found of it: the
        lattice that pays for its sums, and whether rows may pass together at this width."""
        program = step.trace_person(training, params)
        rows.refuse_columns_outside(program.forward.closed.consts, self.num_obs_total, self._public)
        training = dataclasses.replace(training, program=program)
        if isinstance(self.mechanism, NotPrivate):
            return training
        rule = clip.for_run(
            self._rule,
            noise_multiplier=self.mechanism.noise_multiplier,
            coordinates=program.summed.coordinates,
            expected_rows=training.expected_batch,
            steps=self.mechanism.steps,
        )
        on = lattice.lattice_for(program.summed, self.mechanism.noise_multiplier, rule.share)
        training = dataclasses.replace(training, rule=rule, lattice=on)
        if not isinstance(self.mechanism, PoissonGaussian) or self._places_agree(training, params, width):
            return training
        # Slow and safe: rows one after the other, so that the place of none can show in its bits.
        return dataclasses.replace(training, program=program._replace(one_by_one=True))

    def _places_agree(self, training: Training, params: PyTree, width: int | None) -> bool:
        """Whether a row's pass has the same bits at every place of the batches to come."""
        if starting.traced((params, training.split.kwargs, training.program.forward.closed.consts)):
            return False
        with starting.evaluated():
            return self._places_agree_at(training, params, width or self._width(training))

    def _places_agree_at(self, training: Training, params: PyTree, number: int) -> bool:
        structure = training.split.structure
        invented = rows.invent_rows(structure.made_up, structure.kinds, number, seed=2)
        draw = starting.jit_once(lambda params, key: step.draw_shared(training, starting.moved(params), key))
        shared, public = draw(params, jax.random.key(0))
        batch = step.made_up_batch(training, invented, number)
        spread = partial(step.spread, mesh=self._mesh)
        return row_program.places_agree(training.program, shared, public, batch, spread)

    def _width(self, training: Training) -> int:
        numbers = training.program.numbers_per_row
        return batches.width(self.mechanism, self.num_obs_total, numbers, training.devices)

    def _first_clip_norm(self, optim_state: Any, key: Array) -> Float[Array, ""]:
        """The user's, or one below the median norm over made-up rows, from which the automatic rule moves on."""
        if self._rule.start is not None:
            return jnp.float32(self._rule.start)
        if isinstance(self.mechanism, NotPrivate):
            return jnp.float32(jnp.inf)
        training = self._ready()
        structure = training.split.structure
        batch = step.made_up_batch(training, rows.invent_rows(structure.made_up, structure.kinds, 64, seed=1), 64)

        @starting.jit_once
        def norms_of(params: PyTree, key: Array) -> Array:
            return row_program.passes(training.program, *step.draw_shared(training, params, key), batch)[1]

        norms = norms_of(self.optim.get_params(optim_state), key)
        median = jnp.nanmedian(jnp.where(jnp.isfinite(norms) & (norms > 0), norms, jnp.nan))
        return jnp.where(jnp.isfinite(median), clip.LOW * median, 1.0).astype(jnp.float32)

    def _sampler(self, columns: PyTree, *, is_batch: bool) -> batches.Sampler:
        number = rows.count_rows(columns)
        if (number, is_batch) not in self._samplers:
            self._samplers[number, is_batch] = self._make_sampler(number, is_batch)
        return self._samplers[number, is_batch]

    def _make_sampler(self, number: int, is_batch: bool) -> batches.Sampler:
        training = self._ready()
        if not is_batch:
            return batches.sampler_for(self.mechanism, number, self._width(training))
        numbers = training.program.numbers_per_row
        sampler = batches.whole_batch(number, numbers, self.num_obs_total / number, training.devices)
        if isinstance(self.mechanism, FixedSizeGaussian):
            paid = self.mechanism.sampling_rate * self.num_obs_total
            if number > paid * (1 + 1e-6):
                raise ReceiptError(
                    f"The receipt pays for batches of {paid:g} rows, and this one is larger. Use the batch size that "
                    "sampling_rate * num_obs_total says."
                )
        return sampler

    def _refuse_coarse_sampling(self, training: Training) -> None:
        """The accountant keeps a share of delta for the samplers' own errors: see that it covers them."""
        if training.lattice is None:
            return
        drawn = noise.error_bound(training.program.summed.coordinates + 1, training.lattice.law)
        error = self.mechanism.steps * (drawn + batches.error_bound(self.mechanism))
        if error > self.receipt.sampling_allowance:
            raise PrivacyParameterError(
                "This many steps and parameters at such an epsilon need a larger delta, because rows and noise are "
                "drawn from finitely many bits. Lower epsilon, raise delta, or take fewer steps."
            )

    def _groups(self, steps: int) -> int:
        return math.ceil(steps / step.group_size(self._ready()))

    def _compile(
        self, program: Callable, sampler: batches.Sampler, kwargs: dict[str, Any], columns: PyTree, *static: Any
    ) -> Callable:
        """One compiled program for each shape of table and each set of keyword arguments."""
        ids = tuple((name, id(value)) for name, value in sorted(kwargs.items()))
        key = (program, sampler.rows, sampler.rows_over_batch, static, ids)
        if key not in self._compiled:
            compiled = jax.jit(partial(program, self._with(kwargs), sampler, *static))
            self._compiled[key] = (compiled, kwargs)  # holding kwargs keeps their ids theirs
        return self._compiled[key][0]

    def _take_steps(self, state: DPSVIState, number: int, traced: Sequence[Array] = ()) -> Secrets:
        """Claim the next steps from the receipt, now or, in a traced program, when it runs; with them come the keys."""
        if state.owner != id(self.receipt):
            raise ReceiptError("This state belongs to another receipt. Call init() of this object.")
        if isinstance(self.mechanism, NotPrivate):
            return self._secrets

        def claim(first: Array, *_: Array) -> np.ndarray:
            self.receipt.claim(int(first), number)
            return self._secret_words()

        if not traced:
            claim(state.step)
            return self._secrets
        # The keys come with the claim, and so they do not stand in the program, which can be dumped.
        shape = jax.ShapeDtypeStruct((2, 8), jnp.uint32)
        words = io_callback(claim, shape, state.step, *map(jaxprs.false_from, traced), ordered=True)
        return Secrets(*rng.key_from_words(words))

    def _refuse_lanes(self, state: DPSVIState, traced: bool) -> None:
        """Refuse a `vmap` around a step: its lanes would share one claim and one noise, and differ by exact sums.

        Whatever the lanes differ in, be it in the model's closure, the result shows it: flags made of it are then one
        for each lane, which an ordered callback refuses. The claim does so already for what it is given.
        """
        if isinstance(self.mechanism, NotPrivate):
            return
        if traced:
            io_callback(lambda *_: None, None, *map(jaxprs.false_from, jax.tree.leaves(state)), ordered=True)
        elif starting.traced(state):
            raise ReceiptError(_NO_LANES.format("A step"))

    def _refuse_extra_steps(self, number: int) -> None:
        if not isinstance(self.mechanism, NotPrivate) and number > self.mechanism.steps:
            raise BudgetExceeded(f"The receipt pays for {self.mechanism.steps} steps, not for {number}.")


def refuse_unsafe(
    model: Callable, guide: Callable, loss: ELBO, structure: rows.Structure, kwargs: dict[str, Any]
) -> None:
    """Raise the `ModelError` that `DPSVI.init` would, from shapes alone: nothing is computed, compiled or paid for."""
    svi = SVI(sites.PlatesInOrder(model), guide, SGD(1.0), loss)
    params = starting.parameter_shapes(svi, structure.made_up, kwargs)
    step.trace_person(_about_persons(svi, _term(loss), structure, kwargs, params), params)


def _about_persons(
    svi: SVI, term: Callable, structure: rows.Structure, kwargs: dict[str, Any], params: PyTree
) -> Training:
    """What is known of a training from its model and guide alone: which latents and parameters persons use."""
    split = elbo.SplitELBO(model=svi.model, guide=svi.guide, structure=structure, term=term, kwargs=kwargs)
    use = elbo.what_persons_use(split, svi.constrain_fn, params)
    return Training(
        split=split,
        optim=svi.optim,
        constrain=svi.constrain_fn,
        person_latents=use.latents,
        fixed_latents=use.fixed,
        person_params=use.params,
        particles=svi.loss.num_particles,
    )


def _receipt(dp_scale: Receipt | NoiseScale | Any) -> Receipt:
    found = getattr(dp_scale, "receipt", dp_scale)
    if not isinstance(found, Receipt):
        raise ReceiptError(
            "DPSVI needs a receipt for its noise, not a bare number: pass the first value of approximate_sigma(...), "
            "or ledger.spend(PoissonGaussian(noise_multiplier=..., sampling_rate=..., steps=...), 'DPSVI')."
        )
    return found


def _term(loss: ELBO) -> Callable:
    if type(loss) not in elbo.TERMS:
        known = " or ".join(kind.__name__ for kind in elbo.TERMS)
        raise ModelError(f"DPSVI knows how to split the losses {known}; {type(loss).__name__} is not one of them.")
    return elbo.TERMS[type(loss)]


def _row_count_kwargs(model: Callable, number: int) -> dict[str, int]:
    """`N` in the paper's models, `num_obs_total` in d3p's."""
    names = inspect.signature(model).parameters
    return {name: number for name in ("N", "num_obs_total") if name in names}


def _as_columns(args: tuple[Any, ...]) -> PyTree:
    columns = jax.tree.map(jnp.asarray, args)
    rows.count_rows(columns)
    return columns


@contextlib.contextmanager
def _progress(total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr that shows steps and nothing else."""
    with tqdm(total=total, disable=not show) as bar:
        yield lambda done: bar.update(done - bar.n)
