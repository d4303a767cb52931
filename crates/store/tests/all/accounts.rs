//! Accounts, tokens and signing keys.

use pretty_assertions::assert_eq;
use threadline_contract::{AccountId, Millis, TokenId};
use threadline_store::{NewToken, SigningKey, StoreError, TokenRecord};

use crate::world::{World, account, on_both, other};

on_both![
    a_token_opens_its_account_until_revoked,
    a_token_is_of_one_account,
    accounts_do_not_see_each_others_tokens,
    keys_are_kept_after_they_retire,
];

fn token(id: &str, hash: u8) -> NewToken {
    NewToken {
        id: TokenId::new(id).unwrap(),
        account: account(),
        hash: [hash; 32],
        label: format!("token {id}"),
        at: Millis(100),
    }
}

async fn a_token_opens_its_account_until_revoked(world: World) {
    let store = &world.store;
    store.add_token(token("a", 1)).await.unwrap();
    store.add_token(token("b", 2)).await.unwrap();
    let record = |id: &str, revoked_at| TokenRecord {
        id: TokenId::new(id).unwrap(),
        account: account(),
        label: format!("token {id}"),
        created_at: Millis(100),
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
