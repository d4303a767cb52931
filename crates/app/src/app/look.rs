//! Looking: lists, one thread, the first page, questions, runtimes.

use std::{collections::BTreeSet, sync::Arc};

use threadline_contract::{
    Answer, AppThreadKey, Code, Fault, Millis, Question, QuestionState, ResultCode, RuntimeId,
    method::{self, AnswerParams},
    thread::{Lifecycle, Role},
};

use super::{App, Core};
use crate::{
    api::{
        Home, List, ListParams, Problems, QuestionsElsewhere, RuntimeView, Runtimes, Summary,
        ThreadView, Totals,
    },
    bridge::{lenient, strange},
    endpoints::LOCAL,
    fault::internal,
    records::{Index, cursor_of, lock},
    sync::earlier,
    workspace,
};

const PAGE: usize = 50;
const MOST: usize = 500;
/// What a list costs at most: threads whose files are looked at, files, and bytes that are read again.
const GLANCES: usize = 100;
const LOOKED_AT: u32 = 2_000;
const READ: u64 = 16 << 20;
/// Rows of each part of the first page.
const HOME: usize = 20;

impl App {
    /// The threads, last changed first.
    pub async fn list(&self, params: &ListParams) -> Result<List, Fault> {
        let limit = params.limit.unwrap_or(PAGE).clamp(1, MOST);
        let core = &self.core;
        let words = words(params.text.as_deref().unwrap_or_default());
        let most = if words.is_empty() {
            limit + 1
        } else {
            usize::MAX
        };
        let mut found: Vec<Summary> = core.records.index(|index| {
            let recent = index.recent(params.archived, params.before.as_deref())?;
            Ok::<_, Fault>(recent.take(most).cloned().collect())
        })?;
        if !words.is_empty() {
            found = core.search(found, &words, limit + 1).await;
        }
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(cursor_of);
        found.iter_mut().for_each(|s| core.with_live(s));
        core.glance(&mut found).await?;
        Ok(List {
            threads: found,
            next,
            problems: core.records.index(|index| index.problems.clone()),
        })
    }

    /// One thread with all of its state.
    pub async fn show(&self, thread: &str) -> Result<ThreadView, Fault> {
        let key = self.core.find(thread)?;
        let mut view = self.core.view(&key).await?;
        let record = view.thread.clone();
        let verified = self.core.verified.clone();
        let look = move || earlier::runs(&record, &verified);
        view.earlier = self.core.blocking(look).await?;
        Ok(view)
    }

    /// The key of a thread: from its name, an unambiguous beginning of it, or the key itself.
    pub fn find(&self, thread: &str) -> Result<AppThreadKey, Fault> {
        self.core.find(thread)
    }

    /// What is wrong with the stored threads.
    pub fn problems(&self) -> Problems {
        Problems {
            problems: self.core.records.index(|index| index.problems.clone()),
        }
    }

    /// The first page, but for the questions: those are with the bridges.
    pub async fn home(&self) -> Result<Home, Fault> {
        let core = &self.core;
        let today = midnight()?;
        let mut home = core.records.index(|index| {
            let pick = |wanted: &dyn Fn(&Summary) -> bool| -> Result<(Vec<Summary>, usize), Fault> {
                let mut all = index.recent(false, None)?.filter(|s| wanted(s));
                let mut found: Vec<Summary> = all.by_ref().take(HOME).cloned().collect();
                found.iter_mut().for_each(|s| core.with_live(s));
                let total = found.len() + all.count();
                Ok((found, total))
            };
            let done = |s: &Summary| {
                s.lifecycle_status == Lifecycle::Ready
                    && s.last_result_code == Some(ResultCode::Success)
                    && s.last_run_at_ms.is_some_and(|at| at >= today)
            };
            let files_today = index
                .recent(false, None)?
                .filter(|s| done(s))
                .map(|s| s.files)
                .sum();
            let ((failed, all_failed), (working, all_working), (done_today, all_done)) =
                (pick(&failed)?, pick(&working)?, pick(&done)?);
            Ok::<_, Fault>(Home {
                questions: Vec::new(),
                failed,
                working,
                done_today,
                files_today,
                totals: Totals {
                    failed: all_failed,
                    working: all_working,
                    done_today: all_done,
                },
                unreachable: Vec::new(),
                problems: index.problems.clone(),
            })
        })?;
        core.glance(&mut home.done_today).await?;
        Ok(home)
    }

    /// The questions that wait on the other bridges that are in use.
    pub async fn questions_elsewhere(&self) -> QuestionsElsewhere {
        self.core.questions_elsewhere().await
    }

    /// Answers a question of another bridge.
    pub async fn answer_elsewhere(&self, params: AnswerParams) -> Result<Question, Fault> {
        let unknown = Fault::new(Code::QuestionNotFound, Code::QuestionNotFound.advice());
        let mut failed = unknown;
        for endpoint in self.core.other_endpoints_in_use() {
            let bridge = self.core.endpoints.bridge(&endpoint)?;
            let asked = bridge.call_value(method::QUESTIONS_ANSWER, &params);
            match asked.await.map_err(Fault::from) {
                Ok(answered) => {
                    let open = self.core.open_question(&params.question_id);
                    let question = answered_question(&answered, open, &params);
                    let question = question.ok_or_else(|| {
                        Fault::from(strange(
                            "an answer that was taken, of a question that is not known",
                        ))
                    })?;
                    self.core.live_answered(&question);
                    return Ok(question);
                }
                // Another bridge may know it; a real refusal says more than "not here".
                Err(fault) if failed.code == Code::QuestionNotFound => failed = fault,
                Err(_) => {}
            }
        }
        Err(failed)
    }

    /// Where turns can run.
    pub async fn runtimes(&self) -> Result<Runtimes, Fault> {
        let found = self.core.capabilities(LOCAL).await?;
        let probe = |id: &str| {
            found
                .provider_probe_summary
                .iter()
                .find(|p| p.provider_id == id)
        };
        let providers = found
            .provider_catalog
            .iter()
            .chain(&found.gateway_providers);
        let runtimes = providers.map(|p| {
            let state = probe(&p.provider_id);
            RuntimeView {
                runtime: RuntimeId::of_provider(&p.provider_id),
                label: p.label.clone(),
                available: state.is_some_and(|s| s.available),
                // Other bridges say it all in one.
                status: state.map_or(String::new(), |s| match s.about.is_empty() {
                    true => s.status.clone(),
                    false => s.about.clone(),
                }),
                max_active: p.max_active,
                max_queued: p.max_queued,
            }
        });
        Ok(Runtimes {
            runtimes: runtimes.collect(),
            version: found.version.clone(),
        })
    }
}

impl Core {
    pub(crate) fn find(&self, text: &str) -> Result<AppThreadKey, Fault> {
        self.records.index(|index| index.find(text))
    }

    /// The first of these threads in which each of the words occurs. What a list shows is looked at
    /// first; only where that is not enough, the record is read.
    async fn search(&self, all: Vec<Summary>, words: &[String], most: usize) -> Vec<Summary> {
        let mut found = Vec::new();
        for summary in all {
            if found.len() >= most {
                break;
            }
            let mut text = format!("{} {}", summary.name, summary.title).to_lowercase();
            if !contains(&text, words) {
                // One that cannot be read is a problem that the list names.
                let Ok(record) = self.records.read(&summary.thread_id).await else {
                    continue;
                };
                let messages = record.context_state.messages.iter();
                for asked in messages.filter(|m| m.role == Role::User) {
                    text.push('\n');
                    text.push_str(&asked.text.to_lowercase());
                }
                if !contains(&text, words) {
                    continue;
                }
            }
            found.push(summary);
        }
        found
    }

    /// Says of each thread how its files are now, for as many as a list may cost; of the rest nothing is
    /// said, and [`App::show`] tells it.
    async fn glance(&self, threads: &mut [Summary]) -> Result<(), Fault> {
        let (mut files, mut bytes) = (LOOKED_AT, READ);
        let over = |s: &&mut Summary| {
            s.files > 0 && matches!(s.lifecycle_status, Lifecycle::Ready | Lifecycle::Archived)
        };
        for summary in threads.iter_mut().filter(over).take(GLANCES) {
            if summary.files > files {
                continue;
            }
            files -= summary.files;
            // One that cannot be read is a problem that the list names.
            let Ok(record) = self.records.read(&summary.thread_id).await else {
                continue;
            };
            let folder = workspace::path_of(&self.config.workspaces, &record);
            let (verified, key) = (self.verified.clone(), summary.thread_id.clone());
            let glance = move || {
                let files = &record.context_state.last_artifacts;
                let now = verified.glance(&folder, &key, files, &mut bytes);
                (now, bytes)
            };
            (summary.files_now, bytes) = self.blocking(glance).await?;
        }
        Ok(())
    }

    /// A thread's record with what is known of it beside.
    pub(crate) async fn view(&self, key: &AppThreadKey) -> Result<ThreadView, Fault> {
        let mut thread = self.records.read(key).await?;
        // Where its files lie now: a folder that we made moves with the home it lies in.
        let folder = workspace::path_of(&self.config.workspaces, &thread);
        thread.workspace_binding.workspace_path = folder.display().to_string();
        if !thread.context_state.last_artifacts.is_empty() {
            let (verified, key) = (self.verified.clone(), key.clone());
            let mut files = std::mem::take(&mut thread.context_state.last_artifacts);
            let association = thread.context_state.task_association.as_ref();
            let run = association.and_then(|a| a.run_id.clone());
            let mark = move || {
                verified.mark(&folder, &key, run.as_ref(), &mut files);
                files
            };
            thread.context_state.last_artifacts = self.blocking(mark).await?;
        }
        let live = lock(&self.live).get(key).cloned().unwrap_or_default();
        let place = lock(&self.lanes).place(key);
        let running = thread.lifecycle_state.status == Lifecycle::Running;
        Ok(ThreadView {
            thread,
            questions: live.questions,
            progress: live.progress.filter(|_| running),
            queue: live
                .queue
                .filter(|_| running)
                .or(place.filter(|_| !running)),
            away: live.away.filter(|_| running),
            notice: None,
            earlier: Vec::new(),
        })
    }

    /// A thread's line in a list.
    pub(crate) fn summary(&self, index: &Index, key: &AppThreadKey) -> Option<Summary> {
        let mut summary = index.get(key)?.summary.clone();
        self.with_live(&mut summary);
        Some(summary)
    }

    fn with_live(&self, summary: &mut Summary) {
        let live = lock(&self.live);
        let Some(live) = live.get(&summary.thread_id) else {
            summary.open_questions = 0;
            return;
        };
        summary.open_questions = u32::try_from(live.questions.len()).unwrap_or(u32::MAX);
        let running = summary.lifecycle_status == Lifecycle::Running;
        summary.queue = live.queue.filter(|_| running);
        summary.away |= live.away.is_some() && summary.lifecycle_status == Lifecycle::Running;
    }

    /// The bridges with work of ours, other than this machine's own.
    fn other_endpoints_in_use(&self) -> BTreeSet<String> {
        self.records.index(|index| {
            let busy = index.entries().filter(|e| working(&e.summary));
            let others = busy.filter(|e| e.endpoint != LOCAL);
            others.map(|e| e.endpoint.clone()).collect()
        })
    }

    async fn questions_elsewhere(self: &Arc<Self>) -> QuestionsElsewhere {
        let mut elsewhere = QuestionsElsewhere::default();
        for endpoint in self.other_endpoints_in_use() {
            let asked = async {
                let bridge = self.endpoints.bridge(&endpoint)?;
                let params = method::QuestionsParams::default();
                let found = bridge.call_value(method::QUESTIONS_LIST, &params).await?;
                Ok::<_, Fault>(lenient::questions(&found))
            };
            match asked.await {
                Ok(found) => elsewhere.questions.extend(found),
                Err(fault) => elsewhere.unreachable.push(fault.message),
            }
        }
        elsewhere
    }
}

/// The question as it stands after an answer that was taken: as the bridge tells it, or else the one that
/// was open, with what was answered.
fn answered_question(
    told: &serde_json::Value,
    open: Option<Question>,
    params: &AnswerParams,
) -> Option<Question> {
    let told = lenient::question_of(told, QuestionState::Answered);
    let answer = match (&params.option_id, &params.text) {
        (Some(option), _) => Some(Answer::OptionId(option.clone())),
        (None, Some(text)) => Some(Answer::Text(text.clone())),
        (None, None) => None,
    };
    told.or_else(|| {
        Some(Question {
            state: QuestionState::Answered,
            closed_at: Some(Millis::now()),
            answer,
            ..open?
        })
    })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_lowercase).collect()
}

fn contains(text: &str, words: &[String]) -> bool {
    words.iter().all(|word| text.contains(word.as_str()))
}

fn working(summary: &Summary) -> bool {
    matches!(
        summary.lifecycle_status,
        Lifecycle::Running | Lifecycle::Queued
    )
}

fn failed(summary: &Summary) -> bool {
    let code = summary.last_result_code;
    summary.lifecycle_status == Lifecycle::Ready
        && code.is_some_and(|c| c != ResultCode::Success && !c.is_cancelled())
}

/// When today began, where the user is.
fn midnight() -> Result<Millis, Fault> {
    let start = jiff::Zoned::now().start_of_day().map_err(internal)?;
    Ok(Millis(start.timestamp().as_millisecond()))
}
