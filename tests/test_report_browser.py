"""The pages of a report in a real browser: they open in peace, fetch nothing, fit, can be read and can be printed."""

import base64
import json
import shutil

import pytest
import scores

from twinify_lite import Ledger
from twinify_lite.report import score_page

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install -e '.[test]'")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="There is no chromium, or no chromedriver: apt-get install chromium chromium-driver.",
)
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
REAL, SYNTHETIC = (50, 30, 0, 20), (100, 500, 300, 100)
#: What a person reads: the element, and the nearest background behind it.
CONTRASTS = """
const bright = (text) => {
  const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (one) => {
  for (; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return colour;
  }
};
const found = [];
for (const one of document.querySelectorAll("body *")) {
  const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || ["title", "desc"].includes(one.tagName)) continue;
  const style = getComputedStyle(one), ink = one.tagName === "text" ? style.fill : style.color;
  if (/^(k|w) c$/.test(one.getAttribute("class"))) continue;  // stands on a cell, not on the page
  const pair = [bright(ink), bright(behind(one))].sort((a, b) => b - a);
  found.push([(pair[0] + 0.05) / (pair[1] + 0.05), parseFloat(style.fontSize), one.tagName + " " + one.textContent]);
}
return found;
"""


class Twin:
    """As much of a twin as the page shows."""

    notes = ("A note.",)

    def __init__(self):
        from twinify_lite import Gaussian

        ledger = Ledger(1.0, 1e-6)
        ledger.spend(ledger.calibrate(Gaussian(noise_multiplier=1.0)), "single columns")
        self.statement = json.loads(json.dumps(ledger.statement().to_json()))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    bars = [scores.column("levels", "abcd", REAL, SYNTHETIC), scores.column("bins", "abcd", REAL, SYNTHETIC, "number")]
    made = {
        "known": scores.score(["levels", "bins"], columns=tuple(bars)),
        "wide": scores.wide(30, 40),
        "hostile": scores.score(scores.HOSTILE),
    }
    for name, score in made.items():
        (folder / f"{name}.html").write_text(score_page(score, Twin()), encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


@pytest.fixture
def opened(browser, pages):
    def open_page(name, *, width=1280, scheme="light"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.get(pages[name])
        return browser

    return open_page


@pytest.mark.parametrize("name", ["known", "wide", "hostile"])
def test_a_page_opens_without_a_message_and_requests_nothing_but_itself(opened, pages, name):
    page = opened(name)
    page.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; });")
    assert page.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requests = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert requests == [pages[name]]


def test_hostile_names_do_not_run(opened):
    page = opened("hostile")
    assert page.execute_script("return window.hurt") is None
    assert page.title.startswith("NOT COVERED BY EPSILON")
    assert page.execute_script("return document.querySelectorAll('script, img, [onload], [onerror]').length") == 0


def test_the_policy_stops_what_would_be_injected(opened):
    page = opened("known")
    page.execute_script(
        "const image = document.createElement('img'); image.setAttribute('onerror', 'window.hurt = 1');"
        "image.src = 'x';"
        "const script = document.createElement('script'); script.textContent = 'window.hurt = 1';"
        "document.body.append(image, script); window.before = 1;"
    )
    assert page.execute_script("return [window.before, window.hurt]") == [1, None]
    assert any("Content Security Policy" in entry["message"] for entry in page.get_log("browser"))


@pytest.mark.parametrize(("place", "length"), [(0, "width"), (1, "height")])
def test_the_bars_that_are_seen_are_as_long_as_their_counts(opened, place, length):
    page = opened("known")
    script = (
        "return [...document.querySelectorAll('#' + arguments[0] + ' rect.' + arguments[1])]"
        ".map((bar) => [+bar.dataset.n, bar.getBoundingClientRect()[arguments[2]]])"
    )
    page.execute_script("document.querySelectorAll('.card svg').forEach((svg, n) => { svg.id = 'chart' + n; });")
    for kind, counts in (("r", REAL), ("s", SYNTHETIC)):
        seen = page.execute_script(script, f"chart{place}", kind, length)
        assert [count for count, _ in seen] == list(counts)
        whole = sum(long for _, long in seen)
        assert [long / whole for _, long in seen] == pytest.approx([n / sum(counts) for n in counts], abs=0.005)


@pytest.mark.parametrize("name", ["known", "wide", "hostile"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_does_not_scroll_sideways_at_any_width(opened, name, width):
    page = opened(name, width=width)
    page.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; });")
    inner, room, needed = page.execute_script(
        "const whole = document.documentElement; return [innerWidth, whole.clientWidth, whole.scrollWidth]"
    )
    assert (inner, needed) == (width, room)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast_and_no_text_is_small(opened, scheme):
    page = opened("known", scheme=scheme)
    page.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; });")
    found = page.execute_script(CONTRASTS)
    assert len(found) > 100
    assert [what for what in found if what[0] < 4.5] == []
    assert [what for what in found if what[1] < 12] == []


def test_the_two_schemes_are_not_the_same(opened):
    colours = [
        opened("known", scheme=scheme).execute_script("return getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert colours[0] == "rgb(255, 255, 255)"
    assert colours[0] != colours[1]


def test_a_page_is_printed_on_white_with_the_tables_that_are_folded_away(opened):
    page = opened("known", scheme="dark")
    tables = "[...document.querySelectorAll('section > details table')].map((one) => one.checkVisibility())"
    assert set(page.execute_script(f"return {tables}")) == {False}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert set(page.execute_script(f"return {tables}")) == {True}
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert base64.b64decode(page.print_page()).startswith(b"%PDF")
