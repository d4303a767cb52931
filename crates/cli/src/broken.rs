//! A fault in Threadline itself: said in a plain sentence, and ended with a number of its own.

use std::{
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    process::ExitCode,
};

use threadline_contract::{Code, Fault};
use threadline_files::complain;

use crate::{exit::Exit, output::print_json};

/// Does something; where it breaks, that is said and nothing of it goes on.
pub(crate) fn guarded(json: bool, work: impl FnOnce() -> ExitCode) -> ExitCode {
    panic::set_hook(Box::new(move |info| complain!("{}", sentence(info))));
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(exit) => exit,
        Err(_) => {
            if json {
                let fault = Fault::new(Code::Internal, Code::Internal.advice());
                let exit = Exit::Broken.number();
                print_json(&serde_json::json!({"error": fault, "exitCode": exit}));
            }
            Exit::Broken.into()
        }
    }
}

/// What broke, and where.
fn sentence(info: &PanicHookInfo<'_>) -> String {
    let what = info.payload_as_str().unwrap_or("no reason was given");
    let place = info.location().map(ToString::to_string);
    format!(
        "error: Something inside Threadline broke ({what}; {}). That is a fault in Threadline: please report it. What was begun is taken up at the next start.",
        place.as_deref().unwrap_or("an unknown place")
    )
}

#[cfg(test)]
#[path = "broken_tests.rs"]
mod tests;
