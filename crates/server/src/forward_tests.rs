use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use pretty_assertions::assert_eq;
use sha2::{Digest as _, Sha256};

use super::with_digest;

async fn relayed(pieces: &'static [&'static str], of: &str) -> Vec<Result<Bytes, String>> {
    let bytes = stream::iter(pieces).map(|piece| Ok::<_, std::io::Error>(Bytes::from(*piece)));
    let digest = Sha256::digest(of.as_bytes()).into();
    let pieces = with_digest(bytes, digest).map(|piece| piece.map_err(|e| e.to_string()));
    pieces.collect().await
}

#[tokio::test]
async fn a_file_that_is_not_the_one_that_was_asked_for_breaks_off() {
    let broke = || Err("the file is not the one that was asked for".to_owned());
    let piece = |text: &'static str| Ok(Bytes::from(text));
    assert_eq!(
        [
            relayed(&["ab", "c"], "abc").await,
            relayed(&["ab", "d"], "abc").await,
            relayed(&["ab"], "abc").await,
            relayed(&[], "").await,
        ],
        [
            vec![piece("ab"), piece("c")],
            vec![piece("ab"), broke()],
            vec![broke()],
            vec![],
        ]
    );
}
