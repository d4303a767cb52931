//! Accounts, tokens and signing keys.

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use threadline_contract::{AccountId, Millis, RuntimeId, Scope, Scopes, SessionKey, TokenId};
use threadline_store::{
    NewSession, NewToken, NodeClaim, NodeRecord, SigningKey, StoreError, TokenRecord,
};

use crate::world::{World, account, by, on_both, other, thread};

on_both![
    a_token_opens_its_account_until_revoked,
    a_token_is_of_one_account,
    a_token_that_stands_for_another_ends_with_it,
    accounts_do_not_see_each_others_tokens,
    keys_are_kept_after_they_retire,
    servers_that_start_at_once_agree_on_token_and_key,
    a_session_has_one_node_and_moves_as_one,
    nodes_say_where_they_are,
];

fn token(id: &str, hash: u8) -> NewToken {
    NewToken {
        id: TokenId::new(id).unwrap(),
        account: account(),
        hash: [hash; 32],
        label: format!("token {id}"),
        scopes: Scopes::NONE.with(Scope::Read),
        made_by: by("ann"),
        parent: None,
        at: Millis(100),
    }
}

async fn a_token_that_stands_for_another_ends_with_it(world: World) {
    let store = &world.store;
    let child = NewToken {
        parent: Some(TokenId::new("a").unwrap()),
        ..token("b", 2)
    };
    store.add_token(token("a", 1)).await.unwrap();
    store.add_token(child).await.unwrap();
    let (a, b) = (TokenId::new("a").unwrap(), TokenId::new("b").unwrap());
    let found = store.token_by_hash(&[2; 32]).await.unwrap();
    assert_eq!(
        found.map(|t| (t.id, t.parent)),
        Some((b.clone(), Some(a.clone())))
    );
    store.revoke_token(&account(), &a, Millis(1)).await.unwrap();
    assert_eq!(store.token_by_hash(&[2; 32]).await.unwrap(), None);
    assert_eq!(store.token(&account(), &b).await.unwrap(), None);
}

async fn a_token_opens_its_account_until_revoked(world: World) {
    let store = &world.store;
    store.add_token(token("a", 1)).await.unwrap();
    store.add_token(token("b", 2)).await.unwrap();
    let record = |id: &str, revoked_at| TokenRecord {
        id: TokenId::new(id).unwrap(),
        account: account(),
        label: format!("token {id}"),
        scopes: Scopes::NONE.with(Scope::Read),
        created_at: Millis(100),
        made_by: Some(by("ann")),
        parent: None,
        revoked_at,
    };
    let found = store.token_by_hash(&[1; 32]).await.unwrap();
    assert_eq!(found, Some(record("a", None)));
    assert_eq!(store.token_by_hash(&[3; 32]).await.unwrap(), None);

    let a = TokenId::new("a").unwrap();
    for at in [200, 300] {
        store
            .revoke_token(&account(), &a, Millis(at))
            .await
            .unwrap();
    }
    assert_eq!(store.token_by_hash(&[1; 32]).await.unwrap(), None);
    assert_eq!(
        store.tokens(&account()).await.unwrap(),
        [record("a", Some(Millis(200))), record("b", None)]
    );
}

async fn a_token_is_of_one_account(world: World) {
    let store = &world.store;
    store.add_token(token("a", 1)).await.unwrap();
    for again in [
        token("a", 2),
        token("b", 1),
        NewToken {
            account: other(),
            ..token("c", 1)
        },
    ] {
        let answer = store.add_token(again).await;
        assert!(matches!(answer, Err(StoreError::Duplicate)), "{answer:?}");
    }
    let nobody = NewToken {
        account: AccountId::new("nobody").unwrap(),
        ..token("d", 4)
    };
    let answer = store.add_token(nobody).await;
    assert!(matches!(answer, Err(StoreError::NotFound)), "{answer:?}");
    // An account that exists is left as it is.
    store.ensure_account(&account(), Millis(999)).await.unwrap();
    assert_eq!(store.tokens(&account()).await.unwrap().len(), 1);
}

async fn accounts_do_not_see_each_others_tokens(world: World) {
    let store = &world.store;
    store.add_token(token("a", 1)).await.unwrap();
    assert_eq!(store.tokens(&other()).await.unwrap(), []);
    let a = TokenId::new("a").unwrap();
    let answer = store.revoke_token(&other(), &a, Millis(1)).await;
    assert!(matches!(answer, Err(StoreError::NotFound)), "{answer:?}");
    assert!(store.token_by_hash(&[1; 32]).await.unwrap().is_some());
}

async fn keys_are_kept_after_they_retire(world: World) {
    let store = &world.store;
    let key = |kid: &str, at, retired_at| SigningKey {
        kid: kid.to_owned(),
        secret: vec![0, 1, 255],
        created_at: Millis(at),
        retired_at,
    };
    for (kid, at) in [("k1", 10), ("k2", 20)] {
        store
            .add_signing_key(kid, &[0, 1, 255], Millis(at))
            .await
            .unwrap();
    }
    let again = store.add_signing_key("k1", &[9], Millis(30)).await;
    assert!(matches!(again, Err(StoreError::Duplicate)), "{again:?}");
    for at in [40, 50] {
        store.retire_signing_key("k1", Millis(at)).await.unwrap();
    }
    let unknown = store.retire_signing_key("k9", Millis(1)).await;
    assert!(matches!(unknown, Err(StoreError::NotFound)), "{unknown:?}");
    let keys = store.signing_keys().await.unwrap();
    assert_eq!(keys, [key("k2", 20, None), key("k1", 10, Some(Millis(40)))]);
    assert!(!format!("{keys:?}").contains("255"));
}

async fn servers_that_start_at_once_agree_on_token_and_key(world: World) {
    let start = async |n: u8| {
        let record = world
            .store
            .admit_token(token(&format!("t{n}"), 7))
            .await
            .unwrap();
        let fresh = SigningKey {
            kid: format!("k{n}"),
            secret: vec![n; 32],
            created_at: Millis(1000),
            retired_at: None,
        };
        let keys = world.store.signing_keys_with(fresh, Millis(500)).await;
        (record, keys.unwrap())
    };
    let all = join_all((0..16).map(start)).await;
    let first = &all[0];
    assert_eq!(first.1.len(), 1);
    assert!(all.iter().all(|one| one == first), "{all:#?}");
    assert_eq!(world.store.tokens(&account()).await.unwrap().len(), 1);

    // A key that is too old signs no more, and one new key takes its place.
    let later = async |n: u8| {
        let fresh = SigningKey {
            kid: format!("later{n}"),
            secret: vec![n; 32],
            created_at: Millis(9000),
            retired_at: None,
        };
        let keys = world.store.signing_keys_with(fresh, Millis(5000));
        keys.await.unwrap()
    };
    let all = join_all((0..16).map(later)).await;
    let told: Vec<Option<Millis>> = all[0].iter().map(|key| key.retired_at).collect();
    assert_eq!(told, [None, Some(Millis(9000))]);
    assert!(all.iter().all(|keys| *keys == all[0]), "{all:#?}");
}

async fn a_session_has_one_node_and_moves_as_one(world: World) {
    let store = &world.store;
    let at = |node: Option<&str>| NewSession {
        account: account(),
        owner: thread(),
        runtime: RuntimeId::Builtin,
        version: 1,
        session_key: SessionKey::new("builtin:main:draft:1").unwrap(),
        expected_dirs: vec![],
        working_directory: None,
        node: node.map(str::to_owned),
        at: Millis(1),
    };
    let session = store.bind_session(at(None)).await.unwrap().session();
    let listed = store.sessions_without_node(&RuntimeId::Builtin, 0, 10);
    let listed = listed.await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].1, session);
    let mut moved = vec![];
    for (from, to) in [(None, "a"), (None, "b"), (Some("a"), "b"), (Some("a"), "c")] {
        moved.push(
            store
                .move_session(&session.session_key, from, to)
                .await
                .unwrap(),
        );
    }
    assert_eq!(moved, [true, false, true, false]);
    let there = store.bind_session(at(Some("z"))).await.unwrap().session();
    assert_eq!(there.node.as_deref(), Some("b"));
    let none = store.sessions_without_node(&RuntimeId::Builtin, 0, 10);
    assert_eq!(none.await.unwrap(), []);
    store.leave_owner(&account(), &thread(), "a").await.unwrap();
    let kept = store.sessions_of_owner(&account(), &thread()).await;
    assert_eq!(kept.unwrap().len(), 1);
    store.leave_owner(&account(), &thread(), "b").await.unwrap();
    let kept = store.sessions_of_owner(&account(), &thread()).await;
    assert_eq!(kept.unwrap(), []);
}

async fn nodes_say_where_they_are(world: World) {
    let store = &world.store;
    assert_eq!(store.node("a").await.unwrap(), None);
    let claim = |incarnation: &str, before: Option<&str>, at: i64| NodeClaim {
        node: "a".to_owned(),
        url: None,
        incarnation: incarnation.to_owned(),
        before: before.map(str::to_owned),
        away_since: Millis(at - 60),
        at: Millis(at),
    };
    let mut claimed = vec![];
    for (incarnation, before, at) in [
        ("1", None, 100),
        // Another folder of that name, and a copy that was taken before.
        ("2", None, 101),
        ("2", Some("0"), 160),
        // The same folder, killed and started again.
        ("3", Some("1"), 102),
        ("2", Some("1"), 103),
        // Nobody was there for long.
        ("2", None, 163),
    ] {
        let claim = claim(incarnation, before, at);
        claimed.push(store.claim_node(claim).await.unwrap());
    }
    assert_eq!(claimed, [true, false, false, true, false, true]);
    let replaced = store.note_node("a", "3", None, Millis(164)).await;
    assert!(!replaced.unwrap());
    store.release_node("a", "3").await.unwrap();
    assert!(!store.claim_node(claim("4", None, 165)).await.unwrap());
    store.release_node("a", "2").await.unwrap();
    assert!(store.claim_node(claim("4", None, 165)).await.unwrap());
    for (url, at) in [
        (Some("http://10.0.0.1:1"), 1),
        (None, 2),
        (Some("http://b"), 3),
    ] {
        let noted = store.note_node("a", "4", url, Millis(at)).await;
        assert!(noted.unwrap());
        let known = NodeRecord {
            node: "a".to_owned(),
            url: url.map(str::to_owned),
            seen_at: Millis(at),
        };
        assert_eq!(store.node("a").await.unwrap(), Some(known));
    }
}
