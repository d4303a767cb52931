//! What this owner is called among those that share a database: a name that its data folder keeps, so that
//! after a restart it knows its own sessions and leases, and that no other machine can have by accident.

use threadline_contract::{Fault, TokenId};
use threadline_files::{Access, Reason, atomic};
use tracing::warn;

use super::{Places, storage};

/// The second line of the file, where the name in the first is not the folder's first name.
const RENAMED: &str = "renamed";
/// The file has two short lines.
const LARGEST: u64 = 256;

/// A data folder's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The name.
    pub(crate) name: String,
    /// It had another one before, which nobody knows any more.
    pub(crate) renamed: bool,
}

/// Reads the name, or makes it. One that cannot be read is replaced, and the file says so from then on.
pub(crate) fn read_or_make(places: &Places) -> Result<Name, Fault> {
    let path = places.node();
    let fresh = TokenId::fresh().to_string();
    match atomic::create(&path, format!("{fresh}\n").as_bytes(), Access::Private) {
        Ok(_) => {
            return Ok(Name {
                name: fresh,
                renamed: false,
            });
        }
        Err(e) if e.reason() == Reason::AlreadyExists => {}
        Err(e) => return Err(storage(e)),
    }
    let why = match atomic::read_limited(&path, LARGEST) {
        Ok(kept) => match std::str::from_utf8(&kept).ok().and_then(parse) {
            Some(name) => return Ok(name),
            None => "it is damaged".to_owned(),
        },
        Err(e) => e.to_string(),
    };
    warn!(path = %path.display(), "The name of this node cannot be read ({why}); it gets a new one");
    let text = format!("{fresh}\n{RENAMED}\n");
    atomic::write(&path, text.as_bytes(), Access::Private).map_err(storage)?;
    Ok(Name {
        name: fresh,
        renamed: true,
    })
}

/// A name as it is made here.
fn parse(text: &str) -> Option<Name> {
    let mut lines = text.trim_end().lines();
    let name = lines.next()?;
    let id = name.strip_prefix("tok-")?;
    let whole = id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then(|| Name {
        name: name.to_owned(),
        renamed: lines.next() == Some(RENAMED),
    })
}
