use pretty_assertions::assert_eq;

use super::{super::Health, *};
use crate::config::Secret;

fn model(key: Option<&str>) -> Model {
    Model {
        url: "http://m/v1".into(),
        model: "qwen3".into(),
        key: key.map(Secret::new),
    }
}

#[test]
fn an_answer_is_judged_by_what_a_run_would_need() {
    let told = |key, status: u16, body: &str| {
        let check = judged(&model(key), StatusCode::from_u16(status).unwrap(), body);
        (check.health, check.found)
    };
    let lists = r#"{"data": [{"id": "qwen3:latest"}, {"id": "other"}]}"#;
    assert_eq!(
        told(None, 200, lists),
        (Health::Ok, "qwen3 at http://m/v1, answers".into())
    );
    assert_eq!(
        told(None, 200, r#"{"data": [{"id": "other"}]}"#),
        (
            Health::Warn,
            "http://m/v1 answers, but does not list qwen3".into()
        )
    );
    assert_eq!(
        told(None, 200, "<html>"),
        (
            Health::Warn,
            "http://m/v1 answers with something that is not a list of models".into()
        )
    );
    assert_eq!(
        told(None, 401, ""),
        (Health::Bad, "http://m/v1 wants a key (HTTP 401)".into())
    );
    assert_eq!(
        told(Some("k"), 403, ""),
        (Health::Bad, "http://m/v1 refuses the key (HTTP 403)".into())
    );
    assert_eq!(
        told(None, 404, ""),
        (
            Health::Warn,
            "http://m/v1 answers, but cannot list its models (HTTP 404)".into()
        )
    );
}
