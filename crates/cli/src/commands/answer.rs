//! `answer`: which question is meant, and what the answer is.

use std::io::{IsTerminal as _, Write as _};

use jiff::tz::TimeZone;
use threadline_app::api::{self, Asked, AskedQuestion, NoParams, ThreadParams, ThreadView};
use threadline_contract::{Code, Fault, Millis, Question, QuestionOption, method::AnswerParams};

use super::Context;
use crate::{
    args::Answer,
    client::Client,
    exit::Exit,
    screen::{tables, words},
};

pub(super) async fn answer(context: &Context, args: Answer) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let asked: Asked = client.call(api::QUESTIONS, NoParams {}).await?;
    let found = meant(
        &asked.questions,
        args.question.as_deref(),
        args.answer.as_deref(),
    );
    let unknown = matches!(&found, Err(fault) if fault.code == Code::QuestionNotFound);
    // One word, and one question: unless the word is the name of a thread that asks nothing.
    let by_word = args.answer.is_none()
        && match &found {
            Ok(Meant::One(_, Some(_))) => true,
            Err(fault) => fault.code == Code::QuestionOptionNotOffered,
            Ok(_) => false,
        };
    if let Some(target) = args.question.as_deref().filter(|_| unknown || by_word)
        && let Some(fault) = nothing_asked(&client, target, &asked.questions).await?
        && (unknown || fault.code == Code::QuestionNotFound)
    {
        return Err(fault);
    }
    let (question, text) = match found? {
        Meant::All => {
            context.print(&asked, || match asked.questions.is_empty() {
                true => "Nothing waits for an answer.\n".into(),
                false => tables::questions(
                    &asked.questions,
                    Millis::now(),
                    &TimeZone::system(),
                    context.out,
                ),
            });
            return Ok(Exit::Done);
        }
        Meant::One(question, text) => (question, text),
    };
    let text = match text {
        Some(text) => text.to_owned(),
        None => typed(context, question)?,
    };
    let closed: Question = client
        .call(api::ANSWER, chosen(&question.question, &text)?)
        .await?;
    context.print(&closed, || {
        let said = closed.answer_text().map(words::line).unwrap_or_default();
        match &question.thread_name {
            Some(name) => format!(
                "Answered: {said}\n  threadline watch {}\n",
                words::quoted(name)
            ),
            None => format!("Answered: {said}\n"),
        }
    });
    Ok(Exit::Done)
}

/// Why nothing can be answered there: the thread asks nothing, or there is none.
async fn nothing_asked(
    client: &Client,
    target: &str,
    open: &[AskedQuestion],
) -> Result<Option<Fault>, Fault> {
    let thread = target.to_owned();
    let found = client
        .call::<ThreadView>(api::SHOW, ThreadParams { thread })
        .await;
    match found {
        Ok(view) if view.thread.name == target || view.thread.thread_id.as_str() == target => {
            Ok(Some(Fault::new(
                Code::QuestionNotFound,
                format!(
                    "{target} asks nothing now. `threadline answer` lists the questions that wait."
                ),
            )))
        }
        Ok(_) => Ok(None),
        Err(fault) if fault.code == Code::ThreadNotFound => Ok(Some(no_such(target, open))),
        Err(fault) if fault.code == Code::ThreadAmbiguous => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Nothing has this name. It may be the answer itself, when it is not clear to what.
fn no_such(target: &str, open: &[AskedQuestion]) -> Fault {
    let target = words::line(target);
    let rest = match open {
        [] | [_] => "`threadline answer` lists the questions that wait.".to_owned(),
        several => {
            let lines = several.iter().map(|asked| {
                let name = words::quoted(name_of(asked));
                format!("\n  threadline answer {name} {}", words::quoted(&target))
            });
            let many = several.len();
            let lines: String = lines.collect();
            format!("If it is an answer, say to whom: {many} questions wait.{lines}")
        }
    };
    Fault::new(
        Code::ThreadNotFound,
        format!("There is no thread or question `{target}`. {rest}"),
    )
}

/// What `answer` was asked to do.
#[derive(Debug, PartialEq, Eq)]
enum Meant<'a> {
    /// To list the questions.
    All,
    /// To answer this one; to ask for the answer when there is none.
    One(&'a AskedQuestion, Option<&'a str>),
}

/// Finds the question: by its id, by its thread, or because only one waits. Then a word alone is one
/// of its options, if it has any: the mistyped name of a thread must not become an answer.
fn meant<'a>(
    open: &'a [AskedQuestion],
    target: Option<&'a str>,
    text: Option<&'a str>,
) -> Result<Meant<'a>, Fault> {
    let Some(target) = target else {
        return Ok(Meant::All);
    };
    let by_id = |q: &&AskedQuestion| q.question.question_id.as_str() == target;
    let by_key = |q: &&AskedQuestion| q.question.thread_id.as_str() == target;
    let by_name = |q: &&AskedQuestion| q.thread_name.as_deref() == Some(target);
    let by_beginning = |q: &&AskedQuestion| {
        q.thread_name
            .as_deref()
            .is_some_and(|n| !target.is_empty() && n.starts_with(target))
    };
    let exact: Vec<_> = open
        .iter()
        .filter(|q| by_id(q) || by_key(q) || by_name(q))
        .collect();
    let found = match exact.is_empty() {
        true => open.iter().filter(by_beginning).collect(),
        false => exact,
    };
    match (found.as_slice(), open, text) {
        ([one], _, text) => Ok(Meant::One(one, text)),
        ([], [only], None)
            if only.question.options.is_empty() || option(&only.question, target).is_some() =>
        {
            Ok(Meant::One(only, Some(target)))
        }
        ([], [only], None) => Err(neither(only, target)),
        ([], [], _) => Err(Fault::new(
            Code::QuestionNotFound,
            "Nothing waits for an answer. `threadline threads` shows what there is.",
        )),
        ([], ..) => Err(Fault::new(
            Code::QuestionNotFound,
            format!(
                "`{}` has no question that waits. `threadline answer` lists those that do.",
                words::line(target)
            ),
        )),
        (several, ..) => {
            let mut message = format!(
                "Several questions fit `{}`. Name one by its id:",
                words::line(target)
            );
            for one in several {
                message.push_str(&format!(
                    "\n  {}  {}",
                    one.question.question_id,
                    words::short(&one.question.text, 60)
                ));
            }
            Err(Fault::new(Code::ThreadAmbiguous, message))
        }
    }
}

fn neither(only: &AskedQuestion, target: &str) -> Fault {
    let name = words::quoted(name_of(only));
    let own = match only.question.free_text {
        true => format!(" In your own words: threadline answer {name} \"…\""),
        false => String::new(),
    };
    Fault::new(
        Code::QuestionOptionNotOffered,
        format!(
            "`{}` is neither a thread nor an option of {name}, which asks. The options are: {}.{own}",
            words::line(target),
            options(&only.question)
        ),
    )
}

/// How a question is named on the command line.
fn name_of(asked: &AskedQuestion) -> &str {
    let id = asked.question.question_id.as_str();
    asked.thread_name.as_deref().unwrap_or(id)
}

fn typed(context: &Context, asked: &AskedQuestion) -> Result<String, Fault> {
    let name = name_of(asked);
    if context.json || !std::io::stdin().is_terminal() || !context.err.person {
        let text = tables::ask(
            &asked.question,
            crate::screen::Terminal {
                color: false,
                ..context.err
            },
        );
        return Err(Fault::invalid(format!(
            "There is no answer: threadline answer {} \"…\"\n{}",
            words::quoted(name),
            text.trim_end()
        )));
    }
    let question = tables::ask(&asked.question, context.err);
    let asking = format!("{question}{}", context.err.bold("  › "));
    // Whoever cannot see it cannot answer either, and then nothing is read.
    let _ = std::io::stderr().write_all(asking.as_bytes());
    let mut line = String::new();
    let read = std::io::stdin()
        .read_line(&mut line)
        .map_err(|e| Fault::invalid(format!("Nothing could be read: {e}.")))?;
    match (read, line.trim()) {
        (0, _) | (_, "") => Err(Fault::invalid(
            "There is no answer, so the question still waits.",
        )),
        (_, text) => Ok(text.to_owned()),
    }
}

/// What somebody typed, as an answer: an option's number, its label, or own words. A number is never
/// own words where there are options: it would be taken for one by whoever reads it.
pub(super) fn chosen(question: &Question, typed: &str) -> Result<AnswerParams, Fault> {
    let typed = typed.trim();
    let number = typed.parse::<usize>().ok();
    let answer = |option_id, text| AnswerParams {
        question_id: question.question_id.clone(),
        option_id,
        text,
    };
    let own_words = question.options.is_empty() || (question.free_text && number.is_none());
    match option(question, typed) {
        Some(option) => Ok(answer(Some(option.option_id.clone()), None)),
        None if own_words => Ok(answer(None, Some(typed.to_owned()))),
        None => Err(Fault::new(
            Code::QuestionOptionNotOffered,
            format!(
                "`{}` is not offered. The options are: {}.",
                words::line(typed),
                options(question)
            ),
        )),
    }
}

/// The option that was typed: by its number, its id or its label.
fn option<'a>(question: &'a Question, typed: &str) -> Option<&'a QuestionOption> {
    let typed = typed.trim();
    let number = typed.parse::<usize>().ok();
    let counted = number.and_then(|n| question.options.get(n.checked_sub(1)?));
    let mut all = question.options.iter();
    counted.or_else(|| {
        all.find(|o| o.option_id == typed || o.label.trim().eq_ignore_ascii_case(typed))
    })
}

fn options(question: &Question) -> String {
    let options = question.options.iter().enumerate();
    let options: Vec<String> = options
        .map(|(at, o)| format!("{} {}", at + 1, words::line(&o.label)))
        .collect();
    options.join(", ")
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
