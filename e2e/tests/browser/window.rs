//! A browser window, and what a person does with it.

use std::{
    ffi::OsString,
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};

use crate::up::Up;

/// How long something may take to show on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A window and the programs behind it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Window {
    client: Client,
    driver: String,
    http: reqwest::Client,
    url: String,
    link: String,
}

/// Opens a window, does something with it, and closes it whatever happened.
pub(crate) async fn browse<F>(up: Up, what: impl FnOnce(Window, Arc<Up>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let up = Arc::new(up);
    let folder = tempfile::tempdir().unwrap();
    let (mut driver, address) = driver();
    let window = Window::open(&address, folder.path(), &up).await;
    let outcome = tokio::spawn(what(window.clone(), Arc::clone(&up))).await;
    if outcome.is_err() {
        eprintln!("{}\n{}", window.text("body").await, up.world.log());
    }
    window.client.clone().close().await.unwrap();
    driver.kill().unwrap();
    driver.wait().unwrap();
    if let Err(e) = outcome {
        std::panic::resume_unwind(e.into_panic());
    }
}

fn program(variable: &str, usual: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| usual.into())
}

fn driver() -> (Child, String) {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let driver = Command::new(program("THREADLINE_TEST_CHROMEDRIVER", "chromedriver"))
        .arg(format!("--port={}", free.port()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver (THREADLINE_TEST_CHROMEDRIVER)");
    (driver, format!("http://{free}"))
}

impl Window {
    async fn open(driver: &str, folder: &std::path::Path, up: &Up) -> Self {
        let options = json!({
            "binary": which(&program("THREADLINE_TEST_CHROMIUM", "chromium")),
            "args": [
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
                "--window-size=1440,900", format!("--user-data-dir={}", folder.display()),
            ],
        });
        let wanted = json!({"goog:chromeOptions": options, "pageLoadStrategy": "normal"});
        let Value::Object(wanted) = wanted else {
            unreachable!()
        };
        let begun = Instant::now();
        let client = loop {
            let mut builder = ClientBuilder::new(HttpConnector::new());
            match builder.capabilities(wanted.clone()).connect(driver).await {
                Ok(client) => break client,
                Err(e) => assert!(begun.elapsed() < PATIENCE, "no browser: {e}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        Self {
            client,
            driver: driver.to_owned(),
            http: up.world.http.clone(),
            url: up.world.url.clone(),
            link: up.link.clone(),
        }
    }

    /// Goes to an address of ours.
    pub(crate) async fn go(&self, path: &str) {
        self.client
            .goto(&format!("{}{path}", self.url))
            .await
            .unwrap();
    }

    /// Comes in by the link that was printed.
    pub(crate) async fn enter(&self) {
        self.client.goto(&self.link).await.unwrap();
        assert_eq!(self.path().await, "/");
    }

    /// Where it is.
    pub(crate) async fn path(&self) -> String {
        let url = self.client.current_url().await.unwrap();
        match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        }
    }

    /// The title.
    pub(crate) async fn title(&self) -> String {
        self.client.title().await.unwrap()
    }

    /// Asks the page.
    pub(crate) async fn js(&self, expression: &str) -> Value {
        let script = format!("return {expression}");
        self.client
            .execute(&script, vec![])
            .await
            .unwrap_or_else(|e| panic!("{expression}: {e}"))
    }

    /// Waits until the page says yes.
    pub(crate) async fn until(&self, expression: &str) {
        let begun = Instant::now();
        loop {
            let said = self
                .client
                .execute(&format!("return Boolean({expression})"), vec![])
                .await;
            // While one page becomes another there is nobody to ask.
            if said.is_ok_and(|said| said == json!(true)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "never true: {expression}");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Waits until something with these words is in sight.
    pub(crate) async fn sees(&self, css: &str, words: &str) {
        let (css, words) = (json!(css), json!(words));
        let shows = format!("(e) => e.checkVisibility() && e.innerText.includes({words})");
        self.until(&format!(
            "[...document.querySelectorAll({css})].some({shows})"
        ))
        .await;
    }

    /// The text of the first of these.
    pub(crate) async fn text(&self, css: &str) -> String {
        let text = self
            .js(&format!(
                "document.querySelector({})?.innerText ?? ''",
                json!(css)
            ))
            .await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// The texts of all of these.
    pub(crate) async fn texts(&self, css: &str) -> Vec<String> {
        let all = self
            .js(&format!(
                "[...document.querySelectorAll({})].map((e) => e.innerText.trim())",
                json!(css)
            ))
            .await;
        serde_json::from_value(all).unwrap()
    }

    /// Clicks the first of these, as a mouse does that has waited until nothing moves any more.
    pub(crate) async fn click(&self, css: &str) {
        self.until("!document.querySelector('[data-settling]')")
            .await;
        let element = self
            .client
            .wait()
            .at_most(PATIENCE)
            .for_element(Locator::Css(css))
            .await;
        element
            .unwrap_or_else(|e| panic!("{css}: {e}"))
            .click()
            .await
            .unwrap_or_else(|e| panic!("{css}: {e}"));
    }

    /// Clicks the button with these words.
    pub(crate) async fn press(&self, words: &str) {
        self.until("!document.querySelector('[data-settling]')")
            .await;
        let path = format!(
            "//*[self::button or self::a or self::summary][contains(normalize-space(.), {words:?})]"
        );
        let element = self
            .client
            .wait()
            .at_most(PATIENCE)
            .for_element(Locator::XPath(&path))
            .await;
        element
            .unwrap_or_else(|e| panic!("{words}: {e}"))
            .click()
            .await
            .unwrap_or_else(|e| panic!("{words}: {e}"));
    }

    /// Types into what has the focus; `\u{e007}` is Enter, and so on.
    pub(crate) async fn keys(&self, keys: &str) {
        self.client
            .active_element()
            .await
            .unwrap()
            .send_keys(keys)
            .await
            .unwrap();
    }

    /// Hits one key, whatever has the focus, as `KeyboardEvent.key` names it.
    pub(crate) async fn hit(&self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, Some("\r")),
            "Escape" => (27, None),
            "ArrowDown" => (40, None),
            _ => (u32::from(key.as_bytes()[0].to_ascii_uppercase()), Some(key)),
        };
        // Only a space does something when it is let go.
        let kinds: &[&str] = if key == " " {
            &["keyDown", "keyUp"]
        } else {
            &["keyDown"]
        };
        for &kind in kinds {
            let mut event = json!({"type": kind, "key": key, "windowsVirtualKeyCode": code});
            if let Some(text) = text.filter(|_| kind == "keyDown") {
                event["text"] = json!(text);
            }
            self.cdp("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Types into the first of these.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        let element = self
            .client
            .wait()
            .at_most(PATIENCE)
            .for_element(Locator::Css(css))
            .await
            .unwrap();
        element.send_keys(text).await.unwrap();
    }

    /// A command of the browser's own protocol.
    pub(crate) async fn cdp(&self, command: &str, params: Value) -> Value {
        let session = self.client.session_id().await.unwrap().unwrap();
        let url = format!("{}/session/{session}/goog/cdp/execute", self.driver);
        let body = json!({"cmd": command, "params": params});
        let answer = self.http.post(url).json(&body).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        answer["value"].clone()
    }
}

/// A program's path: the driver does not search for it.
fn which(program: &std::ffi::OsStr) -> String {
    let path = std::path::Path::new(program);
    if path.components().count() > 1 {
        return path.display().to_string();
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths)
        .map(|folder| folder.join(path))
        .find(|p| p.exists());
    found
        .expect("chromium (THREADLINE_TEST_CHROMIUM)")
        .display()
        .to_string()
}
