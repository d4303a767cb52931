//! The page on which a person signs in with a token, and the one on which they sign out.

use maud::{Markup, html};
use threadline_contract::Principal;

use super::{Frame, Here, bare};
use crate::{Web, shown};

/// The form that takes a token. `next` is where it leads; `wrong` says why the last try did not work.
pub(crate) fn form(next: &str, wrong: Option<&str>) -> Markup {
    bare(
        "Sign in",
        &html! {
            h1 { "Sign in" }
            form.sign-in method="post" action="/sign-in" {
                input type="hidden" name="next" value=(shown::verbatim(next));
                label for="token" { "Token" }
                input #token type="password" name="token" required autofocus autocomplete="current-password"
                    autocapitalize="off" spellcheck="false" maxlength="512"
                    aria-invalid=[wrong.map(|_| "true")] aria-describedby=[wrong.map(|_| "wrong")];
                @if let Some(wrong) = wrong { p.error #wrong role="alert" { (wrong) } }
                button.button.primary type="submit" { "Sign in" }
            }
            p.muted.small {
                "Whoever runs this server gives out tokens. On the server itself, "
                code { "threadline token show" } " prints one."
            }
            p.muted.small {
                "Signed in already, and led here by another site? "
                a href=(next) { "Continue" }
            }
        },
    )
}

/// Who is signed in, and the way out.
pub(crate) fn leave(web: &Web, by: &Principal) -> Markup {
    let frame = Frame {
        title: "Sign out",
        here: Here::SignOut,
        needs: None,
        events: None,
        viewer: web.viewer(by),
    };
    frame.around(&html! {
        main.page #main {
            header { h1 { "Sign out" } }
            p {
                "This browser is signed in with " b { (by.label) }
                " to the account " b { (by.account) } ". It may: " (by.scopes) "."
            }
            form method="post" action="/sign-out" {
                button.button.primary type="submit" { "Sign out" }
            }
        }
    })
}
