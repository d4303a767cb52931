use pretty_assertions::assert_eq;

use super::without_places;

#[test]
fn addresses_and_absolute_paths_are_hidden_and_nothing_else() {
    let cases = [
        (
            "The model m at 127.0.0.1:31900 cannot be reached (Connection refused).",
            "The model m at … cannot be reached (Connection refused).",
        ),
        (
            "It is at http://10.0.0.2:8787/x?y, which is away.",
            "It is at …, which is away.",
        ),
        (
            "`/home/me/.local/share/x` is not there: /tmp/a.b.",
            "`…` is not there: ….",
        ),
        ("open(/etc/passwd) dir=/srv/x ~/notes", "open(…) dir=… …"),
        ("localhost:80 [::1]:443 ::1 10.1.2.3", "… [… … …"),
        ("models.example:443: refused", "… refused"),
        (
            "Stopped at step 3/4 and/or ./here: 12:30, a:b, x.y is 2026-01-01.",
            "Stopped at step 3/4 and/or ./here: 12:30, a:b, x.y is 2026-01-01.",
        ),
        ("", ""),
    ];
    for (text, shown) in cases {
        assert_eq!(without_places(text), shown);
    }
}
