//! Questions: asked under a lease, listed, ended once.

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use threadline_contract::{
    Answer, Millis, Owner, QuestionId, QuestionKind, QuestionOption, QuestionState, RunStatus, Who,
};
use threadline_store::{Closed, Lease, QuestionEnd, StoreError, StoredQuestion, Whose};

use crate::world::{
    World, account, by, end_with, event, on_both, other, question_of, stream, thread, thread_named,
};

on_both![
    a_question_comes_back_whole,
    a_question_ends_once,
    racing_answers_leave_one,
    questions_are_listed_newest_first,
    withdrawing_ends_what_is_open,
    asking_is_fenced,
    a_driver_without_its_lease_ends_no_question,
    accounts_do_not_see_each_others_questions,
];

fn answered(text: &str, at: i64) -> QuestionEnd {
    QuestionEnd {
        state: QuestionState::Answered,
        answer: Some(Answer::Text(text.to_owned())),
        by: "a person".to_owned(),
        principal: by("ann").who,
        at: Millis(at),
    }
}

fn said(question: &StoredQuestion) -> &str {
    match &question.answer {
        Some(Answer::Text(text) | Answer::OptionId(text)) => text,
        None => "",
    }
}

async fn a_question_comes_back_whole(world: World) {
    let (run, lease) = world.leased().await;
    let question = StoredQuestion {
        kind: QuestionKind::Permission,
        text: "Run \0 `rm`?\n\"yes\" or 'no'".to_owned(),
        options: vec![QuestionOption {
            option_id: "allow".to_owned(),
            label: "Allow ✓".to_owned(),
            kind: Some("allow_once".to_owned()),
        }],
        free_text: false,
        ..question_of(&run)
    };
    let store = &world.store;
    store
        .ask(&account(), &question, &lease, vec![event("asked")])
        .await
        .unwrap();
    let found = store.question(&account(), &question.id).await;
    assert_eq!(found.unwrap(), question);
    assert_eq!(world.log(&stream()).await, [(1, "\"asked\"".to_owned())]);
    let again = store
        .ask(&account(), &question, &lease, vec![event("asked")])
        .await;
    assert!(matches!(again, Err(StoreError::Duplicate)), "{again:?}");
    assert_eq!(world.log(&stream()).await.len(), 1);
}

async fn a_question_ends_once(world: World) {
    let (run, lease) = world.leased().await;
    let (store, question) = (&world.store, question_of(&run));
    store
        .ask(&account(), &question, &lease, vec![])
        .await
        .unwrap();
    let open = QuestionEnd {
        state: QuestionState::Open,
        ..answered("?", 1)
    };
    let answer = store
        .close_question(&account(), &question.id, open, |_| vec![])
        .await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");

    let wanted = StoredQuestion {
        state: QuestionState::Answered,
        closed_at: Some(Millis(1600)),
        answer: Some(Answer::Text("blue".to_owned())),
        closed_by: Some("a person".to_owned()),
        closed_by_principal: Some(by("ann").who),
        ..question.clone()
    };
    let now = store
        .close_question(&account(), &question.id, answered("blue", 1600), |q| {
            vec![event(said(q))]
        })
        .await;
    assert_eq!(now.unwrap(), Closed::Now(wanted.clone()));
    let late = QuestionEnd {
        state: QuestionState::Declined,
        answer: None,
        ..answered("", 1700)
    };
    let before = store
        .close_question(&account(), &question.id, late, |_| vec![event("late")])
        .await;
    assert_eq!(before.unwrap(), Closed::Before(wanted.clone()));
    assert_eq!(
        store.question(&account(), &question.id).await.unwrap(),
        wanted
    );
    assert_eq!(world.log(&stream()).await, [(1, "\"blue\"".to_owned())]);
}

async fn racing_answers_leave_one(world: World) {
    let (run, lease) = world.leased().await;
    let question = question_of(&run);
    world
        .store
        .ask(&account(), &question, &lease, vec![])
        .await
        .unwrap();
    let tries = (0..32).map(|n| {
        let (store, id) = (world.store.clone(), question.id.clone());
        tokio::spawn(async move {
            let end = answered(&n.to_string(), n);
            store
                .close_question(&account(), &id, end, move |_| vec![event(&n.to_string())])
                .await
                .unwrap()
        })
    });
    let (mut now, mut before) = (vec![], vec![]);
    for answer in join_all(tries).await {
        match answer.unwrap() {
            Closed::Now(q) => now.push(q),
            Closed::Before(q) => before.push(q),
        }
    }
    assert_eq!((now.len(), before.len()), (1, 31));
    assert!(before.iter().all(|q| *q == now[0]));
    assert_eq!(
        world.log(&stream()).await,
        [(1, format!("{:?}", said(&now[0])))]
    );
}

async fn questions_are_listed_newest_first(world: World) {
    let store = &world.store;
    let mut asked = vec![];
    let build: Owner = "build:b1".parse().unwrap();
    let [one, two] = ["draft:1", "draft:2"].map(thread_named);
    for owner in [&one, &two, &one, &one, &build] {
        let run = world.run_of(owner).await;
        let (lease, question) = (world.take(&run.id).await, question_of(&run));
        store
            .ask(&account(), &question, &lease, vec![])
            .await
            .unwrap();
        asked.push(question);
    }
    let closed = store
        .close_question(&account(), &asked[2].id, answered("x", 1), |_| vec![])
        .await
        .unwrap();
    let Closed::Now(closed) = closed else {
        panic!()
    };
    asked[2] = closed;
    let of = |picked: &[usize]| picked.iter().map(|n| asked[*n].clone()).collect::<Vec<_>>();
    for (whose, include_closed, limit, wanted) in [
        (Whose::Everyone, false, 9, &[4, 3, 1, 0][..]),
        (Whose::Everyone, true, 9, &[4, 3, 2, 1, 0]),
        (Whose::Threads, false, 9, &[3, 1, 0]),
        (Whose::Threads, true, 9, &[3, 2, 1, 0]),
        (Whose::Threads, true, 2, &[3, 2]),
        (Whose::Of(&one), false, 9, &[3, 0]),
        (Whose::Of(&one), false, 1, &[3]),
        (Whose::Of(&one), true, 9, &[3, 2, 0]),
        (Whose::Of(&build), false, 9, &[4]),
    ] {
        let listed = store
            .questions(&account(), whose, include_closed, limit)
            .await;
        assert_eq!(listed.unwrap(), of(wanted));
    }
    let open = store.open_questions(&asked[0].run).await.unwrap();
    assert_eq!(open, of(&[0]));
    assert_eq!(store.open_questions(&asked[2].run).await.unwrap(), []);
}

async fn withdrawing_ends_what_is_open(world: World) {
    let (run, lease) = world.leased().await;
    let (bystander, bystander_lease) = world.leased().await;
    let store = &world.store;
    let [first, second, done] = [0, 1, 2].map(|_| question_of(&run));
    for question in [&first, &second, &done] {
        store
            .ask(&account(), question, &lease, vec![])
            .await
            .unwrap();
    }
    let theirs = question_of(&bystander);
    store
        .ask(&account(), &theirs, &bystander_lease, vec![])
        .await
        .unwrap();
    store
        .close_question(&account(), &done.id, answered("x", 1), |_| vec![])
        .await
        .unwrap();
    store
        .end_run(&lease, end_with(RunStatus::Failed), vec![])
        .await
        .unwrap();

    let wanted = [
        (first.id.clone(), QuestionState::Withdrawn),
        (second.id.clone(), QuestionState::Withdrawn),
        (done.id.clone(), QuestionState::Answered),
    ];
    let withdrawn = |q: StoredQuestion| StoredQuestion {
        state: QuestionState::Withdrawn,
        closed_at: Some(Millis(7)),
        closed_by: Some("the run ended".to_owned()),
        closed_by_principal: Some(Who::Server),
        ..q
    };
    let withdraw = || {
        let lease = lease.clone();
        store.transact(move |mut tx| {
            Box::pin(async move {
                let told = |q: &StoredQuestion| Ok(event(q.id.as_str()));
                tx.withdraw_questions(&lease, "the run ended", Millis(7), told)
                    .await
            })
        })
    };
    let mut gone = withdraw().await.unwrap();
    gone.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(gone, [withdrawn(first), withdrawn(second)]);
    assert_eq!(world.log(&stream()).await.len(), 2);
    assert_eq!(withdraw().await.unwrap(), []);
    assert_eq!(world.log(&stream()).await.len(), 2);
    let open = store
        .questions(&account(), Whose::Everyone, false, 9)
        .await
        .unwrap();
    assert_eq!(open, [theirs]);

    let all = store.questions_of_run(&run.id).await.unwrap();
    let ids: Vec<_> = all.into_iter().map(|q| (q.id, q.state)).collect();
    assert_eq!(ids, wanted);

    world.take(&run.id).await;
    let stale = withdraw().await;
    assert!(matches!(stale, Err(StoreError::Stale)), "{stale:?}");
}

async fn asking_is_fenced(world: World) {
    let (run, stale) = world.stale().await;
    let (elsewhere, other_lease) = world.leased().await;
    let store = &world.store;
    let question = question_of(&run);
    let answer = store
        .ask(&account(), &question, &stale, vec![event("no")])
        .await;
    assert!(matches!(answer, Err(StoreError::Stale)), "{answer:?}");
    let answer = store
        .ask(&account(), &question, &other_lease, vec![event("no")])
        .await;
    assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    assert_eq!(store.open_questions(&run.id).await.unwrap(), []);
    assert_eq!(store.open_questions(&elsewhere.id).await.unwrap(), []);
    assert_eq!(world.log(&stream()).await, []);
}

/// As a driver ends them: expired or withdrawn alone, and withdrawn with the end of their run. A person still answers.
async fn a_driver_without_its_lease_ends_no_question(world: World) {
    let (run, stale) = world.leased().await;
    let (store, question) = (&world.store, question_of(&run));
    store
        .ask(&account(), &question, &stale, vec![])
        .await
        .unwrap();
    let lease = world.take(&run.id).await;
    let expire = |lease: Lease| {
        let id = question.id.clone();
        store.transact(move |mut tx| {
            Box::pin(async move {
                tx.fence(&lease).await?;
                let end = QuestionEnd {
                    state: QuestionState::Expired,
                    answer: None,
                    ..answered("", 9)
                };
                tx.close_question(&account(), &id, end, |_| vec![event("expired")])
                    .await
                    .map(drop)
            })
        })
    };
    let end = |lease: Lease| {
        store.transact(move |mut tx| {
            Box::pin(async move {
                tx.lock_leased_run(&lease).await?;
                let told = |_: &StoredQuestion| Ok(event("withdrawn"));
                tx.withdraw_questions(&lease, "the run ended", Millis(9), told)
                    .await?;
                let end = end_with(RunStatus::Failed);
                tx.end_run(&lease, end, vec![event("ended")])
                    .await
                    .map(drop)
            })
        })
    };
    for refused in [expire(stale.clone()).await, end(stale).await] {
        assert!(matches!(refused, Err(StoreError::Stale)), "{refused:?}");
    }
    assert_eq!(
        store.open_questions(&run.id).await.unwrap(),
        std::slice::from_ref(&question)
    );
    assert_eq!(world.log(&stream()).await, []);
    assert_eq!(
        store.run_any(&run.id).await.unwrap().status,
        RunStatus::Running
    );

    let answer = answered("blue", 10);
    store
        .close_question(&account(), &question.id, answer, |_| vec![])
        .await
        .unwrap();
    end(lease).await.unwrap();
    assert_eq!(world.log(&stream()).await, [(1, "\"ended\"".to_owned())]);
}

async fn accounts_do_not_see_each_others_questions(world: World) {
    let (run, lease) = world.leased().await;
    let (store, question) = (&world.store, question_of(&run));
    store
        .ask(&account(), &question, &lease, vec![])
        .await
        .unwrap();
    let id = &question.id;
    let unknown = QuestionId::fresh();
    for (who, id) in [(other(), id), (account(), &unknown)] {
        let found = store.question(&who, id).await;
        assert!(matches!(found, Err(StoreError::NotFound)), "{found:?}");
        let closed = store
            .close_question(&who, id, answered("x", 1), |_| vec![event("no")])
            .await;
        assert!(matches!(closed, Err(StoreError::NotFound)), "{closed:?}");
    }
    assert_eq!(
        store
            .questions(&other(), Whose::Everyone, true, 9)
            .await
            .unwrap(),
        []
    );
    let here = thread();
    let theirs = store.questions(&other(), Whose::Of(&here), true, 9).await;
    assert_eq!(theirs.unwrap(), []);
    let still_open = store.question(&account(), id).await.unwrap();
    assert_eq!(still_open, question);
    assert_eq!(world.log(&stream()).await, []);
}
