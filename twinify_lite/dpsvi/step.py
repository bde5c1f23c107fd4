"""One step of DPSVI, and many of them in one compiled program.

    rows -> per-row gradient -> clip -> sum -> + noise -> pull back through the guide -> optimiser

Everything above the noise is private and lives inside `_private_sum`; everything that `step` returns is below it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, PyTree

from twinify_lite import noise
from twinify_lite.dpsvi import batches, clip, lattice
from twinify_lite.dpsvi.batches import Draw, Sampler
from twinify_lite.dpsvi.elbo import SplitELBO
from twinify_lite.dpsvi.gradient import ClippedSum, WholeSum, float_sum, map_words, whole_sum
from twinify_lite.dpsvi.lattice import Lattice
from twinify_lite.dpsvi.row_program import RowProgram, trace_row
from twinify_lite.receipt import Secrets

# Rows and noise of several steps are drawn together, up to this many noise values, to spread the cost of starting a
# cipher. Groups are aligned to the step number, so how a run is cut into chunks changes no bit of it.
_GROUP_NUMBERS = 2 * noise.BLOCK
_LARGEST_GROUP = 32


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False)
class DPSVIState:
    """Everything that training carries from step to step; all of it is public.

    `owner` names the receipt whose steps these are. The secret keys stay inside `DPSVI`.
    """

    optim_state: Any
    rng_key: Array
    step: Int[Array, ""]
    clip_norm: Float[Array, ""]
    owner: int = field(metadata={"static": True})

    mutable_state = None

    def __repr__(self) -> str:
        return f"DPSVIState(step={self.step}, clip_norm={self.clip_norm})"


@dataclass(frozen=True, kw_only=True)
class Training:
    """All that is fixed before the first step."""

    split: SplitELBO
    optim: Any
    constrain: Any
    #: What is privatised: the global latents and the parameters through which persons' sites move parameters.
    person_latents: frozenset[str]
    #: Global latents that persons' sites use and no parameter moves.
    fixed_latents: frozenset[str]
    person_params: tuple[bool, ...]
    particles: int
    rule: clip.ClipRule = field(default_factory=partial(clip.ClipRule, start=None))
    expected_batch: float = 1.0
    steps: int | None = None
    mesh: Mesh | None = None
    #: One person's backward pass, and the lattice on which the sums over persons are released; None where nobody is
    #: protected.
    program: RowProgram | None = None
    lattice: Lattice | None = None

    @property
    def devices(self) -> int:
        """Among how many devices a microbatch is divided."""
        return 1 if self.mesh is None else self.mesh.devices.size


def step(
    training: Training, state: DPSVIState, sampler: Sampler, table: PyTree, batch: Draw, drawn: Array
) -> DPSVIState:
    """One private update. `drawn` is the noise, one integer for each coordinate and one for the clip count."""
    key_draw = jax.random.fold_in(state.rng_key, state.step)
    params = training.optim.get_params(state.optim_state)
    keys = jax.random.split(key_draw, training.particles)

    def draw(params: PyTree) -> tuple[PyTree, Array]:
        constrained = training.constrain(params)
        latents, values = jax.vmap(lambda key: training.split.draw(constrained, key))(keys)
        return latents, jnp.mean(values)

    (latents, _), pull_back = jax.vjp(draw, params)
    shared, public = _divided(training, latents, params)
    private = _private_sum(training, state.clip_norm, shared, public, sampler, table, batch)
    clip_norm = state.clip_norm
    if training.lattice is None:
        total = private.gradient
    else:
        total, surplus = clip.add_noise(private, drawn, training.lattice)
        total = jax.tree.map(lambda noisy, leaf: noisy.astype(leaf.dtype), total, shared)
        clip_norm = clip.move(training.rule, clip_norm, surplus, training.expected_batch, state.step)
    del private
    by_latents, by_params = jax.tree.map(lambda leaf: sampler.rows_over_batch * leaf, total)
    (gradient,) = pull_back(({**jax.tree.map(jnp.zeros_like, latents), **by_latents}, jnp.ones(())))
    gradient = _add_selected(gradient, by_params, training.person_params)
    # The optimiser minimises. What is not finite here is public (the prior's or the guide's gradient) and is left out.
    loss_gradient = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g), -g, 0.0), gradient)
    optim_state = training.optim.update(loss_gradient, state.optim_state, value=jnp.nan)
    return replace(state, optim_state=optim_state, step=state.step + 1, clip_norm=clip_norm)


def draw_shared(training: Training, params: PyTree, key: Array) -> tuple[PyTree, PyTree]:
    """What is privatised, at `params`, and what is public beside it."""
    keys = jax.random.split(key, training.particles)
    latents = jax.vmap(lambda key: training.split.draw(training.constrain(params), key)[0])(keys)
    return _divided(training, latents, params)


def _divided(training: Training, latents: dict[str, Array], params: PyTree) -> tuple[PyTree, PyTree]:
    """What is privatised and what else a person's share of the ELBO takes: fixed latents are constants to it."""
    clipped = {name: value for name, value in latents.items() if name in training.person_latents}
    fixed = {name: value for name, value in latents.items() if name in training.fixed_latents}
    return (clipped, select(params, training.person_params)), (params, fixed)


def person_value(training: Training, shared: PyTree, public: PyTree, keyed_row: tuple[Array | None, PyTree]) -> Array:
    """One person's share of the ELBO, averaged over the particles, as a function of what is privatised."""
    (clipped, selected), (params, fixed) = shared, public
    latents = {**clipped, **fixed}
    key, row = keyed_row
    key = jax.random.key(0) if key is None else key
    constrained = training.constrain(_replace_selected(params, selected, training.person_params))
    keys = jax.random.split(key, training.particles)
    values = jax.vmap(lambda latents, key: training.split.row(latents, constrained, key, row))
    if training.particles == 1:
        return training.split.row(jax.tree.map(lambda x: x[0], latents), constrained, key, row)
    return jnp.mean(values(latents, keys))


def trace_person(training: Training, params: PyTree) -> RowProgram:
    """The checked program of one person's backward pass; the model and the guide are not called again for persons."""
    shared, public = jax.eval_shape(partial(draw_shared, training), params, jax.random.key(0))
    batch = jax.eval_shape(lambda: made_up_batch(training, training.split.structure.made_up, 1))
    row = jax.tree.map(lambda column: jax.ShapeDtypeStruct(column.shape[1:], column.dtype), batch)
    return trace_row(partial(person_value, training), shared, public, row)


def _needs_keys(training: Training) -> bool:
    return bool(training.split.structure.local)


def made_up_batch(training: Training, rows: PyTree, number: int) -> tuple[Array | None, PyTree]:
    """`number` invented rows as a microbatch, with what the guide draws for each."""
    return (_personal_keys(jax.random.key(1), jnp.int32(0), number) if _needs_keys(training) else None, rows)


def _private_sum(
    training: Training,
    clip_norm: Float[Array, ""],
    shared: PyTree,
    public: PyTree,
    sampler: Sampler,
    table: PyTree,
    batch: Draw,
) -> WholeSum | ClippedSum:
    """The clipped sum over the whole batch, one microbatch after the other."""

    def one(start: Array | int, index: Array, mask: Array) -> WholeSum | ClippedSum:
        rows = jax.tree.map(lambda column: column[index], table)
        # A person's place in the batch shifts when another joins or leaves, so what a place draws must be as secret
        # as who stands there: then every person's draws are alike, whatever the others do.
        keys = _personal_keys(batch.local_key, start, sampler.microbatch) if _needs_keys(training) else None
        given = training.program, shared, public, spread((keys, rows), training.mesh)
        if training.lattice is None:
            return float_sum(*given, mask=mask, clip_norm=clip_norm)
        return whole_sum(*given, mask=mask, clip_norm=clip_norm, on=training.lattice, devices=training.devices)

    def body(carry: tuple[Array, WholeSum | ClippedSum]) -> tuple[Array, WholeSum | ClippedSum]:
        start, total = carry
        # The first microbatch was drawn together with those of the steps around this one.
        index, mask = jax.lax.cond(
            start == 0,
            lambda: (batch.first, jnp.arange(sampler.microbatch) < batch.count),
            lambda: batches.places(sampler, batch.round_keys, batch.count, start),
        )
        return start + sampler.microbatch, _joined(total, one(start, index, mask))

    if sampler.is_one_microbatch:
        return one(jnp.int32(0), batch.first, jnp.arange(sampler.microbatch) < batch.count)
    start = jnp.int32(0), _no_rows(training, shared, clip_norm)
    return jax.lax.while_loop(lambda carry: carry[0] < batch.count, body, start)[1]


def _no_rows(training: Training, shared: PyTree, clip_norm: Float[Array, ""]) -> WholeSum | ClippedSum:
    if training.lattice is None:
        return ClippedSum(jax.tree.map(jnp.zeros_like, shared), jnp.zeros(()))
    words = jax.tree.map(lambda leaf: lattice.zeros(leaf.shape), shared)
    return WholeSum(words, lattice.zeros(()), clip_norm / training.lattice.limit)


def _joined(total: WholeSum | ClippedSum, more: WholeSum | ClippedSum) -> WholeSum | ClippedSum:
    """The sum over two microbatches."""
    if isinstance(total, ClippedSum):
        return jax.tree.map(jnp.add, total, more)
    words = map_words(lattice.add, total.words, more.words)
    return WholeSum(words, lattice.add(total.count, more.count), total.unit)


def _personal_keys(key: Array, start: Array, number: int) -> Array:
    """Keys for what the guide draws for each person: secret words, expanded by JAX's own, cheaper generator."""
    words = jax.random.bits(jax.random.fold_in(key, start), (number, 2), jnp.uint32)
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def run_groups(
    training: Training,
    sampler: Sampler,
    groups: int,
    secrets: Secrets,
    state: DPSVIState,
    table: PyTree,
    last: Int[Array, ""],
) -> DPSVIState:
    """Up to `groups` groups of steps, stopping at step `last`, as one program without a host round trip."""
    size = group_size(training)

    def group(_: Int[Array, ""], state: DPSVIState) -> DPSVIState:
        first = state.step // size * size
        steps = _draw_steps(training, sampler, secrets, first, size)

        def one(i: Int[Array, ""], state: DPSVIState) -> DPSVIState:
            batch, drawn = jax.tree.map(partial(jax.lax.dynamic_index_in_dim, index=i, keepdims=False), steps)
            return step(training, state, sampler, table, batch, drawn)

        return jax.lax.fori_loop(state.step - first, jnp.clip(last - first, 0, size), one, state)

    return jax.lax.fori_loop(0, groups, group, state)


def run_one(
    training: Training, sampler: Sampler, secrets: Secrets, state: DPSVIState, table: PyTree, last: Int[Array, ""]
) -> DPSVIState:
    """One step, or none at step `last`."""
    batch, drawn = draw_step(training, sampler, secrets, state.step)
    return jax.lax.cond(
        state.step < last, lambda s: step(training, s, sampler, table, batch, drawn), lambda s: s, state
    )


def draw_step(training: Training, sampler: Sampler, secrets: Secrets, number: Array) -> tuple[Draw, Array]:
    """The secret randomness of step `number`: its rows and its noise."""
    batch = batches.draw(sampler, jax.random.fold_in(secrets.rows, number))
    if training.lattice is None:
        return batch, jnp.zeros(0, jnp.int32)
    key = jax.random.fold_in(secrets.noise, number)
    return batch, noise.draw(key, noise_size(training), training.lattice.law)


def _draw_steps(training: Training, sampler: Sampler, secrets: Secrets, first: Array, size: int) -> tuple[Draw, Array]:
    """The same of `size` steps at once."""
    if size == 1:  # Without vmap, which would turn a rarely taken branch into one that always is.
        return jax.tree.map(lambda x: x[None], draw_step(training, sampler, secrets, first))
    return jax.vmap(lambda i: draw_step(training, sampler, secrets, i))(first + jnp.arange(size))


def noise_size(training: Training) -> int:
    """Coordinates of the private sum and one for the clip count; if they are many, up to whole blocks."""
    numbers = training.program.summed.coordinates + 1
    return numbers if numbers <= noise.BLOCK else -(-numbers // noise.BLOCK) * noise.BLOCK


def group_size(training: Training) -> int:
    """How many steps are drawn together."""
    numbers = 0 if training.lattice is None else noise_size(training)
    return max(1, min(_LARGEST_GROUP, _GROUP_NUMBERS // max(1, numbers)))


def spread(rows: PyTree, mesh: Mesh | None) -> PyTree:
    """Divide a microbatch among the devices of a mesh."""
    if mesh is None:
        return rows
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
    return jax.lax.with_sharding_constraint(rows, sharding)


def select(params: PyTree, chosen: tuple[bool, ...]) -> list[Array]:
    """The parameter arrays that a person's own sites use."""
    return [leaf for leaf, is_in in zip(jax.tree.leaves(params), chosen, strict=True) if is_in]


def _replace_selected(params: PyTree, selected: list[Array], chosen: tuple[bool, ...]) -> PyTree:
    leaves, tree = jax.tree.flatten(params)
    source = iter(selected)
    return tree.unflatten([next(source) if is_in else leaf for leaf, is_in in zip(leaves, chosen, strict=True)])


def _add_selected(gradient: PyTree, selected: list[Array], chosen: tuple[bool, ...]) -> PyTree:
    leaves, tree = jax.tree.flatten(gradient)
    source = iter(selected)
    return tree.unflatten([g + next(source) if is_in else g for g, is_in in zip(leaves, chosen, strict=True)])
