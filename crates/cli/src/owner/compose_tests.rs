use pretty_assertions::assert_eq;
use threadline_app::{Endpoint, LaneSize};

use super::{Places, app_config};
use crate::config::{Loaded, SourceFlag, Sources};

#[test]
fn the_configured_lane_of_the_gateway_is_the_apps_own_too() {
    let lane = |set: &[(&str, &str)]| {
        let flag = |(key, value): &(&str, &str)| SourceFlag {
            flag: "--set".into(),
            key: (*key).to_owned(),
            value: Some((*value).to_owned()),
        };
        let sources = Sources {
            env: [("HOME".to_owned(), "/home/me".to_owned())].into(),
            flags: set.iter().map(flag).collect(),
            cwd: "/srv".into(),
            ..Sources::default()
        };
        let config = Loaded::of(&sources).config;
        let bridge = Endpoint {
            url: "http://127.0.0.1:1".to_owned(),
            token: None,
        };
        app_config(&config, &Places::new(&config.data), bridge).lane
    };
    let size = |active, queued| LaneSize { active, queued };
    assert_eq!(lane(&[]), size(5, 20));
    // Also where the gateway is another bridge's, and none is configured here.
    let set = [
        ("lanes.openclaw.max_active", "8"),
        ("lanes.openclaw.max_queued", "3"),
    ];
    assert_eq!(lane(&set), size(8, 3));
}
