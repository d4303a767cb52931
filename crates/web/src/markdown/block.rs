//! From lines to blocks.

use super::inline::{self, Inline};

/// How deep quotes and lists may lie in each other; what is deeper is plain text.
const DEEPEST: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    Heading(usize, Vec<Inline>),
    Paragraph(Vec<Inline>),
    Code(String),
    Quote(Vec<Block>),
    Bullets(Vec<Item>),
    Numbers(u32, Vec<Item>),
    Table {
        head: Vec<Vec<Inline>>,
        rows: Vec<Vec<Vec<Inline>>>,
    },
    Rule,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) ticked: Option<bool>,
    pub(super) blocks: Vec<Block>,
}

pub(super) fn read(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    blocks(&lines, 0)
}

fn blocks(lines: &[&str], depth: usize) -> Vec<Block> {
    let mut out = Vec::new();
    let mut rest = lines;
    while let Some((line, after)) = rest.split_first() {
        if line.trim().is_empty() {
            rest = after;
            continue;
        }
        let (block, used) = next(rest, line, depth);
        out.push(block);
        rest = &rest[used..];
    }
    out
}

/// The block that begins here, and how many lines it has.
fn next(lines: &[&str], line: &str, depth: usize) -> (Block, usize) {
    if let Some(fence) = fence(line) {
        return code(lines, fence);
    }
    if let Some((level, text)) = heading(line) {
        return (Block::Heading(level, inline::read(text)), 1);
    }
    if is_rule(line) {
        return (Block::Rule, 1);
    }
    if depth < DEEPEST {
        if quoted(line).is_some() {
            let inner: Vec<&str> = lines.iter().map_while(|l| quoted(l)).collect();
            return (Block::Quote(blocks(&inner, depth + 1)), inner.len());
        }
        if let Some(marker) = marker(line) {
            return list(lines, marker.number, depth);
        }
    }
    if let Some(table) = table(lines) {
        return table;
    }
    // The line that began it is taken whatever it looks like, so that reading always goes on.
    let used = 1 + lines[1..]
        .iter()
        .take_while(|l| !l.trim().is_empty() && !begins_block(l))
        .count();
    let text: Vec<&str> = lines[..used].iter().map(|l| l.trim()).collect();
    (Block::Paragraph(inline::read(&text.join("\n"))), used)
}

fn begins_block(line: &str) -> bool {
    fence(line).is_some()
        || heading(line).is_some()
        || is_rule(line)
        || quoted(line).is_some()
        || marker(line).is_some()
}

/// The characters that open, and later close, a block of code.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let len = line.chars().take_while(|c| *c == mark).count();
    let info = &line[len..];
    (len >= 3 && !info.contains('`')).then(|| &line[..len])
}

fn code(lines: &[&str], fence: &str) -> (Block, usize) {
    let indent = lines[0].len() - lines[0].trim_start().len();
    let closes = |line: &&str| {
        line.trim().starts_with(fence) && line.trim().trim_start_matches(&fence[..1]).is_empty()
    };
    let body = &lines[1..];
    let len = body.iter().position(closes).unwrap_or(body.len());
    let text: Vec<&str> = body[..len]
        .iter()
        .map(|line| unindented(line, indent))
        .collect();
    (Block::Code(text.join("\n")), (len + 2).min(lines.len()))
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let line = line.trim();
    let level = line.chars().take_while(|c| *c == '#').count();
    let text = line[level..].strip_prefix(' ')?;
    (1..=6)
        .contains(&level)
        .then(|| (level, text.trim().trim_end_matches('#').trim_end()))
}

fn is_rule(line: &str) -> bool {
    let marks: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    marks.len() >= 3
        && ['-', '*', '_']
            .iter()
            .any(|mark| marks.chars().all(|c| c == *mark))
}

fn quoted(line: &str) -> Option<&str> {
    let inner = line.trim_start().strip_prefix('>')?;
    Some(inner.strip_prefix(' ').unwrap_or(inner))
}

struct Marker {
    /// The number of an item in a numbered list.
    number: Option<u32>,
    /// Where its text begins.
    offset: usize,
}

fn marker(line: &str) -> Option<Marker> {
    let indent = line.len() - line.trim_start().len();
    let text = &line[indent..];
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mark = match digits {
        0 => text.starts_with(['-', '*', '+']).then_some(1)?,
        1..=9 => text[digits..]
            .starts_with(['.', ')'])
            .then_some(digits + 1)?,
        _ => return None,
    };
    let spaces = text[mark..].bytes().take_while(|b| *b == b' ').count();
    let empty = text[mark..].trim().is_empty();
    // Text far from its mark is code, by the rules; here it is text all the same.
    let offset = indent + mark + if empty { 1 } else { spaces.min(4) };
    (spaces > 0 || empty).then(|| Marker {
        number: text[..digits].parse().ok(),
        offset,
    })
}

fn list(lines: &[&str], first: Option<u32>, depth: usize) -> (Block, usize) {
    let mut items = Vec::new();
    let mut used = 0;
    let begins = |line: &str| {
        marker(line).filter(|m| m.number.is_some() == first.is_some() && !is_rule(line))
    };
    let indent = |line: &str| line.len() - line.trim_start().len();
    let base = indent(lines[0]);
    while let Some(line) = lines.get(used) {
        // Blank lines may stand between the items of one list.
        if line.trim().is_empty()
            && lines
                .get(used + 1)
                .is_some_and(|next| begins(next).is_some() && indent(next) <= base + 1)
        {
            used += 1;
            continue;
        }
        let Some(marker) = begins(line) else { break };
        let mut inner = vec![line.get(marker.offset..).unwrap_or_default()];
        for line in &lines[used + 1..] {
            let further = indent(line) >= marker.offset.min(base + 2) && !line.trim().is_empty();
            let lazy = !line.trim().is_empty()
                && !begins_block(line)
                && inner.last().is_some_and(|l| !l.trim().is_empty());
            let blank = line.trim().is_empty();
            if !(further || lazy || blank) {
                break;
            }
            inner.push(unindented(line, marker.offset));
        }
        while inner.len() > 1 && inner.last().is_some_and(|l| l.trim().is_empty()) {
            inner.pop();
        }
        used += inner.len();
        items.push(item(&mut inner, depth));
    }
    let block = match first {
        Some(first) => Block::Numbers(first, items),
        None => Block::Bullets(items),
    };
    (block, used)
}

fn item(lines: &mut [&str], depth: usize) -> Item {
    let ticked = match lines[0].get(..4) {
        Some("[ ] ") => Some(false),
        Some("[x] " | "[X] ") => Some(true),
        _ => None,
    };
    if ticked.is_some() {
        lines[0] = &lines[0][4..];
    }
    Item {
        ticked,
        blocks: blocks(lines, depth + 1),
    }
}

/// The line without as much white space in front.
fn unindented(line: &str, most: usize) -> &str {
    let indent = line.len() - line.trim_start().len();
    line.get(indent.min(most)..).unwrap_or(line.trim_start())
}

fn table(lines: &[&str]) -> Option<(Block, usize)> {
    let [head, under, body @ ..] = lines else {
        return None;
    };
    let columns = cells(under);
    let delimits = |cell: &String| {
        let dashes = cell.trim_start_matches(':').trim_end_matches(':');
        !dashes.is_empty() && dashes.chars().all(|c| c == '-')
    };
    let head = cells(head);
    if !under.contains('|') && !under.contains('-')
        || !columns.iter().all(delimits)
        || head.len() != columns.len()
        || head.len() < 2
    {
        return None;
    }
    let width = head.len();
    let rows: Vec<_> = body
        .iter()
        .take_while(|l| l.contains('|') && !l.trim().is_empty())
        .map(|l| row(l, width))
        .collect();
    let used = rows.len() + 2;
    let head = head.iter().map(|cell| inline::read(cell)).collect();
    Some((Block::Table { head, rows }, used))
}

fn row(line: &str, width: usize) -> Vec<Vec<Inline>> {
    let mut cells = cells(line);
    cells.resize(width, String::new());
    cells.iter().map(|cell| inline::read(cell)).collect()
}

/// The cells of a row; `\|` is a character, not a border.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line
        .strip_suffix('|')
        .filter(|l| !l.ends_with('\\'))
        .unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let escaped = c == '\\' && chars.peek() == Some(&'|');
        let c = if escaped {
            chars.next().unwrap_or(c)
        } else {
            c
        };
        match cells.last_mut() {
            Some(cell) if escaped || c != '|' => cell.push(c),
            _ => cells.push(String::new()),
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}
