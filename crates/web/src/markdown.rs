//! Markdown as agents write it, drawn safely: text is only ever text, links lead to the web alone,
//! and nothing is loaded from elsewhere. HTML in it is shown as it was written.

mod links;

use std::fmt::Write as _;

use maud::{Escaper, Markup, PreEscaped};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, TextMergeStream};

use self::links::{next_address, web_address};

/// How deep quotes and lists may lie in each other; what is deeper is drawn at this depth.
const MAX_DEPTH: usize = 16;

/// Draws a text.
pub(crate) fn draw(text: &str) -> Markup {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut drawing = Drawing::default();
    for event in TextMergeStream::new(Parser::new_ext(text, options)) {
        drawing.event(event);
    }
    PreEscaped(drawing.out)
}

#[derive(Default)]
struct Drawing {
    out: String,
    /// What closes the quotes, lists and items that are open; nothing for one that lies too deep.
    open: Vec<&'static str>,
    /// Where the attributes of the newest list item would stand.
    item: Option<usize>,
    /// Whether cells are those of a table's head.
    is_head: bool,
    /// What closes the links that are open.
    links: Vec<&'static str>,
    in_code: bool,
}

impl Drawing {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code || !self.links.is_empty() => self.escaped(&text),
            Event::Text(text) => self.text(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.escaped(&text);
                self.out.push_str("</code>");
            }
            Event::Html(text) | Event::InlineHtml(text) => self.escaped(&text),
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::TaskListMarker(is_done) => self.task(is_done),
            // What only further options would read.
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.out.push_str("<p>"),
            // A page of ours has its own first two levels.
            Tag::Heading { level, .. } => self.out.push_str(match level {
                HeadingLevel::H1 => "<h3 class=\"first\">",
                HeadingLevel::H2 => "<h3>",
                HeadingLevel::H3 => "<h4>",
                _ => "<h5>",
            }),
            Tag::BlockQuote(_) => self.enter("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(_) => {
                self.in_code = true;
                self.out.push_str("<pre tabindex=\"0\"><code>");
            }
            Tag::List(None) => self.enter("<ul>", "</ul>"),
            Tag::List(Some(first)) => self.enter(&format!("<ol start=\"{first}\">"), "</ol>"),
            Tag::Item => self.enter("<li>", "</li>"),
            Tag::Table(_) => self.out.push_str(
                "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table>",
            ),
            Tag::TableHead => {
                self.is_head = true;
                self.out.push_str("<thead><tr>");
            }
            Tag::TableRow => self.out.push_str("<tr>"),
            Tag::TableCell if self.is_head => self.out.push_str("<th scope=\"col\">"),
            Tag::TableCell => self.out.push_str("<td>"),
            Tag::Emphasis => self.out.push_str("<em>"),
            Tag::Strong => self.out.push_str("<strong>"),
            Tag::Strikethrough => self.out.push_str("<s>"),
            // A picture from elsewhere is not loaded; its address and its words are shown.
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.link(&dest_url),
            // What only further options would read.
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.drop_line_break();
                self.out.push_str("</p>");
            }
            TagEnd::Heading(level) => self.out.push_str(match level {
                HeadingLevel::H1 | HeadingLevel::H2 => "</h3>",
                HeadingLevel::H3 => "</h4>",
                _ => "</h5>",
            }),
            TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item => {
                self.out.push_str(self.open.pop().unwrap_or_default());
            }
            TagEnd::CodeBlock => {
                self.in_code = false;
                self.drop_line_break();
                self.out.push_str("</code></pre>");
            }
            TagEnd::Table => self.out.push_str("</tbody></table></div>"),
            TagEnd::TableHead => {
                self.is_head = false;
                self.out.push_str("</tr></thead><tbody>");
            }
            TagEnd::TableRow => self.out.push_str("</tr>"),
            TagEnd::TableCell if self.is_head => self.out.push_str("</th>"),
            TagEnd::TableCell => self.out.push_str("</td>"),
            TagEnd::Emphasis => self.out.push_str("</em>"),
            TagEnd::Strong => self.out.push_str("</strong>"),
            TagEnd::Strikethrough => self.out.push_str("</s>"),
            TagEnd::Link | TagEnd::Image => {
                self.out.push_str(self.links.pop().unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Begins a quote, a list or an item of one.
    fn enter(&mut self, opens: &str, closes: &'static str) {
        let is_too_deep = self.open.len() >= MAX_DEPTH;
        self.open.push(if is_too_deep { "" } else { closes });
        if !is_too_deep {
            self.out.push_str(opens);
        }
        self.item = (!is_too_deep && opens == "<li>").then(|| self.out.len() - 1);
    }

    fn task(&mut self, is_done: bool) {
        if let Some(at) = self.item.take() {
            self.out.insert_str(at, " class=\"ticked\"");
        }
        self.out.push_str(match is_done {
            true => "<span aria-label=\"done\">☑</span> ",
            false => "<span aria-label=\"to do\">☐</span> ",
        });
    }

    fn link(&mut self, url: &str) {
        let closes = match web_address(url) {
            // A picture that is a link: one address is enough.
            _ if !self.links.is_empty() => "",
            Some(url) => {
                self.open_link(url);
                "</a>"
            }
            // It leads somewhere that is not the web (a local path, a script): only its words stay.
            None => {
                self.out.push_str("<em>");
                "</em>"
            }
        };
        self.links.push(closes);
    }

    fn open_link(&mut self, url: &str) {
        self.out.push_str("<a href=\"");
        self.escaped(url);
        self.out
            .push_str("\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">");
    }

    /// Text in which addresses may stand by themselves.
    fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some((before, url, after)) = next_address(rest) {
            self.escaped(before);
            self.open_link(url);
            self.escaped(url);
            self.out.push_str("</a>");
            rest = after;
        }
        self.escaped(rest);
    }

    fn escaped(&mut self, text: &str) {
        // Writing to a string cannot fail.
        _ = Escaper::new(&mut self.out).write_str(text);
    }

    fn drop_line_break(&mut self) {
        if self.out.ends_with('\n') {
            self.out.pop();
        }
    }
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
