//! Letters that make a text something else than it seems.

/// Whether a letter could act on a terminal, or make a text read as another one: controls (C0, C1 and
/// DEL), marks that turn the direction of writing, and separators that break a line.
pub fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn these_letters_mislead_and_no_others() {
        let all = (0..=u32::from(char::MAX)).filter_map(char::from_u32);
        let found: Vec<u32> = all.filter(|c| misleads(*c)).map(u32::from).collect();
        let mut want: Vec<u32> = (0..0x20).chain(0x7f..0xa0).collect();
        want.extend([0x61c, 0x200e, 0x200f]);
        want.extend(0x2028..=0x202e);
        want.extend(0x2066..=0x2069);
        assert_eq!(found, want);
    }
}
