"""Models and guides of rows: random ones whose rows are apart, and ones that mix rows in every way we know."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import lax
from numpyro import param, plate, sample

# -- networks whose rows are apart ------------------------------------------------------------------------------------

ACTIVATIONS = [jnp.tanh, jax.nn.relu, jax.nn.softplus, jax.nn.gelu, jax.nn.silu, jax.nn.elu, jnp.exp, jnp.sin]


def weight(name, *shape):
    return param(name, jnp.zeros(shape))


def dense(name, h, size):
    return h @ weight(f"{name}_w", h.shape[-1], size) + weight(f"{name}_b", size)


def einsum(name, h, size):
    return jnp.einsum("nd,dk->nk", h, weight(f"{name}_w", h.shape[-1], size))


def by_row(name, h, size):
    w = weight(f"{name}_w", h.shape[-1], size)
    return jax.vmap(lambda row: row @ w)(h)


def mapped(name, h, size):
    w = weight(f"{name}_w", h.shape[-1], size)
    return lax.map(lambda row: row @ w, h)


def residual(name, h, size):
    return h + dense(name, jnp.tanh(dense(f"{name}_in", h, 8)), h.shape[-1])


def layer_norm(name, h, size):
    centred = h - h.mean(axis=-1, keepdims=True)
    return centred / jnp.sqrt(1e-3 + centred.var(-1, keepdims=True)) * weight(f"{name}_g", h.shape[-1])


def group_norm(name, h, size):
    groups = dense(name, h, 8).reshape(-1, 4, 2)
    return ((groups - groups.mean(-1, keepdims=True)) / (1e-3 + groups.std(-1, keepdims=True))).reshape(len(h), 8)


def embedding(name, h, size):
    level = jnp.clip(jnp.abs(h[:, 0] * 3).astype(int), 0, 4)
    return jnp.concatenate([h, weight(f"{name}_table", 5, 6)[level]], axis=1)


def one_hot(name, h, size):
    level = jnp.argmax(h, axis=1)
    return jax.nn.one_hot(level, h.shape[1]) @ weight(name, h.shape[1], 5) + h[jnp.arange(len(h)), level][:, None]


def largest(name, h, size):
    own = jnp.take_along_axis(h, jnp.argsort(h, axis=1)[:, :1], axis=1)
    return jnp.concatenate([own, lax.top_k(h, 1)[0], jnp.sort(h, axis=-1), jnp.flip(h, 1)], axis=1)


def convolution(name, h, size):
    image = dense(name, h, 16).reshape(-1, 4, 4, 1)
    kernel = weight(f"{name}_k", 2, 2, 1, 3)
    found = lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    pooled = lax.reduce_window(found, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return pooled.reshape(len(h), -1)


def convolution_by_row(name, h, size):
    kernel = weight(f"{name}_k", 3)
    return jax.vmap(lambda row: jnp.convolve(row, kernel, mode="same"))(h)


def attention(name, h, size):
    tokens = dense(name, h, 12).reshape(len(h), 4, 3)
    asked, keys = (jnp.einsum("ntd,de->nte", tokens, weight(f"{name}_{part}", 3, 3)) for part in "qk")
    shares = jax.nn.softmax(jnp.einsum("nsd,ntd->nst", asked, keys) / 3**0.5, axis=-1)
    return jnp.matmul(shares, tokens).reshape(len(h), -1)


def attention_by_row(name, h, size):
    tokens = dense(name, h, 12).reshape(len(h), 4, 3)

    def attend(own):
        return jax.nn.softmax(own @ own.T, axis=-1) @ own

    return jax.vmap(attend)(tokens).reshape(len(h), 12)


def recurrent(name, h, size):
    w = weight(f"{name}_w", 4, 4)
    start = jnp.zeros((len(h), 4))
    last, every = lax.scan(lambda state, x: (jnp.tanh(state @ w + x[:, None]),) * 2, start, h.T)
    return jnp.concatenate([last, every[:, :, 0].T], axis=1)


def looped(name, h, size):
    return lax.fori_loop(0, 3, lambda _, state: jnp.tanh(state) + weight(f"{name}_b", h.shape[1]), h)


def gated(name, h, size):
    gate = lax.cond(weight(f"{name}_on") >= 0, jax.nn.sigmoid, jnp.tanh, dense(name, h, h.shape[1]))
    return jnp.where(h > 0, h * gate, jnp.cumsum(h, axis=1))


def spline(name, h, size):
    knots = jnp.linspace(-1.0, 1.0, 5)
    heights = weight(f"{name}_h", 5)
    return jnp.concatenate([jnp.interp(h[:, :2], knots, heights), heights[jnp.searchsorted(knots[1:], h)]], axis=1)


def maxout(name, h, size):
    w = weight(f"{name}_w", h.shape[1], 12)
    return jax.checkpoint(lambda h, w: (h @ w).reshape(len(h), 6, 2).max(-1))(h, w)


def written(name, h, size):
    return h.at[:, 0].set(0.0).at[:, -1].add(1.0) * jnp.tile(weight(f"{name}_s", 1), (1, h.shape[1]))


def quadratic(name, h, size):
    part = h[:, :3]
    return jnp.concatenate([jnp.stack([(part @ weight(name, part.shape[1], part.shape[1]) * part).sum(1)], 1), h], 1)


LAYERS = [
    dense, dense, dense, einsum, by_row, mapped, residual, layer_norm, group_norm, embedding, one_hot, largest,
    convolution, convolution_by_row, attention, attention_by_row, recurrent, looped, gated, spline, maxout, written,
    quadratic,
]  # fmt: skip


def network(generator, name, outputs):
    """A random network, as a function of rows."""
    depth = int(generator.integers(0, 5))
    layers = [LAYERS[i] for i in generator.integers(0, len(LAYERS), depth)]
    sizes = [int(2 ** generator.uniform(0, 6)) for _ in range(depth)]
    if depth and generator.random() < 0.3:
        layers[0], sizes[0] = dense, int(generator.integers(1000, 2500))
    acts = [ACTIVATIONS[i] for i in generator.integers(0, len(ACTIVATIONS), depth)]

    def forward(h):
        for number, (layer, size, act) in enumerate(zip(layers, sizes, acts, strict=True)):
            h = act(layer(f"{name}{number}", h, size))
        return dense(f"{name}_out", h, outputs)

    return forward


def normal(h, width):
    return dist.Normal(h[:, :width], jnp.exp(h[:, width:])).to_event(1)


def multivariate(h, width):
    scale = jnp.eye(width) * (1 + jax.nn.softplus(h[:, width:, None]))
    return dist.MultivariateNormal(h[:, :width], scale_tril=scale)


def mixture(h, width):
    parts = dist.Normal(jnp.stack([h[:, :width], -h[:, :width]], -1), 1.0)
    return dist.MixtureSameFamily(dist.Categorical(logits=jnp.stack([h[:, width:]] * 2, -1)), parts).to_event(1)


def heavy(h, width):
    return dist.StudentT(3.0, h[:, :width], jax.nn.softplus(h[:, width:])).to_event(1)


LIKELIHOODS = [normal, normal, multivariate, mixture, heavy]


def random_network(seed):
    """A model, a guide and columns: a regression or a variational autoencoder of random networks."""
    generator = np.random.default_rng(seed)
    width = int(
        generator.choice([1, 2, 3, 5, 20, int(generator.integers(1000, 2500))], p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.1])
    )
    hidden = int(generator.integers(1, 4))
    observe = LIKELIHOODS[generator.integers(0, len(LIKELIHOODS))] if width < 100 else normal
    is_vae = generator.random() < 0.6
    decode, encode = network(generator, "d", 2 * width), network(generator, "e", 2 * hidden)
    columns = (jnp.ones((5, width)), jnp.ones((5, hidden)))

    def model(x, y):
        with plate("rows", 100, len(x)):
            z = sample("z", dist.Normal(0, 1).expand([hidden]).to_event(1)) if is_vae else y
            sample("x", observe(decode(z), width), obs=x)

    def guide(x, y):
        if is_vae:
            with plate("rows", 100, len(x)):
                sample("z", normal(encode(x), hidden))

    return model, guide, columns


# -- what mixes rows --------------------------------------------------------------------------------------------------


def _softmax_rows(x):
    return jax.nn.softmax(x, axis=0)


def _batch_norm(x):
    return (x - x.mean(0)) / jnp.sqrt(1e-3 + x.var(0))


def _rank(x):
    return jnp.argsort(jnp.argsort(x, axis=0), axis=0) * 1.0


def _pairwise_rank(x):
    return (x[:, None] > x[None]).sum(1) * 1.0


def _attention(x):
    return jax.nn.softmax(x @ x.T, axis=-1) @ x


def _scan(x):
    return lax.scan(lambda seen, row: (seen + row, seen), jnp.zeros(x.shape[1]), x)[1]


def _loop(x):
    return lax.fori_loop(0, len(x), lambda i, out: out.at[i].set(x[i] + x[0]), x)


def _python_loop(x):
    return jnp.stack([x[i] - x[i - 1] for i in range(len(x))])


def _convolution(x):
    return lax.conv_general_dilated(x.T[:, None], jnp.ones((1, 1, 3)), (1,), "SAME")[:, 0].T


def _segments(x):
    level = (x[:, 0] > 0.5).astype(int)
    return jax.ops.segment_sum(x, level, 2)[level]


def _covariance(x):
    return x @ jnp.cov(x.T)


def _whitened(x):
    return jnp.linalg.solve(x.T @ x + jnp.eye(x.shape[1]), x.T).T


def _until_any(x):
    return lax.while_loop(lambda s: (s < x.sum()).all(), lambda s: s + 1.0, 0.0 * x)


def _contrastive(x):
    return jnp.diagonal(jax.nn.log_softmax(x @ x.T, axis=1))[:, None] * x


def _gated_by_all(x):
    return lax.cond(jnp.all(x < 100), lambda x: x, lambda x: 2 * x, x)


def _spectral(x):
    return x / jnp.linalg.svd(x, compute_uv=False)[0]


MIXES = {
    "the batch's mean": lambda x: x - x.mean(0),
    "the mean of all": lambda x: x - jnp.mean(x),
    "batch norm": _batch_norm,
    "a softmax over rows": _softmax_rows,
    "a sum so far": lambda x: jnp.cumsum(x, axis=0),
    "a product so far": lambda x: jnp.cumprod(x, axis=0),
    "a maximum so far": lambda x: lax.cummax(x, axis=0),
    "sorted rows": lambda x: jnp.sort(x, axis=0),
    "rows in another order": lambda x: x[jnp.argsort(x[:, 0])],
    "rolled rows": lambda x: jnp.roll(x, 1, axis=0),
    "rows rolled by a scan": _scan,
    "a flip": lambda x: jnp.flip(x, 0),
    "row 0 for all": lambda x: x + x[0],
    "the last row for all": lambda x: x - x[-1],
    "row 0, by a dynamic index": lambda x: x + lax.dynamic_index_in_dim(x, 0, 0, keepdims=False),
    "the matrix of all": lambda x: x @ (x.T @ x),
    "the covariance": _covariance,
    "whitened": _whitened,
    "ranks": _rank,
    "ranks by pairs": _pairwise_rank,
    "the largest": lambda x: x / x.max(0),
    "the place of the largest": lambda x: x + jnp.argmax(x, axis=0),
    "attention among rows": _attention,
    "a loop that writes rows": _loop,
    "a loop of Python": _python_loop,
    "a neighbour": lambda x: x + x[jnp.maximum(jnp.arange(len(x)) - 1, 0)],
    "whom the cells name": lambda x: x + x[jnp.clip((x[:, 0] * 3).astype(int), 0, len(x) - 1)],
    "a reshape that mixes": lambda x: x.reshape(x.shape[1], len(x)).T,
    "a transpose that mixes": lambda x: x.T.reshape(x.shape),
    "sums of segments": _segments,
    "a convolution of rows": _convolution,
    "an einsum of rows": lambda x: jnp.einsum("nd,md->nd", x, x),
    "an einsum of pairs": lambda x: jnp.einsum("nd,md->nm", x, x).sum(1, keepdims=True) * x,
    "if any is large": lambda x: jnp.where(jnp.any(x > 100), x, 2 * x),
    "if all are small": _gated_by_all,
    "as long as any": _until_any,
    "a contrastive loss": _contrastive,
    "the largest singular value": _spectral,
    "the norm of all": lambda x: x / jnp.linalg.norm(x),
    "differences": lambda x: jnp.diff(x, axis=0, prepend=0.0),
    "a moving mean": lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 1), (1, 1), "SAME"),
    "a Fourier transform of rows": lambda x: jnp.fft.fft(x, axis=0).real,
    "every second row": lambda x: x + jnp.repeat(x[::2], 2, axis=0)[: len(x)],
    "a median": lambda x: x - jnp.median(x, axis=0),
    "a quantile": lambda x: x - jnp.quantile(x, 0.9, axis=0),
    "an associative scan": lambda x: lax.associative_scan(jnp.add, x),
    "distances": lambda x: jnp.linalg.norm(x[:, None] - x[None], axis=-1).sum(1, keepdims=True) + x,
    "logsumexp of all": lambda x: x - jax.nn.logsumexp(x),
    "the number of rows": lambda x: x / len(x),
    "the place of each": lambda x: x + jnp.arange(len(x))[:, None],
    "a place by NumPy": lambda x: x * np.linspace(0, 1, len(x))[:, None],
    "the place where it is beyond": lambda x: jnp.where(jnp.arange(len(x))[:, None] > 1000, x, 2 * x),
    "a share of the rows": lambda x: x * jnp.ones(len(x)).sum(),
    "a number so far": lambda x: x + jnp.cumsum(jnp.ones(len(x)))[:, None],
    "a draw for each place": lambda x: x + jax.random.normal(jax.random.key(1), x.shape),
    "a table by place": lambda x: x + jnp.ones((10, 1)).at[0].set(2.0)[jnp.arange(len(x))],
}  # fmt: skip

APART = {
    "a quadratic form as a diagonal": lambda x: jnp.diag(x @ x.T)[:, None] * x,
    "a loop of Python": lambda x: jnp.stack([x[i] * 2 for i in range(len(x))]),
    "a loop that writes each row": lambda x: lax.fori_loop(0, len(x), lambda i, out: out.at[i].set(jnp.sin(x[i])), x),
    "a loop that stops for each": lambda x: jax.vmap(
        lambda row: lax.while_loop(lambda s: s.sum() < 5, lambda s: s + 1.0, row)
    )(x),
    "flipped and back": lambda x: jnp.flip(jnp.flip(x, 1), 1),
    "its own place in the table": lambda x: x[jnp.arange(len(x))],
    "all rows": lambda x: x[: len(x)] + lax.dynamic_slice(x, (0, 0), x.shape),
    "a solve of each": lambda x: jax.vmap(lambda r: jnp.linalg.solve(jnp.eye(3) + r[:3, None] * r[:3], r[:3]))(x),
    "a determinant of each": lambda x: jnp.linalg.slogdet(jnp.eye(3) + x[:, :3, None] * x[:, None, :3])[1][:, None] * x,
    "a Cholesky factor of each": lambda x: jnp.linalg.cholesky(jnp.eye(3) + x[:, :3, None] * x[:, None, :3])[:, 0],
    "written where it says": lambda x: jnp.zeros_like(x).at[jnp.arange(len(x)), (x[:, 0] > 0.5).astype(int)].set(1.0),
    "a table of levels": lambda x: jnp.eye(4)[(x > 0.5).astype(int)].reshape(len(x), -1),
    "zeros beside": lambda x: jnp.concatenate([jnp.zeros((len(x), 1)), x, np.ones((len(x), 2))], axis=1),
    "a constant for each": lambda x: x + jnp.tile(jnp.arange(4.0), (len(x), 1)),
    "a constant for each, repeated": lambda x: x + jnp.repeat(jnp.arange(4.0)[None], len(x), axis=0),
    "a constant for each, in a list": lambda x: x + jnp.array([[1.0, 2.0, 3.0, 4.0]] * len(x)),
    "a constant for each, in blocks": lambda x: x + jnp.tile(jnp.arange(4.0), len(x)).reshape(len(x), 4),
    "ones for each": lambda x: x * (jnp.ones((len(x), 1)) * jnp.arange(4.0)) + np.zeros(len(x))[:, None],
    "in another order and back": lambda x: jnp.moveaxis(jnp.swapaxes(x[..., None], 0, 2), 2, 0)[..., 0],
    "joined and apart again": lambda x: jnp.tanh(jnp.repeat(x, 2, axis=1).reshape(-1, 2)).reshape(len(x), -1),
    "a Fourier transform of columns": lambda x: jnp.fft.rfft(x, axis=1).real,
}  # fmt: skip


def by_model(transform):
    """A regression on transformed columns."""

    def model(x, y):
        slope = param("slope", jnp.zeros(()))
        with plate("rows", 100, len(x)):
            sample("y", dist.Normal(slope * transform(x).sum(axis=-1), 1.0), obs=y)

    return model, lambda x, y: None


def by_guide(transform):
    """A latent that a guide predicts from transformed columns."""

    def model(x, y):
        with plate("rows", 100, len(x)):
            z = sample("z", dist.Normal(0, 1))
            sample("y", dist.Normal(z, 1.0), obs=y)

    def guide(x, y):
        slope = param("slope", jnp.zeros(()))
        with plate("rows", 100, len(x)):
            sample("z", dist.Normal(slope * transform(x).sum(axis=-1), 1.0))

    return model, guide
