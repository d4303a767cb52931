//! What is never an artifact, whatever changed in it. One list for each of the two questions.

/// Our own notes inside a session folder and a scope.
pub(crate) const NOTES: &str = ".xworkmate";

/// Folders that an export does not enter, at any depth.
const NOT_EXPORTED: [&str; 8] = [
    ".git",
    ".openclaw",
    NOTES,
    ".pi",
    ".dart_tool",
    ".next",
    ".turbo",
    "node_modules",
];

/// Folders that are not collected from a work folder, beside everything that begins with a dot and
/// every folder that calls itself a cache (see [`CACHE_TAG`]).
const NOT_COLLECTED: [&str; 5] = [
    "node_modules",
    "bower_components",
    "__pycache__",
    "__pypackages__",
    "venv",
];

/// The file by which tools mark a folder as a cache, and how it begins.
pub(crate) const CACHE_TAG: &str = "CACHEDIR.TAG";
pub(crate) const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether an export enters a folder.
pub(crate) fn exports_folder(path: &str) -> bool {
    !NOT_EXPORTED.contains(&name(path))
}

/// Whether an export can have listed a file.
pub(crate) fn exports_file(path: &str) -> bool {
    let mut parts = path.split('/').rev().skip(1);
    parts.all(|folder| !NOT_EXPORTED.contains(&folder))
}

/// Whether files of a folder with this name are collected.
pub(crate) fn collects_folder(path: &str) -> bool {
    !name(path).starts_with('.') && !NOT_COLLECTED.contains(&name(path))
}

/// Whether a file with this name is collected.
pub(crate) fn collects_file(path: &str) -> bool {
    !name(path).starts_with('.')
}

/// Folders at the top of an output root that are never collected: what was sent *to* the gateway is
/// not what a run made.
const NOT_OUTPUT: [&str; 3] = ["uploads", "cache", "logs"];

/// Whether something in an output root is the gateway's own, whoever names it. It keeps its logs at
/// the top of one of them unless told otherwise, and they grow in every run.
pub(crate) fn gateways_own(path: &str) -> bool {
    match path.split_once('/') {
        Some((top, _)) => NOT_OUTPUT.contains(&top),
        None => NOT_OUTPUT.contains(&path) || path.ends_with(".log") || path.contains(".log."),
    }
}

/// Whether a folder of an output root is looked at.
pub(crate) fn outputs_folder(path: &str) -> bool {
    collects_folder(path) && !NOT_OUTPUT.contains(&path)
}
