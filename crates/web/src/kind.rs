//! What a file is to a person who looks at it, and as what a browser may have it.
//!
//! Content types are told by bridges, so they are not trusted: each is put into one of a few kinds,
//! and only a kind decides what is served. No kind is served as script or style sheet.

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A picture; the type is one that browsers draw.
    Picture(&'static str),
    Markdown,
    /// Rows and columns; the character between columns.
    Table(char),
    Pdf,
    /// A page that an agent made.
    Html,
    Text,
    Sound(&'static str),
    Film(&'static str),
    Other,
}

/// Pictures that browsers draw, SVG among them: in an `<img>` it runs nothing.
const PICTURES: [&str; 8] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/avif",
    "image/bmp",
    "image/svg+xml",
    "image/x-icon",
];
const SOUNDS: [&str; 5] = [
    "audio/mpeg",
    "audio/mp4",
    "audio/wav",
    "audio/ogg",
    "audio/flac",
];
const FILMS: [&str; 4] = [
    "video/mp4",
    "video/webm",
    "video/quicktime",
    "video/x-matroska",
];
/// Texts whose type does not begin with `text/`.
const TEXTS: [&str; 9] = [
    "application/json",
    "application/x-ndjson",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/sql",
    "application/x-sh",
];

impl Kind {
    pub(crate) fn of(content_type: &str) -> Self {
        let whole = content_type.to_ascii_lowercase();
        let kind = whole.split(';').next().unwrap_or_default().trim();
        let one_of = |known: &[&'static str]| known.iter().copied().find(|k| *k == kind);
        let media = one_of(&PICTURES)
            .map(Self::Picture)
            .or_else(|| one_of(&SOUNDS).map(Self::Sound))
            .or_else(|| one_of(&FILMS).map(Self::Film));
        if let Some(media) = media {
            return media;
        }
        match kind {
            "text/markdown" => Self::Markdown,
            "text/csv" => Self::Table(','),
            "text/tab-separated-values" => Self::Table('\t'),
            "application/pdf" => Self::Pdf,
            "text/html" | "application/xhtml+xml" => Self::Html,
            _ if kind.starts_with("text/") || TEXTS.contains(&kind) => Self::Text,
            _ if kind.ends_with("+json") || kind.ends_with("+xml") => Self::Text,
            _ => Self::Other,
        }
    }

    /// The type that a browser is told when it shows the file itself; `None` when it may only be
    /// saved.
    pub(crate) fn shown_as(self) -> Option<&'static str> {
        match self {
            Self::Picture(kind) | Self::Sound(kind) | Self::Film(kind) => Some(kind),
            Self::Pdf => Some("application/pdf"),
            Self::Html => Some("text/html; charset=utf-8"),
            Self::Markdown | Self::Table(_) | Self::Text => Some("text/plain; charset=utf-8"),
            Self::Other => None,
        }
    }
}

/// The few letters on a file's badge: its extension, as far as it fits.
pub(crate) fn badge(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name
        .rsplit_once('.')
        .filter(|(stem, _)| !stem.is_empty())
        .map(|(_, e)| e);
    let letters: String = extension
        .unwrap_or("file")
        .chars()
        .filter(|c| c.is_alphanumeric())
        .take(4)
        .collect();
    letters.to_uppercase()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn nothing_is_served_as_script_or_style() {
        for kind in [
            "text/javascript",
            "application/javascript",
            "text/css",
            "Text/JavaScript; charset=x",
            "image/svg+json",
            "text/xsl",
        ] {
            assert_eq!(
                Kind::of(kind).shown_as(),
                Some("text/plain; charset=utf-8"),
                "{kind}"
            );
        }
        for kind in [
            "application/wasm",
            "application/x-shockwave-flash",
            "",
            "x",
            "image/tiff",
        ] {
            assert_eq!(Kind::of(kind).shown_as(), None, "{kind}");
        }
        assert_eq!(
            Kind::of("text/csv").shown_as(),
            Some("text/plain; charset=utf-8")
        );
        assert_eq!(Kind::of("IMAGE/PNG"), Kind::Picture("image/png"));
    }

    #[test]
    fn a_badge_is_short() {
        for (path, want) in [
            ("a/report.md", "MD"),
            ("x.markdown", "MARK"),
            (".env", "FILE"),
            ("README", "FILE"),
            ("a.<b>", "B"),
        ] {
            assert_eq!(badge(path), want);
        }
    }
}
