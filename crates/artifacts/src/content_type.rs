//! What a file is, by its name; by its first bytes only where the name says nothing.

/// How many of a file's first bytes are looked at.
pub const HEAD: usize = 8 * 1024;

/// A type for bytes that nothing is known about.
pub const UNKNOWN: &str = "application/octet-stream";

/// The content type of a file with this path, or `None` if its name does not say.
pub fn of_name(path: &str) -> Option<&'static str> {
    let (stem, extension) = path.rsplit_once('.')?;
    // `.env` is a name, not an extension.
    if stem.is_empty() || stem.ends_with('/') {
        return None;
    }
    // The longest extension that is known has eight letters.
    let mut lower = [0; 8];
    let lower = lower.get_mut(..extension.len())?;
    lower.copy_from_slice(extension.as_bytes());
    lower.make_ascii_lowercase();
    Some(match std::str::from_utf8(lower).ok()? {
        "md" | "markdown" => "text/markdown",
        "txt" | "log" | "text" => "text/plain",
        "json" => "application/json",
        "jsonl" | "ndjson" => "application/x-ndjson",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" | "mjs" => "text/javascript",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "ics" => "text/calendar",
        // Source code, to be read rather than run.
        "py" | "rs" | "go" | "ts" | "tsx" | "jsx" | "java" | "kt" | "swift" | "c" | "h" | "cc"
        | "cpp" | "hpp" | "cs" | "rb" | "php" | "sh" | "sql" | "r" | "tex" | "diff" | "patch"
        | "ini" | "cfg" | "conf" | "dart" | "lua" => "text/plain",
        "ipynb" => "application/x-ipynb+json",
        "pdf" => "application/pdf",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "odt" => "application/vnd.oasis.opendocument.text",
        "ods" => "application/vnd.oasis.opendocument.spreadsheet",
        "odp" => "application/vnd.oasis.opendocument.presentation",
        "rtf" => "application/rtf",
        "epub" => "application/epub+zip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "bmp" => "image/bmp",
        "tif" | "tiff" => "image/tiff",
        "ico" => "image/x-icon",
        "mp4" | "m4v" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        "mkv" => "video/x-matroska",
        "avi" => "video/x-msvideo",
        "mp3" => "audio/mpeg",
        "m4a" => "audio/mp4",
        "wav" => "audio/wav",
        "ogg" | "oga" | "opus" => "audio/ogg",
        "flac" => "audio/flac",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "xz" => "application/x-xz",
        "zst" => "application/zstd",
        "7z" => "application/x-7z-compressed",
        "wasm" => "application/wasm",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        "sqlite" | "db" => "application/vnd.sqlite3",
        "parquet" => "application/vnd.apache.parquet",
        "bin" => UNKNOWN,
        _ => return None,
    })
}

/// The content type of bytes that begin so.
pub fn of_head(head: &[u8]) -> &'static str {
    // Only archives tell further in what they are; looking there in every file is dear. Of the others,
    // the mark of a tape archive ends last.
    let archive = head.starts_with(b"PK\x03\x04") || head.starts_with(b"\xd0\xcf\x11\xe0");
    let most = if archive { HEAD } else { 264 };
    let head = head.get(..most).unwrap_or(head);
    infer::get(head).map_or(UNKNOWN, |kind| kind.mime_type())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_name_speaks_first() {
        let cases = [
            ("reports/final.md", Some("text/markdown")),
            ("A.MARKDOWN", Some("text/markdown")),
            ("x.tar.gz", Some("application/gzip")),
            ("clip.MOV", Some("video/quicktime")),
            ("pic.svg", Some("image/svg+xml")),
            ("a.b/noext", None),
            (".md", None),
            (".env", None),
            ("odd.xyz", None),
            ("dot.", None),
        ];
        for (path, want) in cases {
            assert_eq!(of_name(path), want, "{path}");
        }
    }

    #[test]
    fn bytes_speak_when_the_name_does_not() {
        assert_eq!(of_head(b"\x89PNG\r\n\x1a\n____"), "image/png");
        assert_eq!(of_head(b"%PDF-1.7"), "application/pdf");
        assert_eq!(of_head(b"just words"), UNKNOWN);
        assert_eq!(of_head(b""), UNKNOWN);
    }
}
