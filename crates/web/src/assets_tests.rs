use std::collections::HashMap;

use pretty_assertions::assert_eq;

use super::*;

fn body(name: &str) -> &'static str {
    ALL.iter().find(|a| a.name == name).unwrap().body
}

#[test]
fn a_first_visit_loads_little() {
    let bytes: usize = ALL.iter().map(|a| a.body.len()).sum();
    assert!(bytes < 80_000, "{bytes}");
}

#[test]
fn modules_import_only_what_is_there() {
    for module in ALL.iter().filter(|a| a.kind == JS) {
        for line in module.body.lines().filter(|l| l.starts_with("import")) {
            let from = line.split('\'').nth(1).unwrap();
            let name = from.strip_prefix("./").unwrap();
            assert!(
                ALL.iter().any(|a| a.name == name),
                "{} imports {from}",
                module.name
            );
        }
        for banned in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "http://",
            "https://",
        ] {
            assert!(
                !module.body.contains(banned),
                "{} has {banned}",
                module.name
            );
        }
    }
}

#[tokio::test]
async fn an_asset_is_kept_for_ever_under_its_version_only() {
    let found = handle(Path((VERSION.clone(), "main.js".into()))).await;
    assert_eq!(
        found.headers()["cache-control"],
        "public, max-age=31536000, immutable"
    );
    assert_eq!(
        handle(Path(("old".into(), "main.js".into())))
            .await
            .status(),
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        handle(Path((VERSION.clone(), "../lib.rs".into())))
            .await
            .status(),
        StatusCode::NOT_FOUND
    );
}

/// Every text on every ground that it stands on, as WCAG counts: 4.5 for text, 3 for edges.
#[test]
fn colours_can_be_told_apart() {
    let tokens = tokens(body("look.css"));
    let pairs = [
        ("text", "bg", 4.5),
        ("text", "surface", 4.5),
        ("text", "sunken", 4.5),
        ("text", "accent-soft", 4.5),
        ("muted", "bg", 4.5),
        ("muted", "surface", 4.5),
        ("muted", "sunken", 4.5),
        ("accent", "surface", 4.5),
        ("accent", "bg", 4.5),
        ("accent", "sunken", 4.5),
        ("accent-ink", "accent", 4.5),
        ("wait", "wait-soft", 4.5),
        ("wait", "surface", 4.5),
        ("wait", "bg", 4.5),
        ("wait", "sunken", 4.5),
        ("bad", "bad-soft", 4.5),
        ("bad", "surface", 4.5),
        ("bad", "bg", 4.5),
        ("bad", "sunken", 4.5),
        ("good", "good-soft", 4.5),
        ("good", "surface", 4.5),
        ("good", "bg", 4.5),
        ("edge", "surface", 3.0),
        ("edge", "bg", 3.0),
    ];
    for (front, back, least) in pairs {
        for theme in [0, 1] {
            let contrast = contrast(tokens[front][theme], tokens[back][theme]);
            assert!(
                contrast >= least,
                "{front} on {back} in {}: {contrast:.2}",
                ["light", "dark"][theme]
            );
        }
    }
}

fn tokens(css: &str) -> HashMap<&str, [[u8; 3]; 2]> {
    let pairs = css.lines().filter_map(|line| {
        let (name, value) = line
            .trim()
            .strip_prefix("--")?
            .split_once(": light-dark(#")?;
        let (light, dark) = value.split_once(')')?.0.split_once(", #")?;
        let colour = |hex: &str| <[u8; 3]>::try_from(hex::decode(hex).ok()?).ok();
        Some((name, [colour(light)?, colour(dark)?]))
    });
    pairs.collect()
}

fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let light = |colour: [u8; 3]| {
        let part = colour.map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2]
    };
    let (a, b) = (light(a), light(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}
