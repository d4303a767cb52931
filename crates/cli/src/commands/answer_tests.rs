use pretty_assertions::assert_eq;
use threadline_contract::{AppThreadKey, QuestionId};

use super::*;
use crate::screen::fixtures::question;

fn asked(id: &str, name: &str) -> AskedQuestion {
    let mut question = question(id);
    question.thread_id = AppThreadKey::new(format!("draft:{name}")).unwrap();
    AskedQuestion {
        question,
        thread_name: Some(name.into()),
        thread_title: None,
    }
}

#[test]
fn a_question_is_found_by_id_thread_or_because_it_is_the_only_one() {
    let open = [
        asked("q-1", "river-report"),
        asked("q-2", "river-plan"),
        asked("q-3", "tea"),
    ];
    let one = |at: usize, text| Ok(Meant::One(&open[at], text));
    let code = |found: Result<Meant<'_>, Fault>| found.map(|_| ()).map_err(|f| f.code);
    assert_eq!(meant(&open, None, None), Ok(Meant::All));
    assert_eq!(meant(&open, Some("q-2"), Some("x")), one(1, Some("x")));
    assert_eq!(meant(&open, Some("river-report"), None), one(0, None));
    assert_eq!(meant(&open, Some("draft:tea"), None), one(2, None));
    assert_eq!(meant(&open, Some("te"), Some("2")), one(2, Some("2")));
    assert_eq!(
        code(meant(&open, Some("river"), None)),
        Err(Code::ThreadAmbiguous)
    );
    assert_eq!(
        code(meant(&open, Some("moon"), None)),
        Err(Code::QuestionNotFound)
    );
    assert_eq!(
        code(meant(&open, Some(""), None)),
        Err(Code::QuestionNotFound)
    );
    for word in ["2", "Blue", "b"] {
        assert_eq!(meant(&open[..1], Some(word), None), one(0, Some(word)));
    }
    let mut free = asked("q-1", "river-report");
    free.question.options.clear();
    assert_eq!(
        meant(std::slice::from_ref(&free), Some("in blue"), None),
        Ok(Meant::One(&free, Some("in blue")))
    );
    assert_eq!(
        code(meant(&open[..1], Some("moon"), Some("in blue"))),
        Err(Code::QuestionNotFound)
    );
    assert_eq!(
        code(meant(&[], Some("2"), None)),
        Err(Code::QuestionNotFound)
    );
}

#[test]
fn while_several_wait_an_answer_needs_its_thread() {
    let open = [asked("q-1", "river-report"), asked("q-2", "tea")];
    assert_eq!(
        no_such("1", &open).message,
        "There is no thread or question `1`. If it is an answer, say to whom: 2 questions wait.\n  \
         threadline answer river-report 1\n  threadline answer tea 1"
    );
    assert_eq!(
        no_such("1", &[]).message,
        "There is no thread or question `1`. `threadline answer` lists the questions that wait."
    );
}

#[test]
fn a_word_alone_that_is_neither_an_option_nor_a_thread_is_no_answer() {
    let mut open = [asked("q-1", "sand-station")];
    for word in ["sand-stationx", "in blue", "3"] {
        let refused = meant(&open, Some(word), None).unwrap_err();
        let said = format!(
            "`{word}` is neither a thread nor an option of sand-station, which asks. The options are: 1 Red, 2 Blue. In your own words: threadline answer sand-station \"…\""
        );
        assert_eq!(
            (refused.code, refused.message),
            (Code::QuestionOptionNotOffered, said)
        );
    }
    open[0].question.free_text = false;
    assert_eq!(
        meant(&open, Some("green"), None).unwrap_err().message,
        "`green` is neither a thread nor an option of sand-station, which asks. The options are: 1 Red, 2 Blue."
    );
}

#[test]
fn an_answer_is_a_number_an_option_or_own_words() {
    let mut question = question("q-1");
    let params = |option: Option<&str>, text: Option<&str>| AnswerParams {
        question_id: QuestionId::new("q-1").unwrap(),
        option_id: option.map(str::to_owned),
        text: text.map(str::to_owned),
    };
    assert_eq!(chosen(&question, " 2 "), Ok(params(Some("b"), None)));
    assert_eq!(chosen(&question, "red"), Ok(params(Some("r"), None)));
    assert_eq!(chosen(&question, "b"), Ok(params(Some("b"), None)));
    assert_eq!(
        chosen(&question, "3 pieces"),
        Ok(params(None, Some("3 pieces")))
    );
    assert_eq!(chosen(&question, "green"), Ok(params(None, Some("green"))));
    assert_eq!(
        chosen(&question, "3").unwrap_err().code,
        Code::QuestionOptionNotOffered,
        "a number is an option's, also where own words are taken"
    );
    question.free_text = false;
    let refused = chosen(&question, "3").unwrap_err();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (
            Code::QuestionOptionNotOffered,
            "`3` is not offered. The options are: 1 Red, 2 Blue."
        )
    );
    assert_eq!(
        chosen(&question, "0").unwrap_err().code,
        Code::QuestionOptionNotOffered
    );
    question.options.clear();
    assert_eq!(chosen(&question, "3"), Ok(params(None, Some("3"))));
}
