//! What every page says about itself to the browser: nothing from elsewhere, nothing inline.

use axum::{
    http::{HeaderName, HeaderValue, header},
    response::Response,
};

/// Scripts and styles come from our own assets only. A file that an agent made has no type that a
/// browser would run (see `files`), so `'self'` does not reach it either.
const PAGE: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
     media-src 'self'; connect-src 'self'; frame-src 'self'; object-src 'none'; frame-ancestors 'none'; \
     base-uri 'none'; form-action 'self'";

/// Puts the headers of a page on an answer, as far as it has none of its own.
pub(crate) async fn page(mut response: Response) -> Response {
    let said = [
        (header::CONTENT_SECURITY_POLICY, PAGE),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in said {
        response
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}
