use super::*;

#[test]
fn a_token_can_stand_on_a_command_line() {
    for _ in 0..2000 {
        let token = fresh();
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        assert!(token.len() == 44 && token.bytes().all(plain), "{token}");
        assert!(
            token.starts_with(|c: char| c.is_ascii_alphabetic()),
            "{token}"
        );
    }
}
