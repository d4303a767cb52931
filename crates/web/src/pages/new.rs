//! `/new`: give an agent something to do.

use axum::{Extension, extract::State};
use maud::{Markup, html};
use threadline_app::api::{self, NoParams, RuntimeView, Runtimes};
use threadline_contract::{Fault, Principal};

use super::{Frame, Here, attach, needs, no_model, permit};
use crate::{Web, local::call, words};

pub(crate) async fn handle(State(web): State<Web>, Extension(by): Extension<Principal>) -> Markup {
    let runtimes: Result<Runtimes, Fault> = call(&*web.app, api::RUNTIMES, NoParams {}).await;
    let frame = Frame {
        title: "New task",
        here: Here::New,
        needs: needs(&web, &by).await,
        viewer: web.viewer(&by),
        events: None,
    };
    frame.around(&page(&runtimes))
}

fn page(runtimes: &Result<Runtimes, Fault>) -> Markup {
    html! {
        main.page.narrow #main {
            header { h1 { "New task" } }
            @if let Ok(found) = runtimes { (no_model(found)) }
            form.task method="post" action="/do" data-rpc=(api::SEND) data-send data-draft="new" {
                input type="hidden" name="method" value=(api::SEND);
                input type="hidden" name="back" value="/new";
                div.card.write {
                    textarea name="prompt" rows="5" required autofocus data-write aria-label="What should be done?"
                        placeholder="What should be done? Say what you want to have in the end." {}
                    div.chips data-chips data-own {}
                    div.bar {
                        (attach())
                        span.hint.muted.small { kbd { "Ctrl" } " " kbd { "Enter" } " starts" }
                        button.button.primary type="submit" { "Start" }
                    }
                }
                p.error role="alert" data-own hidden {}
                (choice(runtimes))
                details.more {
                    summary { "More" }
                    label.field { span { "Files that must come back" }
                        textarea name="expect" rows="2" placeholder="reports/*.pdf" spellcheck="false" {}
                        small.muted { "One per line. A run that does not deliver them counts as failed." } }
                    label.field { span { "Work in a folder of mine" }
                        input type="text" name="workingDirectory" placeholder="/home/me/project"
                            spellcheck="false" autocomplete="off";
                        small.muted { "Left empty, the agent gets a folder of its own." } }
                    (permit::fields(None))
                }
            }
        }
    }
}

fn choice(runtimes: &Result<Runtimes, Fault>) -> Markup {
    match runtimes {
        Err(fault) => html! {
            p.note {
                b { "Where it can run is not known now. " }
                (words::ticked(&fault.message)) " You can start it all the same: it is tried for a while."
            }
        },
        // There is nothing to choose.
        Ok(found) if found.runtimes.len() < 2 => html! {
            @for only in found.runtimes.iter().filter(|r| !r.available) {
                p.note { b { (only.label) " is not available. " } (words::ticked(&only.status)) }
            }
        },
        Ok(found) => html! {
            fieldset.runtimes {
                legend { "Who does it" }
                (radio("", "Choose for me", "Takes the agent that is set up as the usual one.", true, true))
                @for runtime in &found.runtimes { (offer(runtime)) }
            }
        },
    }
}

fn offer(runtime: &RuntimeView) -> Markup {
    let id = runtime.runtime.to_string();
    radio(
        &id,
        &runtime.label,
        &runtime.status,
        runtime.available,
        false,
    )
}

fn radio(value: &str, label: &str, status: &str, available: bool, chosen: bool) -> Markup {
    html! {
        label.card.runtime.off[!available] {
            input type="radio" name="runtime" value=(value) checked[chosen] disabled[!available];
            span {
                b { (label) }
                @if !available { span.state.waiting { span.dot aria-hidden="true" {} "not available" } }
            }
            span.muted.small { (words::ticked(status)) }
        }
    }
}
