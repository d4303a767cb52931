//! `artifacts gc`: the files of old runs make room at the bridge of this machine.

use jiff::tz::TimeZone;
use threadline_app::api::{self, GcView};
use threadline_contract::{Fault, Millis, method::GcParams};

use super::Context;
use crate::{args::Gc, exit::Exit, screen::proof};

pub(super) async fn gc(context: &Context, args: Gc) -> Result<Exit, Fault> {
    let keep = &context.config.keep;
    let said = args.older_than.is_some() || args.keep_bytes.is_some();
    let (age, bytes) = match said {
        true => (args.older_than, args.keep_bytes),
        false => (keep.max_age, keep.max_bytes),
    };
    if age.is_none() && bytes.is_none() && args.dry_run {
        return stock(context).await;
    }
    if age.is_none() && bytes.is_none() {
        return Err(Fault::invalid(
            "Say what may go: --older-than 30d, --keep-bytes 10GB, or both. `threadline artifacts gc --dry-run` shows what there is.",
        ));
    }
    let params = GcParams {
        max_age_seconds: age.map(|age| age.as_secs()),
        max_bytes: bytes,
        dry_run: args.dry_run,
    };
    let client = context.client().await?;
    let mut all: GcView = client.call(api::ARTIFACTS_GC, params).await?;
    while all.gc.more {
        let next: GcView = client.call(api::ARTIFACTS_GC, params).await?;
        // What could not go does not become less by asking.
        all.gc.more = next.gc.more && next.gc.removed_runs > 0;
        all = joined(all, next);
    }
    context.print(&all, || {
        proof::room(&all, Millis::now(), &TimeZone::system(), context.out)
    });
    Ok(Exit::Done)
}

/// What there is, when nobody has said what may go: all that could, and touched is none of it.
async fn stock(context: &Context) -> Result<Exit, Fault> {
    let params = GcParams {
        max_age_seconds: None,
        max_bytes: Some(0),
        dry_run: true,
    };
    let client = context.client().await?;
    let view: GcView = client.call(api::ARTIFACTS_GC, params).await?;
    context.print(&view, || {
        proof::stock(&view, Millis::now(), &TimeZone::system(), context.out)
    });
    Ok(Exit::Done)
}

/// What two requests came to: what went adds up, and what stays is what stays now.
fn joined(mut all: GcView, next: GcView) -> GcView {
    let gc = next.gc;
    all.gc.removed_runs += gc.removed_runs;
    all.gc.freed_bytes += gc.freed_bytes;
    all.gc.removed.extend(gc.removed);
    all.names.extend(next.names);
    all.gc.bytes_after = gc.bytes_after;
    all.gc.kept_runs = gc.kept_runs;
    all.gc.kept = gc.kept;
    all.gc.unknown = gc.unknown;
    all
}
