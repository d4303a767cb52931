//! Commands about the owner itself: `up`, `serve`, `stop`, and the background process.

use std::{process::Stdio, sync::Arc};

use serde_json::json;
use threadline_contract::{Code, Fault};
use threadline_files::complain;
use tokio::net::TcpListener;

use super::Context;
use crate::{
    args::{Serve, Up},
    client::{Matters, end},
    config,
    exit::Exit,
    owner::{self, Mode, Owner, Parent, Places, Started, State, is_stopped, look, stopped},
    screen::words,
};

/// The owner in the foreground, with the pages; or the pages of the one that is there.
pub(super) async fn up(context: &Context, args: Up) -> Result<Exit, Fault> {
    owner::allowed(&context.config.server)?;
    let places = Places::new(&context.config.data);
    let open = !args.no_open && !context.json && context.err.person && has_screen();
    let running = running(&places).await?;
    match &running {
        Some(state) if state.mode == Mode::Up => {
            let client = context.client_for(Matters::Everything).await?;
            let link = client.entry().await?;
            context.print(
                &json!({"url": state.url, "link": link, "pid": state.pid}),
                || {
                    format!(
                        "Threadline is up already (process {}).\n  {link}\n",
                        state.pid
                    )
                },
            );
            if open {
                browse(&link);
            }
            return Ok(Exit::Done);
        }
        _ => {}
    }
    let socket = take_over(context, Mode::Up, &places, running.as_deref()).await?;
    let ready = |started: &Started| {
        let link = started.entry.clone().unwrap_or_else(|| started.url.clone());
        context.print(&json!({"url": started.url, "link": link, "pid": std::process::id()}), || {
            let out = context.out;
            format!(
                "{} Threadline is up at {}\n\n  {}\n\n{}\n",
                out.good("●"),
                out.bold(&started.url),
                link,
                out.dim("The link lets one browser in, once. Ctrl-C ends Threadline; runs go on at the next start."),
            )
        });
        if open {
            browse(&link);
        }
    };
    let config = Arc::clone(&context.config);
    owner::run(config, Mode::Up, None, socket, ready)
        .await
        .map(|()| Exit::Done)
}

/// The owner in the foreground, for a server.
pub(super) async fn serve(context: &Context, args: Serve) -> Result<Exit, Fault> {
    owner::allowed(&context.config.server)?;
    let places = Places::new(&context.config.data);
    let running = running(&places).await?;
    let mut socket = take_over(context, Mode::Serve, &places, running.as_deref()).await?;
    if args.stdio && socket.is_none() {
        // Whoever speaks over standard input asked for no port.
        socket = Some(owner::bind(&context.config.server, Mode::Background).await?);
    }
    let parent = args.stdio.then(Parent::of_this_process);
    let ready = |started: &Started| {
        if args.stdio {
            return;
        }
        context.print(
            &json!({"url": started.url, "pid": std::process::id()}),
            || {
                format!(
                    "Threadline serves {}\nThe token is in {}\n",
                    started.url,
                    words::clean(&places.token().display().to_string())
                )
            },
        );
    };
    let config = Arc::clone(&context.config);
    owner::run(config, Mode::Serve, parent, socket, ready)
        .await
        .map(|()| Exit::Done)
}

/// The owner in the background. What goes wrong is left in the log, for whoever started it.
pub(super) async fn background(context: &Context) -> Result<Exit, Fault> {
    // A session of its own: closing the terminal, or Ctrl-C in it, is not for this process.
    if let Err(e) = rustix::process::setsid() {
        complain!("No session of its own: {e}");
    }
    // Nobody shall be kept from removing the folder that a task happened to be started in.
    let _ = std::env::set_current_dir("/");
    let config = Arc::clone(&context.config);
    owner::run(config, Mode::Background, None, None, |_| {})
        .await
        .map(|()| Exit::Done)
}

/// Needs nothing but the data folder, so other settings may be wrong.
pub(super) async fn stop(context: &Context) -> Result<Exit, Fault> {
    let data = &context.config.data;
    if data.as_os_str().is_empty() {
        return Err(config::fault(&context.mistakes));
    }
    let places = Places::new(data);
    let Some(state) = running(&places).await? else {
        context.print(&json!({"stopped": null}), || {
            let data = words::clean(&data.display().to_string());
            format!("Nothing runs in the background for {data}.\n")
        });
        return Ok(Exit::Done);
    };
    if state.mode != Mode::Background {
        return Err(in_foreground(&state));
    }
    end(&places, &state).await?;
    context.print(&json!({"stopped": state.pid}), || {
        format!(
            "The background process ({}) has ended. Runs go on when the next command starts one.\n",
            state.pid
        )
    });
    Ok(Exit::Done)
}

/// The owner, once it is ready; waits for one that is about to be, or about to go.
async fn running(places: &Places) -> Result<Option<Box<State>>, Fault> {
    for _ in 0..400 {
        match look(places)? {
            Owner::Nobody => return Ok(None),
            Owner::Busy { pid: Some(pid) } if is_stopped(pid) => return Err(stopped(pid)),
            Owner::Ready(state) => return Ok(Some(state)),
            Owner::Busy { .. } => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
    Err(Fault::new(
        Code::OwnerUnreachable,
        format!(
            "Somebody holds {} and does not get ready.",
            places.lock().display()
        ),
    ))
}

/// A background owner is only there because nobody else was; its runs go on here. It is asked to
/// leave when our own socket is bound: if that cannot be, it stays. Only where it has that very
/// address itself must it go first.
async fn take_over(
    context: &Context,
    mode: Mode,
    places: &Places,
    state: Option<&State>,
) -> Result<Option<TcpListener>, Fault> {
    let Some(state) = state else {
        return Ok(None);
    };
    if state.mode != Mode::Background {
        return Err(in_foreground(state));
    }
    let server = &context.config.server;
    let socket = match state.url == owner::url_of(server.listen) {
        true => None,
        false => Some(owner::bind(server, mode).await?),
    };
    if !context.json {
        complain!(
            "{}",
            context.err.dim(&format!(
                "Taking over from the background process ({}).",
                state.pid
            ))
        );
    }
    end(places, state).await?;
    Ok(socket)
}

fn in_foreground(state: &State) -> Fault {
    let pid = state.pid;
    let command = match state.mode {
        Mode::Serve => "threadline serve",
        Mode::Up | Mode::Background => "threadline up",
    };
    Fault::new(
        Code::DataFolderInUse,
        format!(
            "`{command}` (process {pid}) owns this data folder, at {}. To end it: Ctrl-C in its terminal, or kill {pid}",
            state.url
        ),
    )
}

/// Whether a browser could be seen here: in a remote terminal it could not.
fn has_screen() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    cfg!(target_os = "macos") || set("DISPLAY") || set("WAYLAND_DISPLAY") || set("WSL_DISTRO_NAME")
}

/// Opens a link in the person's browser. That it cannot is not worth an error: the link is printed.
fn browse(link: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let mut command = std::process::Command::new(program);
    let opened = command
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Ok(mut child) = opened {
        // Somebody must wait for it, or it stays behind as a dead process.
        std::thread::spawn(move || child.wait());
    }
}
