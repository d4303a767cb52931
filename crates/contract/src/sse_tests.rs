use futures_util::{FutureExt as _, stream};
use pretty_assertions::assert_eq;

use super::*;

fn events(
    chunks: &[&[u8]],
    most: usize,
) -> Events<impl Stream<Item = Result<Vec<u8>, String>> + Unpin + use<>> {
    let chunks: Vec<_> = chunks.iter().map(|chunk| Ok(chunk.to_vec())).collect();
    Events::new(stream::iter(chunks), most)
}
fn read(chunks: &[&[u8]]) -> Vec<Frame> {
    let (mut events, mut out) = (events(chunks, 1 << 20), Vec::new());
    while let Some(frame) = events.next().now_or_never().unwrap().unwrap() {
        out.push(frame);
    }
    out
}
fn frame(id: Option<i64>, data: &str) -> Frame {
    Frame {
        id,
        ..Frame::new(data.into())
    }
}

#[test]
fn lines_become_events() {
    let text = "\u{feff}: hello\n\nid: 7\ndata: {\"a\":1}\n\ndata: x\ndata:y\n\nevent: e\nid: no\ndata: z\n\n: keepalive\n\ndata: last";
    let named = Frame {
        event: Some("e".into()),
        ..frame(None, "z")
    };
    let want = vec![
        frame(Some(7), "{\"a\":1}"),
        frame(None, "x\ny"),
        named,
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
    for too_long in [
        [b"data: 1234".as_slice(), b"5"],
        [b"data: 12\n", b"data: 345\n"],
    ] {
        let mut events = events(&too_long, 10);
        let mut next = || events.next().now_or_never().unwrap();
        assert_eq!(next(), Err(ReadError::TooLong(10)));
        assert_eq!(next(), Ok(None));
    }
}

#[test]
fn what_came_before_a_break_is_told_and_the_break_ends_it() {
    let chunks = [
        Ok(b"data: one\n\ndata: tw".to_vec()),
        Err("gone".to_owned()),
        Ok(b"o\n\n".to_vec()),
    ];
    let mut events = Events::new(stream::iter(chunks), 100);
    let mut next = || events.next().now_or_never().unwrap();
    assert_eq!(next(), Ok(Some(frame(None, "one"))));
    assert_eq!(next(), Err(ReadError::Bytes("gone".to_owned())));
    assert_eq!(next(), Ok(None));
}

#[test]
fn what_is_written_is_read_back() {
    let named = Frame {
        event: Some("update".into()),
        ..Frame::logged(42, "{\"a\": 1}".to_owned())
    };
    let frames = [
        Frame::new(DONE.to_owned()),
        Frame::logged(7, "x".into()),
        named,
    ];
    let text: Vec<String> = frames.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "data: [DONE]\n\n",
            "id: 7\ndata: x\n\n",
            "event: update\nid: 42\ndata: {\"a\": 1}\n\n"
        ]
    );
    let text = format!("{OPENING}{}", text.concat());
    assert_eq!(read(&[text.as_bytes()]), frames);
}
