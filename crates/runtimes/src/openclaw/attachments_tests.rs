use pretty_assertions::assert_eq;

use super::*;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n____";

fn file(name: &str, bytes: &[u8]) -> AttachmentOutline {
    AttachmentOutline::of(name, bytes)
}
fn long(size_bytes: u64, file: AttachmentOutline) -> AttachmentOutline {
    AttachmentOutline { size_bytes, ..file }
}

#[test]
fn a_file_goes_as_what_it_is() {
    let cases = [
        (file("a.png", PNG), Some(Taken::Image("image/png"))),
        // By its bytes, whatever it is called.
        (file("a.pdf", PNG), Some(Taken::Image("image/png"))),
        (file("a.png", b"%PDF-1.7 \xff"), None),
        (file("BMW.txt", b"BMW built it"), Some(Taken::Text)),
        (file("a.svg", b"<svg/>"), Some(Taken::Text)),
        (file("empty", b""), Some(Taken::Text)),
        (
            file("odd.png", b"\xff\x00"),
            Some(Taken::Image("image/png")),
        ),
        (file("data.bin", b"\x00\x9f\x92\x96"), None),
        (file("a.zip", b"PK\x03\x04\xff"), None),
    ];
    for (file, want) in cases {
        assert_eq!(how(&file), want, "{}", file.name);
    }
}

#[test]
fn what_a_gateway_does_not_take_is_named() {
    let limits = Limits {
        image: 100,
        images: 150,
    };
    let refused = |files: &[AttachmentOutline]| {
        let fault = check(files, limits).unwrap_err();
        (fault.code, fault.message)
    };
    let image = |size| long(size, file("a.png", PNG));
    let text = |size| long(size, file("a.txt", b"words"));
    assert_eq!(
        check(&[image(100), image(50), text(TEXTS)], limits),
        Ok(vec![
            Taken::Image("image/png"),
            Taken::Image("image/png"),
            Taken::Text
        ])
    );
    assert_eq!(
        refused(&[text(1), image(101)]),
        (
            Code::AttachmentTooLarge,
            "The image `a.png` has 101 bytes. With a task, this OpenClaw gateway takes images of 100 bytes each.".to_owned()
        )
    );
    assert_eq!(
        refused(&[image(100), image(51)]),
        (
            Code::AttachmentTooLarge,
            "The images have 151 bytes together. With a task, this OpenClaw gateway takes 150 bytes of them.".to_owned()
        )
    );
    assert_eq!(refused(&[text(TEXTS), text(1)]).0, Code::AttachmentTooLarge);
    assert_eq!(
        refused(&[file("a.zip", b"PK\x03\x04\xff")]),
        (
            Code::AttachmentInvalid,
            "OpenClaw takes images and texts with a task, and `a.zip` is neither. Put it where its agent can read it, and name the place.".to_owned()
        )
    );
    // A gateway that has not said may take any size; it still takes no archive.
    assert!(check(&[image(1 << 40)], Limits::UNKNOWN).is_ok());
    assert!(check(&[file("a.zip", b"PK\x03\x04\xff")], Limits::UNKNOWN).is_err());
}
