use pretty_assertions::assert_eq;

use super::*;

fn inner(doing: &str, bars: Vec<Bar>) -> Inner {
    let to = Terminal {
        person: true,
        color: false,
        width: 70,
    };
    Inner {
        to,
        doing: doing.into(),
        bars,
        drawn: vec![],
        prompt: None,
        prompted: false,
        begun: Instant::now(),
    }
}

fn bar(name: &str, done: u64, total: u64) -> Bar {
    Bar {
        name: name.into(),
        done,
        total,
    }
}

#[test]
fn what_goes_on_moves_and_after_a_while_tells_since_when() {
    let area = inner("Working", vec![]);
    assert_eq!(area.lines(Duration::from_millis(160)), ["  ⠹ Working"]);
    assert_eq!(
        area.lines(Duration::from_millis(65_432)),
        ["  ⠧ Working  1 min 5 s"]
    );
    assert_eq!(
        inner("", vec![]).lines(Duration::ZERO),
        Vec::<String>::new()
    );
}

#[test]
fn no_line_is_as_wide_as_the_terminal() {
    let long =
        "a very long step that nobody could read in one line of a terminal as narrow as this";
    let wide = "河流报告河流报告河流报告河流报告河流报告河流报告河流报告河流报告河流报告";
    for text in [long, wide] {
        let area = inner(text, vec![bar(text, 5_000_000, 16_000_000)]);
        for line in area.lines(Duration::from_secs(100)) {
            let columns: usize = line
                .chars()
                .map(|c| {
                    if c as u32 >= 0x1100 && !"━─⠋…".contains(c) {
                        2
                    } else {
                        1
                    }
                })
                .sum();
            assert!(columns <= 66, "{columns}: {line}");
        }
    }
}

#[test]
fn each_download_has_a_bar_and_the_rest_waits() {
    let area = inner(
        "Syncing the files",
        (0..8)
            .map(|n| bar(&format!("f{n}"), n * 100, 800))
            .collect(),
    );
    let lines = area.lines(Duration::ZERO);
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0], "  ──────────────────────── f0 0 B of 800 B");
    assert_eq!(lines[4], "  ━━━━━━━━━━━━──────────── f4 400 B of 800 B");
    assert_eq!(lines[6], "  ⠋ Syncing the files");
}

#[test]
fn nothing_is_written_over_what_somebody_types() {
    // Which picture of the spinner it is depends on the moment.
    let first = |text: String| text.replace(|c| FRAMES.concat().contains(c), "⠋");
    let mut area = inner("Working", vec![]);
    assert_eq!(first(area.drawing()), "  ⠋ Working");
    assert_eq!(
        area.prompt("  › "),
        "\r\u{1b}[J  › ",
        "the spinner makes room"
    );
    area.doing = "Waiting for an answer".into();
    area.bars.push(bar("a.bin", 1, 2));
    assert_eq!(area.redrawing(), "", "neither time nor news move anything");
    assert_eq!(area.prompt("  › "), "", "it stands there already");
    // Something that stays comes beneath what was typed, and the sign beneath that.
    assert_eq!(
        (area.erasing(), area.drawing()),
        ("\n".into(), "  › ".into())
    );
    area.bars.clear();
    area.typed();
    assert_eq!(first(area.redrawing()), "  ⠋ Waiting for an answer");
    // Answered elsewhere: the line is left as it is.
    assert_eq!(area.prompt("  › "), "\r\u{1b}[J  › ");
    assert_eq!(area.unprompt(), "\n");
    assert_eq!(first(area.redrawing()), "  ⠋ Waiting for an answer");
}

#[test]
fn a_narrower_terminal_has_broken_lines() {
    assert_eq!(rows(&[], 70), 0);
    assert_eq!(rows(&[60, 20], 70), 2);
    assert_eq!(rows(&[60, 20], 25), 4);
    assert_eq!(rows(&[0], 25), 1);
}
