use pretty_assertions::assert_eq;
use threadline_contract::Code;

use super::*;
use crate::config::Secret;

fn server(listen: &str, allow_remote: bool, token: bool, chosen: bool) -> Server {
    Server {
        listen: listen.parse().unwrap(),
        listen_chosen: chosen,
        allow_remote,
        public_url: None,
        advertise: None,
        allowed_origins: vec![],
        token: token.then(|| Secret::new("0123456789abcdef")),
        pages: false,
        rate_per_second: 0,
        metrics: None,
    }
}

#[test]
fn beyond_this_machine_needs_both_the_flag_and_a_token() {
    let says = |listen, remote, token| {
        allowed(&server(listen, remote, token, true)).map_err(|f| (f.code, f.message))
    };
    assert_eq!(says("127.0.0.1:1", false, false), Ok(()));
    assert_eq!(says("[::1]:1", false, false), Ok(()));
    assert_eq!(says("0.0.0.0:1", true, true), Ok(()));
    let not = |what: &str| {
        Err((
            Code::ListenNotAllowed,
            format!("0.0.0.0:1 is beyond this machine, and {what}."),
        ))
    };
    assert_eq!(
        says("0.0.0.0:1", false, false),
        not("neither --allow-remote nor THREADLINE_TOKEN is set")
    );
    assert_eq!(
        says("0.0.0.0:1", false, true),
        not("--allow-remote is not set")
    );
    assert_eq!(
        says("0.0.0.0:1", true, false),
        not("THREADLINE_TOKEN is not set")
    );
}

#[tokio::test]
async fn a_taken_port_is_said_or_avoided() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let code =
        |found: Result<TcpListener, Fault>| found.map(|_| ()).map_err(|f| (f.code, f.message));
    let in_use = Err((Code::PortInUse, format!("{address} is taken.")));
    assert_eq!(
        code(bind(&server(&address, false, false, true), Mode::Background).await),
        in_use
    );
    assert_eq!(
        code(bind(&server(&address, false, false, false), Mode::Serve).await),
        in_use
    );
    let other = bind(&server(&address, false, false, false), Mode::Background)
        .await
        .unwrap();
    assert!(other.local_addr().unwrap().ip().is_loopback());
    let nowhere = bind(&server("192.0.2.1:1", false, false, true), Mode::Serve).await;
    assert_eq!(
        nowhere.map(|_| ()).map_err(|f| f.code),
        Err(Code::ConfigInvalid)
    );
}

#[test]
fn a_server_is_reached_from_here_by_an_address_of_here() {
    for (address, want) in [
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        ("0.0.0.0:2", "http://127.0.0.1:2"),
        ("[::]:3", "http://[::1]:3"),
        ("[::1]:4", "http://[::1]:4"),
    ] {
        assert_eq!(url(address.parse().unwrap()), want);
    }
}
