//! The token of this machine: made at first start, readable by its owner alone.

use std::os::unix::fs::PermissionsExt as _;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use threadline_contract::{AccountId, Actor, Code, Fault, Millis, Principal, Scopes, TokenId, Who};
use threadline_files::{Access, Reason, atomic};
use threadline_store::{NewToken, Store};
use threadline_web::{Pending, SignIn};

use super::{Places, storage};

/// A token has 44 characters; a file with much more is not one.
const LARGEST: u64 = 1024;

/// A new token: 256 random bits, and in front of them a letter, because what begins with `-` is an option
/// to most programs that take it on their command line.
pub(crate) fn fresh() -> String {
    format!("t{}", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()))
}

/// Reads the token file, if there is one.
pub(crate) fn read(places: &Places) -> Result<Option<String>, Fault> {
    let path = places.token();
    let bytes = match atomic::read_limited(&path, LARGEST) {
        Ok(bytes) => bytes,
        Err(e) if e.reason() == Reason::NotFound => return Ok(None),
        Err(e) => return Err(storage(e)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let token = text.trim();
    if token.len() < 16 || token.bytes().any(|b| !b.is_ascii_graphic()) {
        return Err(Fault::new(
            Code::ConfigInvalid,
            format!(
                "{} does not hold a token. Remove it, and the next start makes a new one.",
                path.display()
            ),
        ));
    }
    Ok(Some(token.to_owned()))
}

/// Reads the token file, or makes it. Of two who make it at once, one wins and both read that.
pub(crate) fn read_or_make(places: &Places) -> Result<String, Fault> {
    if let Some(token) = read(places)? {
        keep_private(places)?;
        return Ok(token);
    }
    match atomic::create(
        places.token(),
        format!("{}\n", fresh()).as_bytes(),
        Access::Private,
    ) {
        Ok(_) => {}
        Err(e) if e.reason() == Reason::AlreadyExists => {}
        Err(e) => return Err(storage(e)),
    }
    let gone = || {
        Fault::new(
            Code::Internal,
            "The token file went away while it was made. Try again.",
        )
    };
    read(places)?.ok_or_else(gone)
}

fn keep_private(places: &Places) -> Result<(), Fault> {
    let path = places.token();
    let failed =
        |e: std::io::Error| Fault::new(Code::StorageReadOnly, format!("{}: {e}.", path.display()));
    let mode = std::fs::metadata(&path)
        .map_err(failed)?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        tracing::warn!(
            "The token file could be read by others (mode {:o}); it is private again",
            mode & 0o777
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    }
    Ok(())
}

/// Lets a token in, and what it replaces out: whoever puts a new one in its place means that the
/// old one shall open nothing any more.
pub(crate) async fn admit(store: &Store, token: &str, label: &str) -> Result<(), Fault> {
    let account = AccountId::local();
    let hash: [u8; 32] = Sha256::digest(token).into();
    let mine = store.admit_token(new_token(&account, hash, label)).await?;
    if mine.revoked_at.is_some() {
        return Err(Fault::new(
            Code::ConfigInvalid,
            "The token was in use before and has been replaced since, so it opens nothing any more. Choose a new one.",
        ));
    }
    for old in store.tokens(&account).await? {
        if old.label == label && old.id != mine.id && old.revoked_at.is_none() {
            store.revoke_token(&account, &old.id, Millis::now()).await?;
        }
    }
    Ok(())
}

/// A token for one more browser.
pub(crate) async fn mint(store: &Store, label: &str) -> Result<String, Fault> {
    let token = fresh();
    let hash: [u8; 32] = Sha256::digest(&token).into();
    store
        .add_token(new_token(&AccountId::local(), hash, label))
        .await?;
    Ok(token)
}

/// Lets browsers in by a token: each gets one of its own, which may what the other may and ends with it.
pub(crate) struct BrowserTokens(pub(crate) Store);

impl BrowserTokens {
    async fn open(&self, token: &str) -> Result<String, Fault> {
        let hash: [u8; 32] = Sha256::digest(token).into();
        let known = self.0.token_by_hash(&hash).await?;
        let known =
            known.ok_or_else(|| Fault::new(Code::Unauthorized, Code::Unauthorized.advice()))?;
        // A browser's own token stands for the one that was typed, not for another browser's.
        let parent = known.parent.clone().unwrap_or_else(|| known.id.clone());
        let (label, scopes, browser) = (known.label.clone(), known.scopes, fresh());
        let hash: [u8; 32] = Sha256::digest(&browser).into();
        let new = NewToken {
            scopes,
            parent: Some(parent),
            made_by: known.clone().principal().actor(),
            ..new_token(&known.account, hash, &format!("browser of {label}"))
        };
        self.0.add_token(new).await?;
        Ok(browser)
    }

    async fn close(&self, principal: &Principal) -> Result<(), Fault> {
        let Who::Token(id) = &principal.who else {
            return Ok(());
        };
        let known = self.0.token(&principal.account, id).await?;
        if known.is_some_and(|token| token.parent.is_some()) {
            let now = Millis::now();
            self.0.revoke_token(&principal.account, id, now).await?;
        }
        Ok(())
    }
}

impl SignIn for BrowserTokens {
    fn open<'a>(&'a self, token: &'a str) -> Pending<'a, Result<String, Fault>> {
        Box::pin(self.open(token))
    }

    fn close<'a>(&'a self, principal: &'a Principal) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.close(principal))
    }
}

fn new_token(account: &AccountId, hash: [u8; 32], label: &str) -> NewToken {
    NewToken {
        id: TokenId::fresh(),
        account: account.clone(),
        hash,
        label: label.to_owned(),
        scopes: Scopes::FULL,
        made_by: Actor::server(),
        parent: None,
        at: Millis::now(),
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
