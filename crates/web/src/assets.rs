//! What pages load besides themselves: one style sheet, a few ES modules, an icon. All of them are
//! inside the binary, and their address carries the digest of all, so that browsers keep them for
//! ever and an upgrade is a new address. Modules import each other by relative address.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use sha2::{Digest as _, Sha256};
use threadline_contract::{Code, Fault};
use threadline_server::Refusal;

const JS: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";

struct Asset {
    name: &'static str,
    kind: &'static str,
    body: &'static str,
}

macro_rules! assets {
    ($($name:literal $kind:ident)*) => {
        const ALL: &[Asset] = &[$(Asset {
            name: $name,
            kind: $kind,
            body: include_str!(concat!("../assets/", $name)),
        }),*];
    };
}

assets! {
    "look.css" CSS
    "icon.svg" SVG
    "main.js" JS
    "attach.js" JS
    "dom.js" JS
    "forms.js" JS
    "keys.js" JS
    "live.js" JS
    "morph.js" JS
    "preview.js" JS
    "rpc.js" JS
    "steady.js" JS
    "sure.js" JS
    "times.js" JS
    "work.js" JS
}

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    for asset in ALL {
        digest.update(asset.name);
        digest.update([0]);
        digest.update(asset.body);
        digest.update([0]);
    }
    hex::encode(&digest.finalize()[..8])
});

/// The address of an asset.
pub(crate) fn url(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

/// The modules that the first one needs, so that the browser can fetch them at once.
pub(crate) fn modules() -> impl Iterator<Item = &'static str> {
    ALL.iter().filter(|a| a.kind == JS).map(|a| a.name)
}

pub(crate) async fn handle(Path((version, name)): Path<(String, String)>) -> Response {
    match ALL.iter().find(|a| a.name == name && version == *VERSION) {
        Some(asset) => answer(asset, "public, max-age=31536000, immutable"),
        None => Refusal(Fault::new(Code::NotFound, Code::NotFound.advice())).into_response(),
    }
}

/// Browsers ask for this address unasked.
pub(crate) async fn icon() -> Response {
    match ALL.iter().find(|a| a.kind == SVG) {
        Some(asset) => answer(asset, "public, max-age=86400"),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn answer(asset: &Asset, kept: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, kept),
    ];
    (headers, asset.body).into_response()
}

#[cfg(test)]
#[path = "assets_tests.rs"]
mod tests;
