"""Columns of every kind with cells to read, and what must come back: made without the code under test."""

import datetime
import decimal
import zoneinfo
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st

from twinify_lite.schema import Column

WORDS = ("N", "unknown", "k. A.")
DIGITS = {
    "int8": 7,
    "int16": 15,
    "int32": 31,
    "int64": 52,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 52,
    "double": 52,
    None: 52,
}
UNITS = {
    "day": datetime.timedelta(days=1),
    "hour": datetime.timedelta(hours=1),
    "minute": datetime.timedelta(minutes=1),
    "second": datetime.timedelta(seconds=1),
    "millisecond": datetime.timedelta(milliseconds=1),
    "microsecond": datetime.timedelta(microseconds=1),
}
#: Formats that tell all of a resolution.
FORMATS = {
    "day": ["%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d", "%d %b %Y", "%B %d, %Y", "%Y%m%d", "%Y-%j", "100%% %Y/%m/%d"],
    "hour": ["%Y-%m-%d %H", "%d.%m.%Y %H:%M", "%d.%m.%Y %I %p"],
    "minute": ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%Y-%m-%d %I:%M %p"],
    "second": ["%Y-%m-%dT%H:%M:%S", "%H:%M:%S on %d.%m.%Y", "%Y%m%d%H%M%S"],
    "millisecond": ["%Y-%m-%dT%H:%M:%S.%f", "%d.%m.%Y %H:%M:%S,%f", "%Y-%m-%d %I:%M:%S.%f %p"],
    "microsecond": ["%Y-%m-%dT%H:%M:%S.%f", "%d.%m.%Y %H:%M:%S,%f"],
}
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "UTC",
    "+05:30",
]
EPOCH = datetime.datetime(1970, 1, 1)


class Case(NamedTuple):
    """A column, its cells, and what they come back as; floats may differ by `tolerance`."""

    column: Column
    array: pa.Array
    expected: list
    tolerance: float = 0.0


def extras(draw, rows, *, words, outside):
    """Whether it is nullable, its special values, and the state of each row: a value (0), special or missing (-1)."""
    nullable = draw(st.booleans())
    choice = [*outside, *(WORDS if words else ())]
    special = tuple(draw(st.lists(st.sampled_from(choice), max_size=2, unique=True)) if choice else ())
    states = [0, 0, *range(1, len(special) + 1), *([-1] if nullable else [])]
    return nullable, special, draw(st.lists(st.sampled_from(states), min_size=rows, max_size=rows))


def filled(states, special, values, blank=None):
    """The cells of a column: values, special values and `blank`."""
    rows = zip(states, values, strict=True)
    return [value if state == 0 else blank if state == -1 else special[state - 1] for state, value in rows]


def has_words(special):
    return any(isinstance(value, str) for value in special)


@st.composite
def integers(draw, rows):
    dtype = draw(st.sampled_from([*DIGITS]))
    most = 2 ** DIGITS[dtype] - 1
    least = 0 if dtype and dtype.startswith("u") else -most
    log = draw(st.booleans())
    low, high = sorted(draw(st.lists(st.integers(max(least, 1 if log else least), most), min_size=2, max_size=2)))
    assume(low < high and high - low < 2**52)
    values = draw(st.lists(st.integers(low, high), min_size=rows, max_size=rows))
    outside = [value for value in (-1, 99, 120) if value >= least and not low <= value <= high]
    nullable, special, states = extras(draw, rows, words=dtype is None, outside=outside)
    heaps = tuple(draw(st.lists(st.integers(low, high), max_size=3, unique=True)))
    scale = "log" if log and high < 2**30 else "linear"
    kind = draw(st.sampled_from(["integer", "number"])) if dtype and "int" in dtype else "integer"
    column = Column(
        name="x",
        kind=kind,
        min=low,
        max=high,
        nullable=nullable,
        special=special,
        heaps=heaps,
        scale=scale,
        dtype=dtype,
    )
    cells = filled(states, special, values)
    if dtype:
        return Case(column, pa.array(cells, pa.float64() if dtype == "double" else getattr(pa, dtype)()), cells)
    texts = [None if cell is None else str(cell) for cell in cells]
    return Case(column, pa.array(texts, pa.string()), texts if has_words(special) else cells)


@st.composite
def decimals(draw, rows):
    """Numbers with declared decimals: the cells are k / 10**places."""
    places = draw(st.integers(0, 9))
    dtype = draw(st.sampled_from([None, "double", "float", "decimal"]))
    most = 2 ** (20 if dtype == "float" else 40)
    low, high = sorted(draw(st.lists(st.integers(-most, most), min_size=2, max_size=2)))
    assume(low < high)
    steps = draw(st.lists(st.integers(low, high), min_size=rows, max_size=rows))
    outside = [value for value in (-1, 9999) if not low / 10**places <= value <= high / 10**places]
    nullable, special, states = extras(draw, rows, words=dtype is None, outside=outside)
    heaps = tuple(k / 10**places for k in draw(st.lists(st.integers(low, high), max_size=3, unique=True)))
    log = low > 0 and dtype != "float" and draw(st.booleans())
    column = Column(
        name="x",
        kind="number",
        min=low / 10**places,
        max=high / 10**places,
        nullable=nullable,
        special=special,
        heaps=heaps,
        decimals=places,
        dtype=f"decimal(38,{places})" if dtype == "decimal" else dtype,
        scale="log" if log else "linear",
    )
    exact = [decimal.Decimal(k).scaleb(-places) for k in steps]
    if dtype == "decimal":
        cells = filled(states, [decimal.Decimal(value) for value in special], exact)
        return Case(column, pa.array(cells, pa.decimal128(38, places)), cells)
    floats = filled(states, special, [float(value) for value in exact])
    if dtype:
        array = pa.array(floats, pa.float64() if dtype == "double" else pa.float32())
        return Case(column, array, array.to_pylist())
    texts = [None if cell is None else str(cell) for cell in filled(states, special, [f"{value:f}" for value in exact])]
    return Case(column, pa.array(texts, pa.string()), texts if has_words(special) else floats)


@st.composite
def free_numbers(draw, rows):
    """Numbers of any decimals, in ranges from 1e-9 to 1e12."""
    width = 10.0 ** draw(st.integers(-9, 12))
    log = draw(st.booleans())
    low = width if log else draw(st.sampled_from([-0.5, 0.0, 1.0, -3.0])) * width
    high = low + width * draw(st.sampled_from([1.0, 2.5]))
    values = draw(st.lists(st.floats(low, high), min_size=rows, max_size=rows))
    outside = [value for value in (-1, 9999) if not low <= value <= high]
    nullable, special, states = extras(draw, rows, words=False, outside=outside)
    heaps = tuple(draw(st.lists(st.floats(low, high), max_size=3, unique=True)))
    dtype = draw(st.sampled_from([None, "double", "float"]))
    column = Column(
        name="x",
        kind="number",
        min=low,
        max=high,
        nullable=nullable,
        special=special,
        heaps=heaps,
        scale="log" if log else "linear",
        dtype=dtype,
    )
    cells = filled(states, special, values)
    array = pa.array([None if cell is None else repr(cell) for cell in cells], pa.string()) if dtype is None else None
    if dtype is not None:
        array = pa.array(cells, pa.float64() if dtype == "double" else pa.float32())
        cells = array.to_pylist()
    return Case(column, array, cells, tolerance=(high - low) * 2.0**-21 + np.finfo(np.float32).eps * abs(high))


@st.composite
def levels(draw, rows):
    kind = draw(st.sampled_from(["category", "ordinal", "boolean"]))
    size = (2, 2) if kind == "boolean" else (1, 300)
    names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip)
    spelled = draw(
        st.lists(names, min_size=size[0], max_size=min(size[1], draw(st.sampled_from([2, 8, 300]))), unique=True)
    )
    if kind == "boolean" and draw(st.booleans()):
        spelled = draw(st.sampled_from([["false", "true"], ["no", "yes"], ["0", "1"], ["N", "Y"]]))
    dtype = draw(st.sampled_from([None, "categorical", "large_string"]))
    other = "other" if kind != "boolean" and "other" not in spelled and draw(st.booleans()) else None
    nullable = draw(st.booleans())
    choice = st.sampled_from([*spelled, *([other] if other else [])])
    cells = draw(st.lists(st.none() | choice if nullable else choice, min_size=rows, max_size=rows))
    column = Column(name="x", kind=kind, levels=tuple(spelled), other=other, nullable=nullable, dtype=dtype)
    text = pa.array(cells, pa.string())
    if dtype == "categorical":
        return Case(column, text.dictionary_encode(), cells)
    return Case(column, text.cast(pa.large_string() if dtype else pa.string()), cells)


@st.composite
def typed_levels(draw, rows):
    """Categories and truths in Arrow's own types."""
    made = {
        "bool": ([False, True], ["false", "true"], pa.bool_(), "boolean"),
        "int16": ([1, 2, 30], ["1", "2", "30"], pa.int16(), "category"),
        "double": ([1.0, 2.5, -3.0], ["1.0", "2.5", "-3"], pa.float64(), "ordinal"),
        "date32": ([datetime.date(1850, 1, 2)], ["1850-01-02"], pa.date32(), "category"),
    }
    dtype = draw(st.sampled_from([*made]))
    values, spelled, arrow, kind = made[dtype]
    nullable = draw(st.booleans())
    choice = st.sampled_from(values)
    cells = draw(st.lists(st.none() | choice if nullable else choice, min_size=rows, max_size=rows))
    return Case(
        Column(name="x", kind=kind, levels=tuple(spelled), nullable=nullable, dtype=dtype),
        pa.array(cells, arrow),
        cells,
    )


def wall_times(draw, rows, resolution, years=(1700, 2250)):
    """Two bounds and `rows` wall times between them, all whole at the resolution."""
    unit = UNITS[resolution]
    first, last = ((datetime.datetime(year, 1, 1) - EPOCH) // unit for year in years)
    low, high = sorted(draw(st.lists(st.integers(first, last), min_size=2, max_size=2)))
    assume(low < high)
    ticks = draw(st.lists(st.integers(low, high), min_size=rows, max_size=rows))
    return [EPOCH + tick * unit for tick in (low, high, *ticks)]


def bounded(resolution, low, high, **more):
    """A column of times between two wall times."""
    if resolution == "day":
        low, high = low.date(), high.date()
    return Column(name="x", kind="datetime", min=low, max=high, resolution=resolution, **more)


@st.composite
def written_moments(draw, rows):
    """Times as text, in wall time: with or without a zone, which then changes nothing."""
    resolution = draw(st.sampled_from([*FORMATS]))
    format = draw(st.sampled_from(FORMATS[resolution]))
    years = (1700, 2250)
    if draw(st.booleans()):
        format, years = format.replace("%Y", "%y"), (1969, 2068)
    low, high, *times = wall_times(draw, rows, resolution, years)
    nullable, special, states = extras(draw, rows, words=True, outside=())
    zone = draw(st.none() | st.sampled_from(ZONES))
    column = bounded(resolution, low, high, format=format, nullable=nullable, special=special, zone=zone)
    texts = [time.strftime(format) for time in times]
    if resolution == "millisecond":  # Python's %f has six digits
        texts = [text.replace(f"{time:%f}", f"{time:%f}"[:3]) for text, time in zip(texts, times, strict=True)]
    cells = filled(states, special, texts)
    return Case(column, pa.array(cells, pa.string()), cells)


@st.composite
def instants(draw, rows):
    """Instants as text with their offset, or as Arrow's timestamps in a zone."""
    resolution = draw(st.sampled_from([name for name in FORMATS if name not in ("day", "hour")]))
    low, high, *times = [time.replace(tzinfo=datetime.UTC) for time in wall_times(draw, rows, resolution, (1700, 2200))]
    name = draw(st.sampled_from(ZONES))
    nullable = draw(st.booleans())
    cells = [None if nullable and draw(st.booleans()) else time for time in times]
    dtype = draw(st.sampled_from([None, "timestamp[us]", "timestamp[ns]"]))
    if dtype:
        column = bounded(resolution, low, high, zone=name, nullable=nullable, dtype=dtype)
        array = pa.array(cells, pa.timestamp(dtype[-3:-1], tz=name))
        return Case(column, array, array.to_pylist())
    assume(low.year > 1972)  # before, offsets have seconds, which come back as whole minutes
    format = FORMATS[resolution][0] + "%z"
    column = bounded(resolution, low, high, zone=name, nullable=nullable, format=format)
    zone = datetime.datetime.strptime(name, "%z").tzinfo if name[0] == "+" else zoneinfo.ZoneInfo(name)
    texts = [None if cell is None else cell.astimezone(zone).strftime(format) for cell in cells]
    if resolution == "millisecond":
        texts = [None if text is None else text[:-8] + text[-5:] for text in texts]
    return Case(column, pa.array(texts, pa.string()), texts)


@st.composite
def typed_moments(draw, rows):
    """Arrow's dates and timestamps without a zone."""
    resolution = draw(st.sampled_from([*UNITS]))
    units = {"day": ["date32", "date64"], "millisecond": ["ms", "us", "ns"], "microsecond": ["us", "ns"]}
    unit = draw(st.sampled_from(units.get(resolution, ["s", "ms", "us", "ns"])))
    low, high, *times = wall_times(draw, rows, resolution)
    nullable, special, states = extras(draw, rows, words=False, outside=())
    dtype = unit if resolution == "day" else f"timestamp[{unit}]"
    column = bounded(resolution, low, high, nullable=nullable, special=special, dtype=dtype)
    cells = filled(states, special, [time.date() if resolution == "day" else time for time in times])
    array = pa.array(cells, getattr(pa, unit)() if resolution == "day" else pa.timestamp(unit))
    return Case(column, array, array.to_pylist())


KINDS = [
    integers,
    decimals,
    free_numbers,
    levels,
    typed_levels,
    written_moments,
    instants,
    typed_moments,
]


SOME = st.integers(1, 6)


def cases(rows=SOME):
    """Cases of every kind."""
    return rows.flatmap(lambda count: st.one_of([kind(count) for kind in KINDS]))


def tables():
    """Several cases with the same number of rows."""
    return st.integers(1, 4).flatmap(lambda count: st.lists(cases(st.just(count)), min_size=1, max_size=5))
