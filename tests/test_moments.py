"""Dates and times as ticks, in any format and zone, and back."""

import datetime
import zoneinfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from cell_cases import PROFILE, UTC, column, cycle
from hypothesis import given
from hypothesis import strategies as st

from twinify_lite.cells import (
    MISSING,
    Cells,
    moment,
    moments,
    read,
    ticks,
    write,
    zones,
)


def test_a_day_that_the_calendar_does_not_have_is_missing():
    day = column("datetime", format="%d.%m.%Y")
    cells = [
        "30.02.2024",
        "29.02.1900",
        "29.02.2024",
        "31.04.2024",
        "1.2.2024",
        " 01.02.2024 ",
        "01.02.2024",
        "01.02.1899",
    ]
    wanted = [None, None, "29.02.2024", None, "01.02.2024", "01.02.2024", "01.02.2024", "01.02.1899"]
    assert cycle(day, cells) == wanted


def test_times_before_1970_are_rounded_down():
    stamps = pa.array([-1, -1_000_000_001], pa.timestamp("ns"))
    assert moments(column("datetime", resolution="second"), stamps).to_pylist() == [-1, -2]
    assert moments(column("datetime", resolution="microsecond"), stamps).to_pylist() == [-1, -1_000_001]
    assert moments(column("datetime"), pa.array([10**18, 0], pa.timestamp("s"))).to_pylist() == [None, 0]


def test_a_fraction_of_any_length_is_read_and_one_of_the_resolution_is_written():
    fine = column("datetime", format="%d.%m.%Y %H:%M:%S,%f", resolution="millisecond")
    cells = ["01.02.1969 10:00:00,5", "01.02.2024 10:00:00,123456", "1.2.2024 9:00:00,5", "01.02.2024 10:00:00"]
    wanted = ["01.02.1969 10:00:00,500", "01.02.2024 10:00:00,123", "01.02.2024 09:00:00,500", None]
    assert cycle(fine, cells) == wanted
    coarse = column("datetime", format="%H:%M:%S.%f %d.%m.%Y", resolution="second")
    assert cycle(coarse, ["10:00:00.000000 01.02.2024"]) == ["10:00:00.000000 01.02.2024"]


def test_seconds_that_the_format_does_not_tell_are_not_written():
    assert cycle(column("datetime", format="%H:%M:%S %d.%m.%Y", resolution="millisecond"), ["10:00:05 01.02.1960"]) == [
        "10:00:05 01.02.1960"
    ]


def test_offsets_of_all_spellings_are_read_and_one_is_written():
    berlin = column("datetime", format="%Y-%m-%dT%H:%M:%S%z", resolution="second", zone="Europe/Berlin")
    cells = ["2024-07-01T12:00:00+0200", "2024-07-01T10:00:00Z", "2024-07-01T05:30:00-04:30", "2024-07-01T12:00:00"]
    assert cycle(berlin, cells) == ["2024-07-01T12:00:00+0200"] * 3 + [None]
    nowhere = berlin.replace(zone=None)
    assert cycle(nowhere, cells[:3]) == ["2024-07-01T10:00:00+0000"] * 3


@pytest.mark.parametrize("offset", ["+4000", "+0090", "-2400", "+00:90", "+24:00", "-02:60", "+0260"])
@pytest.mark.parametrize("format", [None, "%Y-%m-%dT%H:%M:%S%z", "%z %Y-%m-%dT%H:%M:%S"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_an_offset_of_a_day_or_of_ninety_minutes_is_no_time(offset, format, zone):
    spoken = column("datetime", format=format, resolution="second", zone=zone)
    hour = "2024-07-01T12:00:00"
    cells = [f"{sign} {hour}" if format and format.startswith("%z") else hour + sign for sign in (offset, "+2359")]
    assert moments(spoken, pa.array(cells)).is_null().to_pylist() == [True, False]


def test_the_name_of_a_zone_is_read_over_and_written():
    berlin = column("datetime", format="%Y-%m-%d %H:%M %Z", resolution="minute", zone="Europe/Berlin")
    assert cycle(berlin, ["2024-07-01 12:00 CEST", "2024-01-01 12:00 CET"]) == [
        *("2024-07-01 12:00 CEST", "2024-01-01 12:00 CET")
    ]


def test_the_hour_that_autumn_has_twice_is_two_hours_of_instants():
    berlin = column("datetime", resolution="second", zone="Europe/Berlin", dtype="timestamp[us]")
    start = datetime.datetime(2024, 10, 26, 23, 30, tzinfo=UTC)
    twice = pa.array(
        [start + datetime.timedelta(minutes=10 * i) for i in range(20)], pa.timestamp("us", "Europe/Berlin")
    )
    assert cycle(berlin, twice) == twice.to_pylist()
    assert len(set(read(berlin, twice).value.tolist())) == 20
    offset = berlin.replace(dtype=None, format="%Y-%m-%d %H:%M:%S%z")
    told = pc.strftime(twice.cast(pa.timestamp("s", "Europe/Berlin")), format="%Y-%m-%d %H:%M:%S%z")
    assert cycle(offset, told) == told.to_pylist()


def test_wall_time_in_a_zone_comes_back_as_written_even_in_the_hours_of_change():
    berlin = column("datetime", resolution="minute", zone="Europe/Berlin", format="%d.%m.%Y %H:%M")
    cells = ["27.10.2024 02:30", "31.03.2024 02:30", "01.01.1880 12:00"]
    assert cycle(berlin, cells) == cells


@PROFILE
@given(
    st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2300, 1, 1)),
    st.sampled_from(["Europe/Berlin", "America/Sao_Paulo", "Africa/Cairo", "Australia/Lord_Howe", "Africa/Casablanca"]),
)
def test_wall_time_is_that_of_zoneinfo_in_every_year_and_instants_are_its_inverse(time, name):
    instant = np.array([time], "datetime64[us]").astype(np.int64)
    wall = time.replace(tzinfo=UTC).astimezone(zoneinfo.ZoneInfo(name))
    assert zones.local(instant, name).view("datetime64[us]").tolist() == [wall.replace(tzinfo=None)]
    again = zones.instants(zones.local(instant, name), name)
    assert again == instant or (wall.fold and again < instant)


def test_hours_are_those_of_the_zone():
    india = column("datetime", resolution="hour", zone="Asia/Kolkata", dtype="timestamp[s]")
    hours = [datetime.datetime(2024, 1, 1, hour, tzinfo=zoneinfo.ZoneInfo("Asia/Kolkata")) for hour in range(24)]
    assert cycle(india, pa.array(hours, pa.timestamp("s", tz="Asia/Kolkata"))) == hours


@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "Asia/Kolkata", "Pacific/Auckland", "-03:00"])
def test_days_are_those_of_the_zones_calendar(zone):
    day = column("datetime", zone=zone, dtype="timestamp[s]")
    naive = pa.array(np.arange("2016-01-01", "2018-12-31", dtype="datetime64[D]")).cast(pa.timestamp("s"))
    # In Brazil, summer began at midnight: that day starts at one o'clock.
    midnights = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")
    cells = read(day, midnights)
    np.testing.assert_array_equal(cells.value, np.arange(len(naive)) + cells.value[0])
    assert write(day, cells).to_pylist() == midnights.to_pylist()
    assert moment(day, cells.value[0]) == datetime.date(2016, 1, 1)
    assert ticks(day, datetime.date(2016, 1, 1)) == cells.value[0]


def test_local_mean_time_comes_back_as_the_same_instant():
    berlin = column("datetime", format="%Y-%m-%dT%H:%M:%S%z", resolution="second", zone="Europe/Berlin")
    cells = read(berlin, pa.array(["1880-01-01T10:00:00+0000"]))
    assert write(berlin, cells).to_pylist() == ["1880-01-01T10:53:00+0053"]
    np.testing.assert_array_equal(read(berlin, write(berlin, cells)).value, cells.value)


@PROFILE
@given(
    st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)),
    st.sampled_from(["day", "hour", "minute", "second", "millisecond", "microsecond"]),
    st.sampled_from([None, "UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "+05:30"]),
)
def test_a_tick_and_its_moment_are_inverse_and_agree_with_the_cells(time, resolution, zone):
    made = column("datetime", resolution=resolution, zone=zone)
    tick = ticks(made, time)
    assert ticks(made, moment(made, tick)) == tick
    cells = pa.array([time], pa.timestamp("us"))
    gap = datetime.timedelta()
    if zone and zone[0] != "+":
        aware = time.replace(tzinfo=zoneinfo.ZoneInfo(zone))
        gap = aware.astimezone(UTC).astimezone(aware.tzinfo).replace(tzinfo=None) - time
    if not gap:  # no clock shows the hour that spring skips
        assert moments(made, cells).to_pylist() == [tick]


def test_texts_without_a_format_are_iso_times_with_or_without_offset():
    minute = column("datetime", resolution="minute", zone="Europe/Berlin")
    cells = [
        "2024-07-01 12:00",
        "2024-07-01T10:00Z",
        "2024-07-01T12:00:59.9999999+02:00",
        "1.7.2024",
        "20240701T1200",
        "",
    ]
    assert read(minute, pa.array(cells)).state.tolist() == [0, 0, 0, MISSING, 0, MISSING]
    assert len(set(read(minute, pa.array(cells[:3])).value.tolist())) == 1
    plain = column("datetime")
    assert cycle(plain, ["1850-01-01", "2024-07-01T23:59+02:00", "x", "2024-02-30", "2024-01-01"]) == [
        *(datetime.date(1850, 1, 1), datetime.date(2024, 7, 1), None, None, datetime.date(2024, 1, 1))
    ]


def test_a_time_beside_a_word_is_written_so_that_it_can_be_read():
    for resolution, zone in [("day", None), ("second", None), ("millisecond", "Europe/Berlin")]:
        made = column("datetime", resolution=resolution, zone=zone, special=("never",))
        cells = Cells(np.array([ticks(made, datetime.date(1960, 5, 5)), 0]), np.array([0, 1], np.int16))
        text = write(made, cells)
        assert text.to_pylist()[1] == "never"
        again = read(made, text)
        assert (again.value[0], again.state.tolist()) == (cells.value[0], [0, 1])


def test_a_time_that_nanoseconds_cannot_tell_becomes_the_nearest_that_they_can():
    made = column("datetime", dtype="timestamp[ns]", resolution="second", max=datetime.date(9999, 1, 1))
    last = write(made, Cells(np.array([ticks(made, made.max)]), np.zeros(1, np.int16)))
    assert last.cast(pa.int64()).to_pylist()[0] > 9.2e18


SECRET = "Quetzalcoatl"


@pytest.mark.parametrize("format", [None, "%d.%m.%Y", "%d.%m.%y", "%H:%M:%S.%f", "%Y%z"])
def test_texts_that_are_no_times_are_missing_and_quoted_nowhere(format, capfd):
    cells = read(column("datetime", format=format), pa.array([SECRET, "2024-01-01 " + SECRET, SECRET * 2]))
    assert (cells.state == MISSING).all()
    assert not "".join(capfd.readouterr())
