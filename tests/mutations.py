"""Ways to break a promise of privacy, each with the tests that notice it: rows of data for `mutants`.

Each row names what it breaks, the file in the package, the text in it, what that becomes, and the fastest tests that
fail by it. The text stands in its file exactly once, so that a change of the code brings its row along.
"""

from __future__ import annotations

from typing import NamedTuple

PACKAGE = "twinify_lite"


class Mutation(NamedTuple):
    """One change of one file. `tests` are what pytest takes, seen from the folder of the tests."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def mutated(mutation: Mutation, source: str) -> str:
    """`source` with the mutation; a ValueError if its text is not there exactly once."""
    found = source.count(mutation.old)
    if found != 1:
        raise ValueError(f"'{mutation.name}': its text stands {found} times in {mutation.file}, and not once.")
    return source.replace(mutation.old, mutation.new)


def _of(file: str, *names: str) -> tuple[str, ...]:
    """Tests of one file."""
    return tuple(f"test_{file}.py::test_{name}" for name in names)


_RELEASE = (
    Mutation(
        "released sums have no noise",
        "release.py",
        "return sums + rounded_gaussians(bits, deviation, sums.size).reshape(sums.shape)",
        "return sums",
        _of("release", "what_leaves_is_the_sums_with_gaussian_noise_of_that_deviation"),
    ),
    Mutation(
        "released sums have half the noise",
        "release.py",
        "rounded_gaussians(bits, deviation, sums.size)",
        "rounded_gaussians(bits, max(1, deviation // 2), sums.size)",
        _of("release", "what_leaves_is_the_sums_with_gaussian_noise_of_that_deviation"),
    ),
    Mutation(
        "all released sums share one noise",
        "release.py",
        "rounded_gaussians(bits, deviation, sums.size).reshape(sums.shape)",
        "rounded_gaussians(bits, deviation, 1)[0]",
        _of("release", "what_leaves_is_the_sums_with_gaussian_noise_of_that_deviation"),
    ),
    Mutation(
        "two parts of a release have the same noise",
        "release.py",
        "Noise(receipt.what, part, scale, bits) for",
        "Noise(receipt.what, part, scale, bits and Bits(keys.noise)) for",
        _of("release", "parts_and_pieces_have_noise_of_their_own"),
    ),
    Mutation(
        "a replaced row counts as an added one",
        "release.py",
        "(1 if relation is Relation.ADD_REMOVE else self.replaced)",
        "1",
        _of("release", "one_row_moves_all_sums_over_their_noise_by_at_most_what_is_paid_for"),
    ),
    Mutation(
        "every part of a release takes the whole sensitivity",
        "release.py",
        "Scale.of(noise_multiplier, relation, part, square / whole)",
        "Scale.of(noise_multiplier, relation, part)",
        _of("release", "one_row_moves_all_sums_over_their_noise_by_at_most_what_is_paid_for"),
    ),
    Mutation(
        "noise is rounded down to a step",
        "release.py",
        "below if below**2 >= square else below + 1",
        "below",
        _of("release", "one_row_moves_all_sums_over_their_noise_by_at_most_what_is_paid_for"),
    ),
    Mutation(
        "noise is drawn from the key of the rows",
        "release.py",
        "Bits(keys.noise)",
        "Bits(keys.rows)",
        _of("release", "the_noise_is_drawn_from_the_secret_key_of_the_receipt_for_noise"),
    ),
    Mutation(
        "sums are released without a redeemed receipt",
        "release.py",
        "    keys = receipt.redeem(kinds)\n",
        "    from twinify_lite import receipt as receipts, rng\n\n"
        "    keys = receipts.Secrets(rng.fresh_key(), rng.fresh_key())\n",
        _of("release", "the_receipt_is_used_up_before_there_is_a_sum"),
    ),
)

_LEDGER = (
    Mutation(
        "the ledger grants what exceeds its budget",
        "ledger.py",
        "if needed > self.epsilon or math.isnan(needed):",
        "if math.isnan(needed):",
        _of("ledger", "spending_within_the_budget_gives_a_receipt_and_past_it_records_nothing"),
    ),
    Mutation(
        "a receipt is redeemed twice",
        "ledger.py",
        "            self._used.add(id(receipt))\n            self._stages",
        "            self._stages",
        _of("ledger", "receipts_run_their_own_mechanism_once"),
    ),
    Mutation(
        "a receipt pays for another mechanism",
        "ledger.py",
        "if not isinstance(receipt.mechanism, kind):",
        "if False:",
        _of("ledger", "receipts_run_their_own_mechanism_once"),
    ),
    Mutation(
        "a receipt that no ledger made is taken",
        "ledger.py",
        "if not any(receipt is other for other in self.receipts):",
        "if False:",
        _of("ledger", "a_receipt_that_no_ledger_made_is_refused"),
    ),
    Mutation(
        "an answer does not seal its stage",
        "ledger.py",
        "            self._stages[receipt.stage].sealed = True\n",
        "",
        _of("ledger", "a_stage_is_sealed_by_its_first_answer_and_stages_add_up"),
    ),
    Mutation(
        "epsilons of stages are not added",
        "ledger.py",
        "return math.fsum([*others, self._cost(stage, mechanisms)[0]])",
        "return max([*others, self._cost(stage, mechanisms)[0]])",
        _of("ledger", "a_stage_that_fits_alone_is_refused_beside_what_earlier_ones_cost"),
    ),
    Mutation(
        "deltas of stages are not added",
        "ledger.py",
        "return self.delta - math.fsum(self._cost(s, s.mechanisms)[1] for s in self._stages if s is not stage)",
        "return self.delta",
        _of("ledger", "a_second_approximate_stage_needs_a_share_of_delta"),
    ),
    Mutation(
        "a seed does not mark a ledger as not private",
        "ledger.py",
        "return math.isfinite(self.epsilon) and self._insecure_seed is None",
        "return math.isfinite(self.epsilon)",
        _of("ledger", "a_seed_or_a_missing_limit_marks_the_statement_not_private"),
    ),
    Mutation(
        "rows and noise have the same key",
        "ledger.py",
        "return Secrets(rows=rng.fresh_key(), noise=rng.fresh_key())",
        "return Secrets(*[rng.fresh_key()] * 2)",
        _of("ledger", "no_two_keys_of_a_ledger_are_the_same"),
    ),
    Mutation(
        "two releases have the same key",
        "ledger.py",
        "rng.insecure_keys(self._insecure_seed, number, 2)",
        "rng.insecure_keys(self._insecure_seed, 0, 2)",
        _of("ledger", "no_two_keys_of_a_ledger_are_the_same"),
    ),
    Mutation(
        "a step runs twice",
        "ledger.py",
        "if first != taken:",
        "if first > taken:",
        _of("claims", "a_step_runs_once"),
    ),
    Mutation(
        "more steps run than were paid for",
        "ledger.py",
        "if first + number > paid:",
        "if False:",
        _of("checkpoint_ledger", "steps_go_on_where_they_were"),
    ),
    Mutation(
        "samplers may miss their law however large epsilon is",
        "ledger.py",
        "accountant.SAMPLING_SHARE * delta / (1 + math.exp(min(epsilon, 700.0)))",
        "accountant.SAMPLING_SHARE * delta",
        _of("ledger", "what_samplers_may_miss_is_weighed_by_epsilon_and_shared"),
    ),
    Mutation(
        "a resumed run redeems used receipts again",
        "ledger.py",
        "                ledger._used.add(id(receipt))\n            if",
        "                pass\n            if",
        _of("checkpoint_ledger", "what_was_used_cannot_run_and_the_rest_runs_once"),
    ),
    Mutation(
        "a resumed run takes its steps again",
        "ledger.py",
        "= _steps_run(receipt, steps[receipt.what])",
        "= 0",
        _of("checkpoint_ledger", "steps_go_on_where_they_were"),
    ),
    Mutation(
        "a resumed run may exceed its budget",
        "ledger.py",
        "if epsilon > ledger.epsilon or delta > ledger.delta:",
        "if False:",
        _of("checkpoint_ledger", "receipts_that_exceed_the_budget_are_refused"),
    ),
    Mutation(
        "a resumed stage is open again",
        "ledger.py",
        'stage = _Stage(delta=entry["delta"] or None, sealed=True)',
        'stage = _Stage(delta=entry["delta"] or None)',
        _of("checkpoint_ledger", "stages_are_sealed_and_nothing_more_fits_in"),
    ),
    Mutation(
        "a run with a seed becomes private when it is resumed",
        "ledger.py",
        'if statement.get("private") is not ledger.is_private:',
        "if False:",
        _of("checkpoint_ledger", "a_run_with_a_seed_does_not_become_private"),
    ),
    Mutation(
        "a stage runs before its ledger file is charged",
        "ledger.py",
        "if not self._stages[receipt.stage].charged:",
        "if False:",
        _of("book", "a_stage_is_charged_whole_when_its_first_receipt_is_redeemed"),
    ),
)

_ACCOUNTANT = (
    Mutation(
        "a row added costs what a row removed does",
        "accountant/bounds.py",
        "return max(forward, cost([release.reversed() for release in releases]))",
        "return forward",
        _of("accountant", "the_costlier_direction_is_reported_whichever_it_is"),
    ),
    Mutation(
        "a row removed costs what a row added does",
        "accountant/bounds.py",
        "return max(forward, cost([release.reversed() for release in releases]))",
        "return cost([release.reversed() for release in releases])",
        _of("accountant", "the_costlier_direction_is_reported_whichever_it_is"),
    ),
    Mutation(
        "the sampling rate is accounted for as a lower one",
        "accountant/hockey.py",
        "mu, q = 1 / mechanism.noise_multiplier, mechanism.sampling_rate",
        "mu, q = 1 / mechanism.noise_multiplier, 0.99 * mechanism.sampling_rate",
        _of("accountant", "poisson_profile_is_that_of_its_densities"),
    ),
    Mutation(
        "batches of a fixed size are accounted for as Poisson samples",
        "accountant/hockey.py",
        "FixedSizeGaussian: _fixed_size_gaussian,",
        "FixedSizeGaussian: _poisson_gaussian,",
        _of("accountant", "fixed_size_batches_cost_what_substitution_costs"),
    ),
    Mutation(
        "a replaced row moves a batch as an added one does",
        "accountant/hockey.py",
        "mu, q = 2 / mechanism.noise_multiplier",
        "mu, q = 1 / mechanism.noise_multiplier",
        _of("accountant", "fixed_size_batches_cost_what_substitution_costs"),
    ),
    Mutation(
        "a replaced row moves a whole table as an added one does",
        "accountant/bounds.py",
        "return 4 * mechanism.steps / mechanism.noise_multiplier**2",
        "return mechanism.steps / mechanism.noise_multiplier**2",
        _of("accountant", "whole_table_batches_under_substitution_are_gaussian"),
    ),
    Mutation(
        "several Gaussian releases cost what one does",
        "accountant/bounds.py",
        "return mechanism.releases / mechanism.noise_multiplier**2",
        "return 1 / mechanism.noise_multiplier**2",
        _of("accountant", "gaussians_meet_the_closed_form_from_above"),
    ),
    Mutation(
        "one step is not accounted for",
        "accountant/pld.py",
        "return fft.rfft(masses) ** count",
        "return fft.rfft(masses) ** max(1, count - 1)",
        _of("accountant", "composition_meets_the_closed_form_from_above_at_a_million_steps"),
    ),
    Mutation(
        "infinite losses are left out",
        "accountant/pld.py",
        "beyond=math.exp(min(log_above, 50.0)) + infinite",
        "beyond=math.exp(min(log_above, 50.0))",
        _of("accountant", "a_delta_that_is_given_away_is_left_to_nobody_else"),
    ),
    Mutation(
        "chords are drawn below the profile",
        "accountant/pld.py",
        "dots = release.excess(np.arange(first, last + 1) * interval)",
        "dots = release.excess((np.arange(first, last + 1) + 0.5) * interval)",
        _of("accountant", "every_chord_dominates_the_profile"),
    ),
    Mutation(
        "round-off is not charged",
        "accountant/pld.py",
        "_ROUND_OFF_STEP, _ROUND_OFF_ONCE = 4e-15, 1e-12",
        "_ROUND_OFF_STEP, _ROUND_OFF_ONCE = 0.0, 0.0",
        _of("accountant", "round_off_is_charged_for"),
    ),
    Mutation(
        "the smaller of two bounds is stated",
        "accountant/bounds.py",
        "return min(max(own, other), _ceiling(mechanisms, delta))",
        "return min(own, other, _ceiling(mechanisms, delta))",
        _of("reference", "the_usual_settings_are_inside_the_region"),
    ),
    Mutation(
        "accountants may disagree",
        "accountant/bounds.py",
        "if not abs(other - own) <= _TOLERANCE * own:",
        "if False:",
        _of("reference", "halved_noise_in_dp_accounting_is_refused"),
    ),
    Mutation(
        "no delta is kept for samplers",
        "accountant/bounds.py",
        "target = delta * (1 - _share(mechanisms))",
        "target = delta",
        _of("accountant", "the_costlier_direction_is_reported_whichever_it_is"),
    ),
    Mutation(
        "a mechanism of a user's own is accounted for",
        "accountant/mechanisms.py",
        "if cls.__module__ != __name__:",
        "if False:",
        _of("accountant", "a_mechanism_cannot_be_passed_off_as_a_cheaper_one"),
    ),
    Mutation(
        "a sampler without a theorem for the relation is accounted for",
        "accountant/bounds.py",
        "if relation not in mechanism.relations:",
        "if False:",
        _of("accountant", "a_pair_without_a_theorem_is_refused"),
    ),
    Mutation(
        "calibration ends on the costly side",
        "accountant/calibration.py",
        "            bad, bad_excess = value, value_excess\n    return good",
        "            bad, bad_excess = value, value_excess\n    return bad",
        _of("calibration", "calibrated_noise_is_safe_and_tight"),
    ),
    Mutation(
        "calibration asks one accountant only",
        "accountant/calibration.py",
        "if best is not None and cost(best, bounds.epsilon) > epsilon:",
        "if False:",
        _of("reference", "calibration_obeys_the_larger_figure"),
    ),
    Mutation(
        "the paper's batches are paid for as Poisson samples",
        "dpsvi/plan.py",
        '"fixed": (FixedSizeGaussian, Relation.SUBSTITUTE)',
        '"fixed": (PoissonGaussian, Relation.ADD_REMOVE)',
        _of("ledger", "approximate_sigma_is_sound_for_the_sampler_it_names"),
    ),
)

_CLIPPED = (
    Mutation(
        "rows are clipped without room for rounding",
        "dpsvi/gradient.py",
        "clip_norm * (1 - ROUNDING_ROOM)",
        "clip_norm",
        _of("gradient", "clip_never_exceeds_its_norm_even_for_nan_and_inf"),
    ),
    Mutation(
        "rows are clipped to a little more than their norm",
        "dpsvi/gradient.py",
        "clip_norm * (1 - ROUNDING_ROOM)",
        "1.001 * clip_norm",
        _of("gradient", "clip_never_exceeds_its_norm_even_for_nan_and_inf"),
    ),
    Mutation(
        "rows that are not finite are not left out",
        "dpsvi/gradient.py",
        "return jnp.where(jnp.isfinite(norm), factor, 0.0)",
        "return jnp.where(jnp.isfinite(norm), factor, 1.0)",
        _of("gradient", "clip_never_exceeds_its_norm_even_for_nan_and_inf"),
    ),
    Mutation(
        "rows outside of the batch are summed",
        "dpsvi/gradient.py",
        "factors = jnp.where(mask, clip_factor(norms, clip_norm), 0.0)\n        # The",
        "factors = clip_factor(norms, clip_norm)\n        # The",
        _of("paid_mechanism", "poisson_batches_are_binomial_and_the_noise_has_the_paid_for_size"),
    ),
    Mutation(
        "gradients are rounded away from zero",
        "dpsvi/lattice.py",
        "return values.astype(jnp.int32)",
        "return (jnp.sign(values) * jnp.ceil(jnp.abs(values))).astype(jnp.int32)",
        _of("lattice", "truncation_lengthens_no_entry_and_rounding_moves_none_by_more_than_half"),
    ),
    Mutation(
        "rounding of sums is not charged",
        "dpsvi/lattice.py",
        "    if not summed.tapped:\n        return 0.0",
        "    return 0.0",
        _of("lattice", "lattice_for_pays_for_rounding_and_for_the_count"),
    ),
    Mutation(
        "the count of the clip rule is not charged",
        "dpsvi/lattice.py",
        "room = math.sqrt(whole**2 - count**2)",
        "room = whole",
        _of("lattice", "lattice_for_pays_for_rounding_and_for_the_count"),
    ),
    Mutation(
        "the carry of a long sum is dropped",
        "dpsvi/lattice.py",
        "return Words(high + (low >> _BITS), low & (2**_BITS - 1))",
        "return Words(high, low & (2**_BITS - 1))",
        _of("lattice", "sums_are_exact_in_any_order_and_so_is_their_noise"),
    ),
    Mutation(
        "the clip rule's count has no noise",
        "dpsvi/clip.py",
        "lattice.add_noise(total.count, drawn[ends[-1] if ends else 0])",
        "lattice.as_float(total.count)",
        _of("lattice", "the_release_has_the_noise_that_was_paid_for_and_shows_no_finer_steps"),
    ),
    Mutation(
        "gradients have no noise",
        "dpsvi/clip.py",
        "total.unit * lattice.add_noise(leaf, drawn[end - leaf.low.size : end].reshape(leaf.low.shape))",
        "total.unit * lattice.as_float(leaf)",
        _of("lattice", "the_release_has_the_noise_that_was_paid_for_and_shows_no_finer_steps"),
    ),
    Mutation(
        "two arrays have the same noise",
        "dpsvi/clip.py",
        "drawn[end - leaf.low.size : end]",
        "drawn[: leaf.low.size]",
        _of("paid_mechanism", "every_coordinate_of_a_large_release_has_its_own_noise_of_the_paid_for_size"),
    ),
    Mutation(
        "gradients have half the noise",
        "dpsvi/step.py",
        "return batch, noise.draw(key, noise_size(training), training.lattice.law)",
        "return batch, noise.draw(key, noise_size(training), training.lattice.law) // 2",
        _of("paid_mechanism", "poisson_batches_are_binomial_and_the_noise_has_the_paid_for_size"),
    ),
)

_ROW_NORMS = (
    Mutation(
        "a product over several places is taken for one of a single place",
        "dpsvi/rules.py",
        "if math.prod(shape[d] for d in free) != 1 or not _is_precise(eqn):",
        "if not _is_precise(eqn):",
        _of("gradient", "fast_sum_equals_plain_sum[0.05-sequence]"),
    ),
    Mutation(
        "a product in fewer bits is taken for a precise one",
        "dpsvi/rules.py",
        "return len(types) == 1 and preferred in (None, *types) and eqn.params",
        "return True or eqn.params",
        _of("gradient", "a_product_in_fewer_bits_than_it_has_is_materialised"),
    ),
    Mutation(
        "slices at several places are taken for one",
        "dpsvi/rules.py",
        "return None if position != 0 or places != 1 else _one_slice(eqn)",
        "return None if position != 0 else _one_slice(eqn)",
        _of(
            "gradient",
            "no_row_contributes_more_than_the_clip_norm_whatever_it_does[1.0-indices that are clamped to one slice]",
        ),
    ),
    Mutation(
        "squares that underflow count as zero",
        "dpsvi/rules.py",
        "return jnp.sqrt(jnp.sum(squares) + x.size * 2.0**-126)",
        "return jnp.sqrt(jnp.sum(squares))",
        _of(
            "gradient",
            "no_row_contributes_more_than_the_clip_norm_whatever_it_does[1e-06-tiny inputs and huge effects]",
        ),
    ),
    Mutation(
        "the norm of an almost sure component is a difference",
        "dpsvi/lookup.py",
        "jnp.square(_sum_of_others(shares)) +",
        "jnp.square(1 - shares) +",
        _of("gradient", "the_rule_of_a_lookup_holds_where_a_component_is_almost_sure"),
    ),
    Mutation(
        "the norm of a lookup is that of another level",
        "dpsvi/rules.py",
        "norm(cotangent * lookup.gap(operand)[:, inputs[0]])",
        "norm(cotangent * lookup.gap(operand)[:, 0])",
        _of("gradient", "fast_sum_equals_plain_sum[0.05-mixture]"),
    ),
    Mutation(
        "an array that is used twice is tapped once",
        "dpsvi/ghost.py",
        "if len(u) == 1 and u[0] is not None and leaf not in returned]",
        "if u and u[0] is not None and leaf not in returned]",
        _of("gradient", "fast_sum_equals_plain_sum[0.05-tied]"),
    ),
    Mutation(
        "callbacks see rows",
        "dpsvi/allowed.py",
        "if program.effects or any(_talks(eqn) for eqn in _all_equations(program)):",
        "if False:",
        _of("rows", "a_known_structure_does_not_hide_a_model_that_talks_with_other_keywords"),
    ),
    Mutation(
        "operations with batching rules of their own see rows",
        "dpsvi/allowed.py",
        "if eqn.primitive not in operations:",
        "if False:",
        _of("rows", "operations_of_somebody_elses_are_refused"),
    ),
    Mutation(
        "an operation is known by its name",
        "dpsvi/allowed.py",
        "if eqn.primitive not in operations:",
        "if eqn.primitive.name not in {one.name for one in operations}:",
        _of("rows", "operations_of_somebody_elses_are_refused"),
    ),
    Mutation(
        "keys of any kind are drawn from",
        "dpsvi/allowed.py",
        "_dtype(var) not in keys for var in eqn.outvars",
        "False for var in eqn.outvars",
        _of("rows", "keys_whose_batches_share_a_stream_are_refused"),
    ),
    Mutation(
        "models that mix rows are not refused",
        "dpsvi/mixing.py",
        "        if is_mixed:\n",
        "        if False:\n",
        _of("rows", "a_model_that_breaks_the_contract_is_refused_by_the_name_of_its_site"),
    ),
)

_BATCHES = (
    Mutation(
        "sums are divided by the size that a batch turned out to have",
        "dpsvi/step.py",
        "lambda leaf: sampler.rows_over_batch * leaf, total",
        "lambda leaf: sampler.rows / jnp.maximum(batch.count, 1) * leaf, total",
        _of("paid_mechanism", "poisson_batches_are_binomial_and_the_noise_has_the_paid_for_size"),
    ),
    Mutation(
        "a step's rows and noise have the same key",
        "dpsvi/step.py",
        "key = jax.random.fold_in(secrets.noise, number)",
        "key = jax.random.fold_in(secrets.rows, number)",
        _of("paid_mechanism", "rows_and_noise_of_every_step_have_keys_of_their_own"),
    ),
    Mutation(
        "every step has the same noise",
        "dpsvi/step.py",
        "key = jax.random.fold_in(secrets.noise, number)",
        "key = jax.random.fold_in(secrets.noise, 0)",
        _of("paid_mechanism", "rows_and_noise_of_every_step_have_keys_of_their_own"),
    ),
    Mutation(
        "every step of a group has the same number",
        "dpsvi/step.py",
        "(first + jnp.arange(size))",
        "(first + jnp.zeros(size, jnp.int32))",
        _of("paid_mechanism", "rows_and_noise_of_every_step_have_keys_of_their_own"),
    ),
    Mutation(
        "what the guide draws for a person is public",
        "dpsvi/step.py",
        "_personal_keys(batch.local_key, start, sampler.microbatch)",
        "_personal_keys(jax.random.key(0), start, sampler.microbatch)",
        _of("paid_mechanism", "what_the_guide_draws_for_a_person_is_secret"),
    ),
    Mutation(
        "rows stand in their own order where all of them are taken",
        "dpsvi/batches.py",
        "in_order=is_free,",
        "in_order=is_free or is_poisson,",
        _of("batches", "the_rows_of_a_whole_table_are_shuffled"),
    ),
    Mutation(
        "a batch has more rows than the table",
        "dpsvi/batches.py",
        "size = min(rows, math.floor(rows * rate * (1 + 1e-9)))",
        "size = math.floor(rows * rate * (1 + 1e-9))",
        _of("batches", "a_batch_has_no_more_rows_than_its_table"),
    ),
    Mutation(
        "a place beyond the batch is taken",
        "dpsvi/batches.py",
        "jnp.minimum(place, sampler.rows - 1), sampler.rows), place < count",
        "jnp.minimum(place, sampler.rows - 1), sampler.rows), place <= count",
        _of("paid_mechanism", "batches_larger_than_a_microbatch_are_not_cut"),
    ),
    Mutation(
        "the width of a batch follows the exact number of rows",
        "dpsvi/svi.py",
        "return batches.sampler_for(self.mechanism, number, self._width(training))",
        "return batches.sampler_for(self.mechanism, number, batches.width(self.mechanism, number, 1))",
        _of("batches", "no_width_follows_the_exact_number_of_rows"),
    ),
    Mutation(
        "a table of another size than was told is refused",
        "dpsvi/svi.py",
        "        if not is_batch:\n            return batches.sampler_for",
        "        if not is_batch:\n"
        "            if number > 2 * self.num_obs_total:\n"
        '                raise ReceiptError("The table is larger.")\n'
        "            return batches.sampler_for",
        _of("batches", "no_width_follows_the_exact_number_of_rows"),
    ),
    Mutation(
        "a caller's batch is larger than was paid for",
        "dpsvi/svi.py",
        "if number > paid * (1 + 1e-6):",
        "if False:",
        _of("batches", "fixed_size_batches_come_from_subsample_batchify_data"),
    ),
    Mutation(
        "rows whose bits follow their place are trusted",
        "dpsvi/svi.py",
        "if not isinstance(self.mechanism, PoissonGaussian) or self._places_agree(training, params, width):",
        "if True:",
        _of("batches", "rows_pass_one_by_one_where_their_bits_would_follow_their_place"),
    ),
    Mutation(
        "bits that follow their place are not noticed",
        "dpsvi/row_program.py",
        "return all(bits(order, back=np.argsort(order)) == expected for order in orders)",
        "return True",
        _of("batches", "bits_that_follow_their_place_are_noticed"),
    ),
    Mutation(
        "steps run without a claim",
        "dpsvi/svi.py",
        "            self.receipt.claim(int(first), number)\n",
        "",
        _of("claims", "a_step_runs_once"),
    ),
    Mutation(
        "errors of the samplers are not weighed",
        "dpsvi/svi.py",
        "error = self.mechanism.steps * (drawn + batches.error_bound(self.mechanism))",
        "error = 0.0",
        _of("paid_mechanism", "an_epsilon_too_large_to_vouch_for_is_refused"),
    ),
    Mutation(
        "the loss of private rows is told",
        "dpsvi/svi.py",
        "if not rows_are_public:",
        "if False:",
        _of("paid_mechanism", "no_loss_is_released"),
    ),
    Mutation(
        "binomial numbers have a rounded rate",
        "dpsvi/binomial.py",
        "exact = Fraction(rate)",
        "exact = Fraction(rate).limit_denominator(10**6)",
        _of("binomial", "every_threshold_is_exact"),
    ),
    Mutation(
        "rows are not permuted",
        "dpsvi/feistel.py",
        "image = _rank(keys, index, n) if n <= _RANKED else _walk(keys, index, n, (n - 1).bit_length())",
        "image = index",
        _of("feistel", "rows_and_differences_are_uniform_just_above_the_ranked_tables"),
    ),
    Mutation(
        "half of the rounds of the permutation are left out",
        "dpsvi/feistel.py",
        "for i in range(_rounds(bits)):",
        "for i in range(2):",
        _of("feistel", "rows_and_differences_are_uniform_just_above_the_ranked_tables"),
    ),
)

_NOISE = (
    Mutation(
        "the threshold of a column is off by one",
        "alias.py",
        "min(threshold, largest).to_bytes",
        "min(threshold + 1, largest).to_bytes",
        _of("alias", "the_total_variation_distance_is_at_most_distance"),
    ),
    Mutation(
        "errors of a table's heights are not charged",
        "alias.py",
        "distance = Fraction(apart, 2 * _TOTAL * total) + (slips + beyond) / (total - slips)",
        "distance = Fraction(apart, 2 * _TOTAL * total)",
        _of("alias", "the_total_variation_distance_is_at_most_distance"),
    ),
    Mutation(
        "the deviation of the noise is rounded up",
        "noise.py",
        "return math.isqrt((self.scale**2 * (self.stride**2 + 1)) << 64) / 2**32",
        "return (math.isqrt((self.scale**2 * (self.stride**2 + 1)) << 64) + 1) / 2**32",
        _of("noise", "the_deviation_is_not_above_the_true_one"),
    ),
    Mutation(
        "ties are settled by the bits that there are",
        "noise.py",
        "return (word ^ entry) < jnp.uint32(2**bits)",
        "return (word ^ entry) < jnp.uint32(0)",
        _of("noise", "a_tie_is_whatever_the_bits_of_the_comparison_leave_open"),
    ),
    Mutation(
        "the error of one number stands for all of them",
        "noise.py",
        "math.nextafter(size * math.nextafter(_number_error(law), math.inf), math.inf)",
        "math.nextafter(math.nextafter(_number_error(law), math.inf), math.inf)",
        _of("noise", "the_error_bound_adds_up_what_every_number_costs"),
    ),
    Mutation(
        "exact noise is never negative",
        "exact.py",
        "return size if bits.take(1) else -size",
        "return size",
        _of("exact_frequencies", "rounded_gaussians_have_the_frequencies_of_their_law"),
    ),
    Mutation(
        "random bits are served twice",
        "exact.py",
        "self._next_block += 1",
        "self._next_block += 0",
        _of("exact", "the_stream_is_the_concatenation_of_distinct_blocks"),
    ),
    Mutation(
        "children of a key equal its folds",
        "rng.py",
        "_SEED, _SPLIT, _FOLD, _BITS = 1, 2, 3, 4",
        "_SEED, _SPLIT, _FOLD, _BITS = 1, 2, 2, 4",
        _of("rng", "streams_children_and_folds_come_from_separate_nonces"),
    ),
    Mutation(
        "fresh keys have few bits",
        "rng.py",
        "np.frombuffer(secrets.token_bytes(32), dtype",
        "np.frombuffer(8 * secrets.token_bytes(4), dtype",
        _of("rng", "fresh_keys_differ_and_hold_256_bits"),
    ),
)

_DISCOVERY = (
    Mutation(
        "the number of rows has no noise",
        "discover/__init__.py",
        "return max(1, count + noise)",
        "return max(1, count)",
        _of("discovery_audit", "the_row_count_tells_neighbours_apart_no_better_than_paid_for"),
    ),
    Mutation(
        "the number of rows has half the noise",
        "discover/__init__.py",
        "receipt.mechanism.scale)",
        "receipt.mechanism.scale / 2)",
        _of("discovery_audit", "the_row_count_tells_neighbours_apart_no_better_than_paid_for"),
    ),
    Mutation(
        "the number of rows is not paid for",
        "discover/__init__.py",
        'receipt = ledger.spend(DiscreteLaplace(scale=1 / (share * ledger.epsilon)), "row count")',
        'receipt = Ledger(ledger.epsilon).spend(DiscreteLaplace(scale=1 / (share * ledger.epsilon)), "row count")',
        _of("discovery_audit", "the_row_count_is_paid_for_as_discrete_laplace"),
    ),
    Mutation(
        "a row's votes weigh a little more than they may",
        "discover/votes.py",
        "*(math.isqrt(WEIGHT**2 * square // spread) for",
        "*(math.isqrt(WEIGHT**2 * square // spread) + 1 for",
        _of("votes", "one_row_moves_all_tallies_together_by_at_most_its_weight"),
    ),
    Mutation(
        "votes are paid for as if a row had one step",
        "discover/votes.py",
        "release.Part(bound=WEIGHT)",
        "release.Part()",
        _of("votes", "noise_has_the_size_that_the_relation_needs"),
    ),
    Mutation(
        "the threshold for new values is a row too low",
        "discover/votes.py",
        "threshold = (floor + WEIGHT + 1 +",
        "threshold = (floor + 1 +",
        _of("votes", "the_threshold_leaves_what_one_row_brings_in_to_the_tail_of_the_noise"),
    ),
    Mutation(
        "new values are looked at from a higher floor than their threshold has",
        "discover/votes.py",
        "seen = np.flatnonzero(sums >= floor)",
        "seen = np.flatnonzero(sums >= floor + WEIGHT)",
        _of("votes", "the_threshold_leaves_what_one_row_brings_in_to_the_tail_of_the_noise"),
    ),
    Mutation(
        "new values are shown whatever their noise",
        "discover/votes.py",
        "        noisy[noisy <= threshold] = -math.inf\n",
        "",
        _of("votes", "the_threshold_leaves_what_one_row_brings_in_to_the_tail_of_the_noise"),
    ),
    Mutation(
        "a replaced row shows new values for the price of an added one",
        "discover/votes.py",
        "delta=delta if relation is Relation.ADD_REMOVE else 2 * delta",
        "delta=delta",
        _of("votes", "selection_under_substitution_is_paid_twice"),
    ),
    Mutation(
        "the same votes are released twice",
        "discover/votes.py",
        "self._kept[ballot][items] = False",
        "pass",
        _of("discovery_privacy", "each_receipt_pays_for_one_joint_tally_and_each_item_leaves_once"),
    ),
    Mutation(
        "the receipt for new values is not redeemed",
        "discover/votes.py",
        "    receipt.redeem((ApproximateDP, NotPrivate))\n",
        "",
        _of("discover", "every_receipt_is_used_and_all_noise_is_settled_in_one_stage"),
    ),
)

_AUTO = (
    Mutation(
        "a row counts twice",
        "auto/tables.py",
        "np.bincount(codes, minlength=size + 1)[:size].astype(np.int64)",
        "2 * np.bincount(codes, minlength=size + 1)[:size].astype(np.int64)",
        _of("auto_tables", "neighbouring_tables_differ_by_no_more_than_the_receipt_pays_for"),
    ),
    Mutation(
        "a replaced row moves a table as an added one does",
        "auto/tables.py",
        "Part(bound=1, weight=weight)",
        "Part(bound=1, weight=weight, replaced=1)",
        _of("auto_tables", "noise_is_that_of_the_receipt_for_what_one_row_can_move"),
    ),
    Mutation(
        "a fit that goes on makes its releases again",
        "auto/__init__.py",
        'if f"{what}.0.counts" not in self._arrays:',
        "if True:",
        _of("checkpoint", "a_fit_that_is_stopped_after_saving_makes_no_release_again[5]"),
    ),
    Mutation(
        "a fit that goes on may use its receipts again",
        "auto/__init__.py",
        'return {what for what in plan.noise if f"{what}.0.counts" in kept}, {}',
        "return set(), {}",
        _of("checkpoint", "receipts_of_what_was_released_are_used_up_when_a_fit_goes_on"),
    ),
    Mutation(
        "a fit is refused by its exact number of rows",
        "fitting.py",
        "            progress(COUNTED, rows, rows)\n",
        "            if ready.table.reveal().num_rows == 1000:\n"
        '                raise TwinError("There are 1000 rows.")\n',
        _of(
            "no_raise_below_boundary",
            "nothing_below_the_boundary_hangs_on_exact_rows_but_what_is_listed_with_its_reason",
        ),
    ),
    Mutation(
        "preprocess is given the whole table",
        "models/processing.py",
        "made = [_alone(fresh, frame.iloc[i : i + 1], wanted) for i in range(len(frame))]",
        "whole = fresh()(frame)\n"
        "    made = [_alone(lambda: lambda _, i=i: whole.iloc[i : i + 1], frame, wanted) for i in range(len(frame))]",
        _of("model_posterior", "preprocess_sees_every_row_alone"),
    ),
    Mutation(
        "preprocess remembers other rows",
        "models/processing.py",
        '    fresh = _fresh(source, "preprocess")\n    made',
        "    fresh = lambda: source.preprocess\n    made",
        _of(
            "model_posterior", "a_preprocess_that_remembers_what_no_made_up_row_has_still_meets_every_row_as_the_first"
        ),
    ),
)

_SCORE = (
    Mutation(
        "a private score has half the noise",
        "score/private.py",
        "Part(bound=_LATTICE, weight=weight, replaced=1)",
        "Part(bound=_LATTICE // 2, weight=weight, replaced=1)",
        _of("private_score", "no_sum_moves_by_a_step_more_than_its_bound_where_floats_would_be_rounded_apart"),
    ),
    Mutation(
        "sums of a private score are computed in floats",
        "score/private.py",
        "return _LATTICE * sum(apart(rows, others, columns) for columns in sets) // (2 * others.rows * len(sets))",
        "distances = [distance(rows.shares(columns), others.shares(columns)) for columns in sets]\n"
        "        return round(_LATTICE * rows.rows * sum(distances) / len(sets))",
        _of("private_score", "no_sum_moves_by_a_step_more_than_its_bound_where_floats_would_be_rounded_apart"),
    ),
    Mutation(
        "a row moves the sums of a private score twice as far as is paid for",
        "score/private.py",
        "for columns in sets) // (2 * others.rows * len(sets))",
        "for columns in sets) // (others.rows * len(sets))",
        _of("private_score", "no_sum_moves_by_a_step_more_than_its_bound_where_floats_would_be_rounded_apart"),
    ),
)

_LEDGER_FILE = (
    Mutation(
        "what is granted is not written to the ledger file",
        "book.py",
        "            self._write(entered)\n",
        "",
        _of("book", "what_is_granted_is_in_the_file_and_what_is_refused_is_not"),
    ),
    Mutation(
        "the limit of a ledger file is not looked at",
        "book.py",
        "if not entered.is_within_limit:",
        "if False:",
        _of("book", "what_is_granted_is_in_the_file_and_what_is_refused_is_not"),
    ),
    Mutation(
        "a stage of the same name may hold other releases",
        "book.py",
        "if asked != [release.mechanism for release in entry.releases]:",
        "if False:",
        _of("book", "other_releases_under_the_name_of_a_stage_are_refused"),
    ),
    Mutation(
        "a second name of a ledger file is taken",
        "book.py",
        "if os.stat(self.path).st_nlink > 1:",
        "if False:",
        _of("book", "a_second_name_of_the_file_is_refused"),
    ),
    Mutation(
        "costs in a ledger file are believed",
        "book_file.py",
        "    cost = dominate(mechanism, relation, slack)\n",
        '    cost = Cost(_number(data["mu"]), slack)\n',
        _of("book", "a_file_that_was_changed_by_hand_is_refused_and_stays"),
    ),
    Mutation(
        "the largest release of a ledger file stands for all",
        "book_file.py",
        "math.sqrt(math.fsum(release.cost.mu**2 for entry in self.entries for release in entry.releases))",
        "max((release.cost.mu for entry in self.entries for release in entry.releases), default=0.0)",
        _of("book_dominating", "squares_are_added_and_not_the_mus_themselves"),
    ),
    Mutation(
        "slacks of a ledger file are not looked at",
        "book_file.py",
        "return self.epsilon <= self.limit.epsilon and self.slack <= self.slack_limit",
        "return self.epsilon <= self.limit.epsilon",
        _of("book_dominating", "slacks_add_up_and_are_refused_past_their_part_of_delta"),
    ),
    Mutation(
        "no delta of a ledger file is kept for slacks",
        "book_file.py",
        "return accountant.epsilon(gaussian, delta=(1 - _SLACKS) * self.limit.delta, relation=self.relation)",
        "return accountant.epsilon(gaussian, delta=self.limit.delta, relation=self.relation)",
        _of("book_dominating", "squares_are_added_and_not_the_mus_themselves"),
    ),
    Mutation(
        "a replaced row moves a whole table as an added one does, in a ledger file",
        "dominating.py",
        "moved = 2 if isinstance(mechanism, FixedSizeGaussian) else 1",
        "moved = 1",
        _of("book_dominating", "what_is_gaussian_stays_what_it_is"),
    ),
    Mutation(
        "a pure release costs a ledger file too little",
        "dominating.py",
        "return -2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon)))) * _ROUNDED_UP",
        "return -1.99 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon)))) * _ROUNDED_UP",
        _of("book_dominating", "a_pure_release_lies_below_its_gaussian_and_touches_it"),
    ),
)

_BORDER = (
    Mutation(
        "a policy forbids no column",
        "request.py",
        "            self.policy.check_columns(_columns_of(family, begun, raw, table))\n",
        "            pass\n",
        _of("policy", "a_forbidden_column_is_refused_before_anything_is_spent"),
    ),
    Mutation(
        "a policy allows any budget",
        "request.py",
        "if self.policy is not None:\n            self.policy.check_request",
        "if False:\n            self.policy.check_request",
        _of("policy", "a_request_is_refused_before_the_table_is_read"),
    ),
    Mutation(
        "a table shows its number of rows",
        "table/private.py",
        'f"PrivateTable of {count}, rows not shown"',
        'f"PrivateTable of {count}, {self.reveal().num_rows} rows not shown"',
        _of("private_table", "no_way_of_printing_a_table_shows_a_row_or_the_number_of_rows"),
    ),
    Mutation(
        "a table can be copied",
        "table/private.py",
        "__reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse",
        "__reduce__ = __reduce_ex__ = __getstate__ = __deepcopy__ = _refuse\n    __copy__ = lambda self: self",
        _of("private_table", "a_table_is_not_pickled_or_copied"),
    ),
    Mutation(
        "an error quotes the one behind it",
        "table/guard.py",
        "    # Raised out here, so that it has no __context__.\n",
        "        raise TableError(problem) from error\n",
        _of("private_table", "a_table_whose_texts_are_none_is_refused_without_them"),
    ),
    Mutation(
        "a statement claims less than was spent",
        "verification.py",
        "if claimed < found and not claimed >= found * (1 - TOLERANCE):",
        "if False:",
        _of("verification", "a_lie_is_refused_and_named"),
    ),
)

MUTATIONS = (
    *_RELEASE,
    *_LEDGER,
    *_ACCOUNTANT,
    *_CLIPPED,
    *_ROW_NORMS,
    *_BATCHES,
    *_NOISE,
    *_DISCOVERY,
    *_AUTO,
    *_SCORE,
    *_LEDGER_FILE,
    *_BORDER,
)
