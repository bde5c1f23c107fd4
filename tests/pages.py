"""A page as its readers find it: elements, headings, ids and texts."""

from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "input", "base"}


class Page(HTMLParser):
    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.starts, self.texts, self.inside = [], [], []
        self.feed(html)
        self.close()
        assert not self.inside, self.inside

    def handle_starttag(self, tag, attributes):
        self.starts.append((tag, dict(attributes)))
        if tag not in VOID:
            self.inside.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.starts.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.inside.pop() == tag

    def handle_data(self, data):
        self.texts.append((tuple(self.inside), data))

    def all(self, tag):
        return [attributes for name, attributes in self.starts if name == tag]

    def text(self, tag=None):
        return "".join(data for inside, data in self.texts if tag is None or tag in inside)
