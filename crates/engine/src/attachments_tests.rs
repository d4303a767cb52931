use pretty_assertions::assert_eq;

use super::*;

fn item(content: &str) -> InlineAttachment {
    InlineAttachment {
        name: "a.txt".into(),
        mime_type: None,
        content: content.into(),
        size_bytes: None,
        sha256: None,
    }
}
fn code(given: InlineAttachment) -> Code {
    verify(&[given]).unwrap_err().code
}

#[test]
fn attachments_are_what_they_say_or_refused() {
    let good = InlineAttachment {
        size_bytes: Some(2),
        ..item("data:text/plain;base64,aGk=")
    };
    let sha = Sha256(Hasher::digest(b"hi").into());
    assert_eq!(
        verify(std::slice::from_ref(&good)).unwrap(),
        vec![("a.txt".to_owned(), b"hi".to_vec(), sha)]
    );
    assert_eq!(
        code(InlineAttachment {
            size_bytes: Some(3),
            ..good.clone()
        }),
        Code::AttachmentInvalid
    );
    assert_eq!(
        code(InlineAttachment {
            sha256: Some(Sha256([0; 32])),
            ..good.clone()
        }),
        Code::AttachmentInvalid
    );
    assert_eq!(code(item("not base64!")), Code::AttachmentInvalid);
    assert_eq!(code(item("data:nothing")), Code::AttachmentInvalid);
    assert_eq!(
        code(InlineAttachment {
            name: " ".into(),
            ..good
        }),
        Code::AttachmentInvalid
    );
}

#[test]
fn size_limits_hold_for_each_and_for_all() {
    let big = STANDARD.encode(vec![0; ATTACHMENT_BYTES]);
    assert_eq!(
        code(item(&STANDARD.encode(vec![0; ATTACHMENT_BYTES + 1]))),
        Code::AttachmentTooLarge
    );
    assert_eq!(verify(&[item(&big), item(&big)]).unwrap().len(), 2);
    assert_eq!(
        verify(&[item(&big), item(&big), item(&big)])
            .unwrap_err()
            .code,
        Code::AttachmentTooLarge
    );
}
