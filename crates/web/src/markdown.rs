//! Markdown as agents write it, drawn safely: text is only ever text, links lead to the web alone,
//! and nothing is loaded from elsewhere.
//!
//! The common subset: headings, paragraphs, lists, quotes, code, tables, rules, emphasis, links.
//! What is not understood is shown as it was written.

mod block;
mod inline;

use maud::{Markup, html};

use self::{
    block::{Block, Item},
    inline::Inline,
};

/// Draws a text.
pub(crate) fn draw(text: &str) -> Markup {
    blocks(&block::read(text))
}

fn blocks(blocks: &[Block]) -> Markup {
    html! { @for block in blocks { (one(block)) } }
}

fn one(block: &Block) -> Markup {
    match block {
        Block::Heading(level, text) => heading(*level, text),
        Block::Paragraph(text) => html! { p { (inlines(text)) } },
        Block::Code(text) => html! { pre tabindex="0" { code { (text) } } },
        Block::Quote(inner) => html! { blockquote { (blocks(inner)) } },
        Block::Bullets(list) => html! { ul { @for i in list { (item(i)) } } },
        Block::Numbers(first, list) => html! { ol start=(first) { @for i in list { (item(i)) } } },
        Block::Table { head, rows } => html! {
            div.scroll tabindex="0" role="region" aria-label="Table" {
                table {
                    thead { tr { @for cell in head { th scope="col" { (inlines(cell)) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (inlines(cell)) } } } } }
                }
            }
        },
        Block::Rule => html! { hr; },
    }
}

/// A heading inside a page of ours, which has its own first two levels.
fn heading(level: usize, text: &[Inline]) -> Markup {
    match level {
        1 => html! { h3.first { (inlines(text)) } },
        2 => html! { h3 { (inlines(text)) } },
        3 => html! { h4 { (inlines(text)) } },
        _ => html! { h5 { (inlines(text)) } },
    }
}

fn item(item: &Item) -> Markup {
    let text = match item.blocks.as_slice() {
        // A short item is a line, not a paragraph.
        [Block::Paragraph(text), rest @ ..] => html! { (inlines(text)) (blocks(rest)) },
        other => blocks(other),
    };
    match item.ticked {
        None => html! { li { (text) } },
        Some(true) => html! { li.ticked { span aria-label="done" { "☑" } " " (text) } },
        Some(false) => html! { li.ticked { span aria-label="to do" { "☐" } " " (text) } },
    }
}

fn inlines(inlines: &[Inline]) -> Markup {
    html! {
        @for part in inlines {
            @match part {
                Inline::Text(text) => (text),
                Inline::Code(text) => code { (text) },
                Inline::Strong(inner) => strong { (self::inlines(inner)) },
                Inline::Emphasis(inner) => em { (self::inlines(inner)) },
                Inline::Strike(inner) => s { (self::inlines(inner)) },
                Inline::Link(href, inner) => a href=(href) target="_blank" rel="noopener noreferrer nofollow" {
                    (self::inlines(inner))
                },
            }
        }
    }
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
