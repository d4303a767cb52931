use pretty_assertions::assert_eq;

use super::*;

fn read(chunks: &[&[u8]]) -> Vec<Frame> {
    let (mut parser, mut out) = (Parser::new(1 << 20), Vec::new());
    for chunk in chunks {
        parser.feed(chunk, &mut out).unwrap();
    }
    parser.end(&mut out);
    out
}
fn frame(id: Option<i64>, data: &str) -> Frame {
    Frame {
        id,
        data: data.into(),
    }
}

#[test]
fn lines_become_events() {
    let text = "\u{feff}: hello\n\nid: 7\ndata: {\"a\":1}\n\ndata: x\ndata:y\n\nevent: e\nid: no\ndata: z\n\n: keepalive\n\ndata: last";
    let want = vec![
        frame(Some(7), "{\"a\":1}"),
        frame(None, "x\ny"),
        frame(None, "z"),
        frame(None, "last"),
    ];
    assert_eq!(read(&[text.as_bytes()]), want);
    assert_eq!(read(&[text.replace('\n', "\r\n").as_bytes()]), want);
    assert_eq!(read(&[text.replace('\n', "\r").as_bytes()]), want);
}

#[test]
fn where_the_bytes_are_parted_does_not_matter() {
    let plain = "id: 1\ndata: ü€😀\n\ndata: b\ndata: c\n\nid: 3\ndata: d\n\n";
    for text in [plain.to_owned(), plain.replace('\n', "\r\n")] {
        let bytes = text.as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(
                    read(&parts),
                    vec![
                        frame(Some(1), "ü€😀"),
                        frame(None, "b\nc"),
                        frame(Some(3), "d")
                    ]
                );
            }
        }
    }
}

#[test]
fn an_event_may_not_be_longer_than_allowed() {
    let (mut parser, mut out) = (Parser::new(10), Vec::<Frame>::new());
    assert_eq!(parser.feed(b"data: 1234", &mut out), Ok(()));
    assert_eq!(parser.feed(b"5", &mut out), Err(TooLong(10)));

    let (mut parser, mut out) = (Parser::new(10), Vec::<Frame>::new());
    assert_eq!(parser.feed(b"data: 12\n", &mut out), Ok(()));
    assert_eq!(parser.feed(b"data: 345\n", &mut out), Err(TooLong(10)));
}
