"""schema.toml written by us: it reads back as the same schema, and says what it holds."""

import datetime
import re
import tomllib

from hypothesis import given, settings
from hypothesis import strategies as st

from twinify_lite.schema import KEYS, KINDS, Column, Schema
from twinify_lite.schema.checks import DIRECTIVES
from twinify_lite.schema.settle import DEFAULTS, LAST
from twinify_lite.schema.toml import parse, render
from twinify_lite.table.csv_style import DECIMALS as CSV_DECIMALS
from twinify_lite.table.csv_style import ENCODINGS, SEPARATORS, CsvStyle

# -- every valid schema

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(-1e300, 1e300) | st.sampled_from([5e-324, -0.0, 0.1, 1e22, 1e-7, 123456789.123])
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
NASTY = [
    '"',
    "'",
    "\\",
    "\n",
    "\r\n",
    "\t",
    "\x00",
    "\x1b",
    "\x7f",
    "\x85",
    "\u2028",
    "\u202e",
    "\ufeff",
    "👩‍🔬",
    "\U000e0001",
]
TEXTS = st.text(max_size=6) | st.lists(st.sampled_from([*NASTY, "a", " ", "#", "=", "]"]), max_size=5).map("".join)
NAMES = TEXTS.filter(str.strip) | st.sampled_from(["age", "a.b", "marital status", "1", "-", "größe", "kind"])
ZONES = st.sampled_from(["UTC", "Europe/Helsinki", "America/St_Johns", "+02:00", "-11:30"])
MOMENTS = st.datetimes() | st.datetimes(timezones=OFFSETS)


def lists(elements, **sizes):
    return st.lists(elements, max_size=3, unique_by=str, **sizes)


def ranges(points):
    """A range of two points, half a range or none, with heaps inside and special values anywhere."""

    def build(drawn):
        places, shape, special = drawn
        low, *heaps, high = sorted(places)
        keys = {"min": low, "max": high, "heaps": heaps, "special": [value for value in special if value not in heaps]}
        return {key: keys[key] for key in shape}

    special = st.lists(points | TEXTS.map("N{}".format), max_size=3, unique=True)
    some = st.lists(points, min_size=2, max_size=5, unique=True)
    return st.tuples(some, st.sets(st.sampled_from(["min", "max", "heaps", "special"])), special).map(build)


def optional(**keys):
    return st.fixed_dictionaries({}, optional=keys)


NUMBER = st.tuples(ranges(INT64 | FLOATS), optional(decimals=st.integers(0, 15))).map(lambda pair: pair[0] | pair[1])
FORMATS = lists(st.sampled_from([*DIRECTIVES, "/", "%%", "é"])).map(lambda parts: "%Y %m " + "".join(parts)).filter(
    lambda text: text.count("%Y") == text.count("%m") == 1
)  # fmt: skip


@st.composite
def datetimes(draw):
    """Days; times without a zone; times with one, where bounds without an offset stay clear of clock changes."""
    resolution = draw(st.sampled_from(["day", *LAST]))
    zone = draw(st.none() | ZONES)
    aware = st.datetimes(timezones=OFFSETS)
    timed = st.datetimes() if zone is None else aware if "/" in zone else draw(st.sampled_from([aware, st.datetimes()]))
    points = st.dates() if resolution == "day" else timed
    return draw(ranges(points)) | {"resolution": resolution, "zone": zone} | draw(optional(format=FORMATS))


SPECIFIC = {
    "number": NUMBER,
    "integer": ranges(INT64),
    "datetime": datetimes(),
    "category": optional(levels=lists(TEXTS, min_size=1), other=st.just("\x00 rest")),
    "ordinal": st.fixed_dictionaries({"levels": lists(TEXTS, min_size=1)}),
    "boolean": optional(levels=st.sampled_from([["no", "yes"], ["\n", '"'], ["", "x"], [0, 1]])),
    "identifier": optional(sample=st.just("surrogate"), pattern=st.sampled_from(["P{:06d}", '"{}\n'])),
    "constant": st.fixed_dictionaries({"value": TEXTS | INT64 | FLOATS | st.booleans() | st.dates() | MOMENTS}),
}  # fmt: skip
DTYPES = st.sampled_from(["int64", "double", "categorical", "timestamp[us]", "decimal(10,2)"])


STYLES = st.builds(CsvStyle, st.sampled_from([*SEPARATORS]), st.sampled_from(CSV_DECIMALS), st.sampled_from(ENCODINGS))


@st.composite
def columns(draw, name):
    kind = draw(st.sampled_from(list(KINDS)))
    keys = draw(SPECIFIC[kind]) | draw(optional(nullable=st.booleans(), dtype=DTYPES))
    made = Column(name=name, kind=kind, **keys)
    known = [key for key in KEYS[kind] if getattr(made, key) is not None and key != "peeked"]
    return made.replace(peeked=draw(lists(st.sampled_from(known))))


@st.composite
def schemas(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    made = [draw(columns(name)) for name in names]
    rows = draw(st.none() | st.integers(1, 2**63 - 1))
    accepted = draw(st.lists(st.sampled_from(names), unique=True))
    return Schema(made, rows=rows, guessed=draw(st.booleans()), style=draw(st.none() | STYLES), accepted=accepted)


@settings(deadline=None, max_examples=300)
@given(schemas())
def test_every_schema_reads_back_as_the_same_in_value_and_in_type_and_renders_to_the_same_text(schema):
    text = render(schema)
    again = parse(text)
    assert again == schema
    assert repr(again) == repr(schema)  # 1 == 1.0 == True, but they are not the same
    assert render(again) == text


@settings(deadline=None, max_examples=100)
@given(schemas())
def test_a_rendered_schema_shows_all_that_it_holds_in_lines_of_plain_characters(schema):
    text = render(schema)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert list(tomllib.loads(text)["columns"]) == list(schema)
    assert parse(text.replace("\n", "\r\n")) == schema
    assert parse("\ufeff" + text) == schema


# -- writing


def one(kind, /, **keys):
    return Column(**{"name": "age", "kind": kind, **keys})


def block(*made):
    """The rendered lines of the columns."""
    return render(Schema(made)).split("\n[columns.", 1)[1].split("\n")[1:-1]


def test_a_block_says_what_is_declared_in_the_order_of_the_keys_and_hints_at_what_is_open():
    declared = ['kind = "integer"', "nullable = false", "min = 0", "max = 120"]
    assert block(one("integer", max=120, min=0, nullable=False)) == declared
    assert block(one("number", special=(), scale="log")) == [
        'kind = "number"',
        "special = []",
        'scale = "log"',
        "# left out, so estimated from the privacy budget: nullable = ..., min = ..., max = ..., heaps = [...]",
    ]
    assert block(one("category", nullable=True)) == [
        'kind = "category"',
        "nullable = true",
        "# left out, so estimated from the privacy budget: levels = [...]",
    ]


def test_what_was_peeked_at_says_so_on_its_line_even_if_it_is_the_default():
    text = "\n".join(block(one("number", min=0.5, peeked=["min", "scale"], nullable=False)))
    assert 'peeked = ["min", "scale"]  # read from the data: delete this line to accept these as public' in text
    assert "min = 0.5  # read from the data: not private" in text
    assert 'scale = "linear"  # read from the data: not private' in text
    assert "nullable = false\n" in text


def test_deleting_the_line_of_peeked_accepts_what_was_peeked_at():
    schema = Schema([one("number", min=0, max=1, peeked=["min", "max"])])
    text = re.sub(r"(?m)^peeked = .*\n", "", render(schema))
    assert parse(text).columns == schema.accept(["age"]).columns


def test_what_a_column_implies_is_not_written():
    assert block(one("boolean", nullable=False)) == ['kind = "boolean"', "nullable = false"]
    assert block(one("number", min=0, max=1, nullable=False))[2:] == ["min = 0", "max = 1"]
    assert block(one("constant", value="x")) == ['kind = "constant"', 'value = "x"']
    assert block(one("identifier")) == ['kind = "identifier"']


def test_long_lists_take_a_line_for_each_item():
    levels = tuple(f"a rather long level {place}" for place in range(8))
    schema = Schema([one("ordinal", levels=levels, peeked=["levels"])])
    lines = render(schema).split("\n")
    assert '    "a rather long level 7",' in lines
    assert "]  # read from the data: not private" in lines
    assert max(map(len, lines)) <= 120
    assert parse(render(schema)) == schema


def test_the_header_explains_every_kind_and_every_key_and_the_top_hints_at_rows_and_constraints():
    header, rest = render(Schema([one("boolean")])).split("\n\n", 1)
    assert all(line.startswith("#") for line in header.split("\n"))
    for word in (*KINDS, *set(DEFAULTS) - {"peeked"}):
        assert re.search(rf"\b{word}\b", header)
    assert rest.startswith("# rows = ...  (only if")
    assert "# constraints = [" in rest
    assert "\nrows = 5\n" in render(Schema([one("boolean")], rows=5))


def test_a_schema_whose_kinds_were_guessed_says_that_they_count_as_public():
    text = render(Schema([one("boolean")], guessed=True))
    assert re.search(r"(?m)^guessed = true  # the kinds .* guessed from the cells, and count as public$", text)
    assert not re.search(r"(?m)^guessed", render(Schema([one("boolean")])))


def test_names_are_quoted_where_toml_needs_it_and_only_there():
    text = render(Schema([one("boolean", name=name) for name in ("a-1_B", "a.b", "é", '"')]))
    assert re.findall(r"(?m)^\[(.*)\]$", text) == ["columns.a-1_B", 'columns."a.b"', 'columns."é"', 'columns."\\""']


def test_dates_and_times_are_written_as_those_of_toml():
    zoned = datetime.datetime(1, 2, 3, 4, 5, 6, 7, datetime.timezone(datetime.timedelta(hours=-5)))
    assert "value = 0001-02-03T04:05:06.000007-05:00" in block(one("constant", value=zoned))
    assert "value = 0001-02-03" in block(one("constant", value=zoned.date()))
